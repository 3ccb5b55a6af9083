"""Logs: where the rows of a run go.

Each kind of log is a module of its own, `tsv_log`, `wandb_log` and `tensorboard_log`, with a class that has
the methods of `Log`; `Logs` is a log made of several. A further kind needs such a module and a line where
`Logs` is made.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from agent.errors import LogError

Row = Mapping[str, Any]  # column name to number or string


class Log(Protocol):
    """A destination of rows."""

    def write(self, row: Row) -> None:
        """Record one row: column name to number or string."""

    def close(self) -> None:
        """End the log; nothing may be written afterwards."""


class Logs:
    """Several logs as one."""

    def __init__(self, logs: Sequence[Log]) -> None:
        self._logs = list(logs)

    def write(self, row: Row) -> None:
        """Write the row to each log, even if another one fails.

        Raises:
            LogError: a log could not be written; the first such error.
        """
        _each(lambda log: log.write(row), self._logs)

    def close(self) -> None:
        """Close each log, even if another one fails.

        Raises:
            LogError: a log could not be closed; the first such error.
        """
        _each(lambda log: log.close(), self._logs)


def _each(action: Callable[[Log], None], logs: Sequence[Log]) -> None:
    errors = []
    for log in logs:
        try:
            action(log)
        except LogError as error:
            errors.append(error)
    if errors:
        raise errors[0]
