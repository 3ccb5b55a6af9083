"""When checkpoints of a run are written, and how a peer resumes from one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.errors import CheckpointError, ConfigError
from agent.storage import checkpoint

State = dict[str, Any]


class Checkpoints:
    """The checkpoints in a run's `savedir`: the current one, and those that are kept for good.

    Attributes:
        path: The current checkpoint.
    """

    def __init__(self, savedir: Path, interval: float, history_interval: float) -> None:
        """Set the intervals, in seconds of training time, between two checkpoints of either kind."""
        self.path = savedir / "checkpoint.safetensors"
        self._interval, self._history_interval = interval, history_interval
        self._saved_at = self._kept_at = 0.0

    def prepare(self) -> None:
        """Create the directory, and prove that checkpoints can be written there.

        Raises:
            CheckpointError: They cannot.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path.parent):
                pass
        except OSError as error:
            raise CheckpointError(
                f"savedir={self.path.parent}: cannot write checkpoints there: {error.strerror}"
            ) from None

    def resume(self, load: Callable[[State], None]) -> bool:
        """Load the current checkpoint, if there is one; return whether there is.

        Raises:
            ConfigError: It was trained with settings that a model cannot change.
            CheckpointError: It is damaged, or `load` cannot use it.
        """
        if not self.path.exists():
            return False
        saved = checkpoint.load(self.path)
        try:
            load(saved)
        except ConfigError:
            raise
        except (AttributeError, KeyError, TypeError, RuntimeError, ValueError) as error:
            reason = f"{type(error).__name__} {error}"
            raise CheckpointError(
                f"{self.path}: no checkpoint of a run of this version of herd: {reason}"
            ) from None
        return True

    def resumed_at(self, seconds: float) -> None:
        """Count the intervals from this training time on."""
        self._saved_at = self._kept_at = seconds

    def save(self, state: State) -> None:
        """Replace the current checkpoint."""
        checkpoint.save(self.path, state)

    def save_when_due(self, seconds: float, updates: int, state: Callable[[], State]) -> None:
        """Write the checkpoints that are due; one that fails is tried again after the next interval.

        Args:
            seconds: Training time so far.
            updates: Optimizer steps so far; names a checkpoint that is kept.
            state: Returns the content of a checkpoint.

        Raises:
            CheckpointError: It cannot be written.
        """
        if seconds - self._saved_at >= self._interval:
            self._saved_at = seconds
            self.save(state())
        if seconds - self._kept_at >= self._history_interval:
            self._kept_at = seconds
            checkpoint.save(checkpoint.history(self.path, updates), state())


def dump_batch(path: Path, batch: Mapping[str, Any], progress: Mapping[str, Any]) -> str:
    """Write the batch that training failed on, for debugging; return where it is, or why not."""
    try:
        checkpoint.save(path, {"batch": batch, "progress": progress})
    except CheckpointError as error:
        return str(error)
    return f"the last batch is in {path}"
