"""The files of one peer's run beside its checkpoints: logs, metadata, and links to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from agent.config import Config
from agent.errors import LogError
from agent.logs.columns import columns
from agent.logs.log import Log, Logs, Row
from agent.logs.metadata import write_metadata
from agent.logs.tensorboard_log import TensorboardLog
from agent.logs.tsv_log import TsvLog
from agent.logs.wandb_log import WandbLog
from agent.storage.files import symlink


class RunFiles:
    """Where this peer writes.

    Attributes:
        wandb_id: Identifies the run on Weights & Biases, to continue it; None if there is none.
    """

    def __init__(self, config: Config, say: Callable[[str], None]) -> None:
        """Write nothing yet.

        Args:
            config: The peer's settings.
            say: Prints a line for the user.
        """
        self.config, self.say = config, say
        self.savedir, self.localdir = Path(config.savedir), Path(config.localdir)
        self.wandb_id: str | None = None
        self._logs = Logs([])
        self._was_leader = False

    def open(self, reward_names: Sequence[str], updates: int) -> None:
        """Create the directory, the metadata and the logs, or continue them.

        Args:
            reward_names: Names of the task's reward terms.
            updates: Updates of the model now; rows of later ones tell of lost updates and are removed.

        Raises:
            LogError: A log cannot be opened.
            OSError: The directory cannot be created.
        """
        self.localdir.mkdir(parents=True, exist_ok=True)
        settings = asdict(self.config)
        write_metadata(self.localdir / "meta.json", settings, peer=self.config.local_name)
        tsv = TsvLog(self.localdir / "logs.tsv", columns(reward_names))
        if cut := tsv.cut("updates", updates):
            self.say(
                f"took back {cut} rows of logs.tsv: the updates they describe were lost and are learned again"
            )
        symlink(self.savedir, "latest")
        if not symlink(self.localdir / "logs.tsv", "logs.tsv"):
            self.say("logs.tsv in this directory is a regular file, so it does not point at this run's log")
        logs: list[Log] = [tsv]
        last = tsv.last_row()
        last_step = float(last["step"]) if last else -1
        if self.config.tensorboard:
            logs.append(TensorboardLog(self.localdir / "tensorboard", last_step=last_step))
        if self.config.wandb:
            wandb = WandbLog(
                project=self.config.project,
                name=self.config.local_name,
                config=settings,
                directory=self.localdir,
                entity=self.config.entity,
                group=self.config.group,
                run_id=self.wandb_id,
                last_step=last_step,
            )
            self.wandb_id = wandb.run_id
            logs.append(wandb)
        self._logs = Logs(logs)

    def write(self, row: Row) -> None:
        """Log a row; a row that cannot be written is no reason to stop training."""
        try:
            self._logs.write(row)
        except LogError as error:
            self.say(f"warning: {error}; training goes on")

    def link_leader(self, is_leader: bool) -> None:
        """Link this peer's files as `leader-NNN` in `savedir` each time that it becomes the leader."""
        if is_leader and not self._was_leader:
            number = len(list(self.savedir.glob("leader-*")))
            symlink(self.localdir, self.savedir / f"leader-{number:03d}")
        self._was_leader = is_leader

    def close(self) -> None:
        """Close the logs."""
        try:
            self._logs.close()
        except LogError as error:
            self.say(f"warning: {error}")
