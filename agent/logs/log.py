"""Logs: where the rows of a run go.

Each kind of log is a module of its own, `tsv_log` and `wandb_log`, with a class that has the methods of
`Log`; `Logs` is a log made of several. A further kind needs such a module and a line where `Logs` is made.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

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
        """Write the row to each log in turn."""
        for log in self._logs:
            log.write(row)

    def close(self) -> None:
        """Close each log."""
        for log in self._logs:
            log.close()
