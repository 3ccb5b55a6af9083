"""Weights & Biases: the rows of `logs.tsv` there."""

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from agent.errors import LogError
from agent.logs.log import Row
from agent.logs.metadata import hide_secrets


class WandbLog:
    """The rows of a run on Weights & Biases, against the global step.

    It keeps one row per step and no row that goes back, so that a run resumed from a checkpoint that is older
    than its last row continues in order. `WANDB_MODE=offline` needs no account.
    """

    def __init__(
        self,
        *,
        project: str,
        name: str,
        config: Mapping[str, Any],
        directory: str | os.PathLike[str],
        entity: str | None = None,
        group: str | None = None,
        run_id: str | None = None,
        step_column: str = "step",
        last_step: float = -1,
    ) -> None:
        """Start a run, or continue the one with `run_id`.

        Args:
            project: The project on Weights & Biases.
            name: The name of the run there.
            config: The settings to show; values of keys that name a secret are hidden.
            directory: Where wandb keeps its files.
            entity: User or team; None for the user's default.
            group: Runs that are shown together, here the peers of one training.
            run_id: The `run_id` of the run to continue, from its checkpoint; None starts a new one.
            step_column: The column of the global step.
            last_step: The step of the last row of the run that is continued; rows up to it are left out.

        Raises:
            LogError: wandb is not installed, or the run cannot be started.
        """
        try:
            import wandb
        except ImportError:
            raise LogError("wandb=true: wandb is not installed; run: pip install wandb") from None
        logging.getLogger("wandb").setLevel(logging.ERROR)
        try:
            self.run = wandb.init(
                project=project,
                name=name,
                config=hide_secrets(config),
                dir=os.fspath(directory),
                entity=entity,
                group=group,
                id=run_id,
                resume=None if run_id is None else "allow",
                settings=wandb.Settings(silent=True, console="off"),
            )
        except Exception as error:
            reason = " ".join(str(error).split())
            raise LogError(f"wandb=true: {reason} (WANDB_MODE=offline needs no account)") from None
        self._step_column, self._failed = step_column, False
        self._last_step = max(int(last_step), self.run.step - 1)

    @property
    def run_id(self) -> str:
        """The id with which a later process continues the run; it belongs into the checkpoint."""
        return str(self.run.id)

    def write(self, row: Row) -> None:
        """Log the row at its global step, without the missing values.

        Raises:
            LogError: wandb has failed; once, and later rows are left out.
        """
        step = int(row[self._step_column])
        if step <= self._last_step or self._failed:
            return
        self._last_step = step
        values = {name: value for name, value in row.items() if value is not None}
        self._call(lambda: self.run.log(values, step=step))

    def close(self) -> None:
        """End the run when its rows are on disk or sent.

        Raises:
            LogError: wandb has failed.
        """
        if not self._failed:
            self._call(self.run.finish)

    def _call(self, action: Callable[[], object]) -> None:
        """Call wandb, whose service may have ended and then raises errors of many kinds."""
        try:
            action()
        except Exception as error:
            self._failed = True
            reason = " ".join(str(error).split()) or type(error).__name__
            raise LogError(f"wandb: {reason}; no further rows go there") from None
