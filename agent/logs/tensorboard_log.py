"""TensorBoard: the rows of `logs.tsv` there."""

import os
from pathlib import Path

from agent.errors import LogError
from agent.logs.log import Row

INSTALL = "pip install -e '.[tensorboard]'"  # in the checkout
FLUSH_SECONDS = 10


class TensorboardLog:
    """The numbers of a run as scalars for TensorBoard, against the global step.

    Each process adds an event file to the directory, and TensorBoard joins them. No row goes back: a run that
    is continued leaves out rows up to its last one, and tells TensorBoard to discard later ones, whose
    updates were lost.
    """

    def __init__(
        self, directory: str | os.PathLike[str], *, step_column: str = "step", last_step: float = -1
    ) -> None:
        """Start an event file.

        Args:
            directory: The run's directory for TensorBoard.
            step_column: The column of the global step.
            last_step: The step of the last row of the run that is continued; rows up to it are left out.

        Raises:
            LogError: TensorBoard is not installed, or the file cannot be written.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise LogError(f"tensorboard=true: tensorboard is not installed; run: {INSTALL}") from None
        directory = Path(directory)
        try:
            self.writer = SummaryWriter(
                os.fspath(directory), purge_step=int(last_step) + 1, flush_secs=FLUSH_SECONDS
            )
        except OSError as error:
            raise LogError(f"tensorboard=true: {directory}: {error.strerror or error}") from None
        self._step_column, self._last_step, self._failed = step_column, int(last_step), False

    def write(self, row: Row) -> None:
        """Add the row's numbers at its global step; text and missing values are left out.

        Raises:
            LogError: The file cannot be written; once, and later rows are left out.
        """
        step = int(row[self._step_column])
        if step <= self._last_step or self._failed:
            return
        self._last_step = step
        try:
            for name, value in row.items():
                if value is not None and not isinstance(value, str):
                    self.writer.add_scalar(name, float(value), step)
        except Exception as error:  # the writer's thread passes on errors of the disk
            raise self._failure(error) from None

    def close(self) -> None:
        """Write what is left and close the file.

        Raises:
            LogError: The file cannot be written.
        """
        if self._failed:
            return
        try:
            self.writer.close()
        except Exception as error:
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> LogError:
        self._failed = True
        reason = " ".join(str(error).split()) or type(error).__name__
        return LogError(f"tensorboard: {reason}; no further rows go there")
