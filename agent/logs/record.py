"""Where a run's rows go: `logs.tsv`, and Weights & Biases.

`logs.tsv` is a table of tab-separated values with columns that are declared before the first row. It is
written one whole line at a time, straight to the operating system, so that it can be read (`plot.py`, `tail
-f`) while it grows. Its rules:

- The header is the first line. A file with another header is never appended to: the error says what differs.
- A missing value is an empty cell; a name that was not declared is an error.
- A last line without its newline is what a killed writer leaves. It is cut off when the file is opened.

All logs have the same two methods, `write(row)` and `close()`, and `Logs` is a log made of several.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agent.errors import LogError
from agent.logs.metadata import hide_secrets

Row = Mapping[str, Any]


class Log(Protocol):
    """Somewhere that rows go."""

    def write(self, row: Row) -> None:
        """Records one row: column name to number or string."""

    def close(self) -> None:
        """Ends the log; nothing may be written afterwards."""


@dataclass(frozen=True)
class Column:
    """A declared column of `logs.tsv`.

    Attributes:
        name: Its heading, without white space.
        unit: `"m/s"`, `"steps/s"`, …; `""` if it has none.
        description: One line for the documentation.
    """

    name: str
    unit: str
    description: str

    def __post_init__(self) -> None:
        if not self.name or len(self.name.split()) != 1 or self.name != self.name.strip():
            raise ValueError(f"column name {self.name!r}: it must be one word without white space")


class TsvLog:
    """Appends rows to a file of tab-separated values; the module's docstring states the format."""

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[Column]) -> None:
        """Opens `path`, creates it with its header, or repairs and continues it.

        Args:
            path: The file. Its directory must exist.
            columns: What every row holds, in this order.

        Raises:
            LogError: the file has other columns, is no log, or cannot be written.
            ValueError: two columns have the same name.
        """
        self._path = Path(path)
        self._names = [column.name for column in columns]
        repeated = sorted({name for name in self._names if self._names.count(name) > 1})
        if repeated:
            raise ValueError(f"columns declared twice: {', '.join(repeated)}")
        try:
            # Unbuffered, in append mode: each write is one system call that adds one whole line.
            self._file = open(self._path, "a+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise LogError(f"{self._path}: cannot open it for writing: {error.strerror}") from None
        try:
            self._repair()
        except BaseException:
            self._file.close()
            raise

    def _repair(self) -> None:
        """Checks the header, or writes it, and cuts off a half-written last line."""
        header = "\t".join(self._names).encode() + b"\n"
        self._file.seek(0)
        content = self._file.read()
        first_line, newline, _ = content.partition(b"\n")
        if newline:
            _check_header(self._path, first_line.decode(errors="replace").split("\t"), self._names)
            self._file.truncate(content.rfind(b"\n") + 1)
        elif header.startswith(content):  # new, empty, or killed within the header
            self._file.truncate(0)
            self._append(header)
        else:
            raise LogError(f"{self._path}: not a log of this program (no header line); move it away")

    def _append(self, line: bytes) -> None:
        """Adds a whole line or, where that fails, nothing."""
        end = self._file.seek(0, os.SEEK_END)
        try:
            if self._file.write(line) == len(line):
                return
            reason = "the disk is full"
        except OSError as error:
            reason = str(error.strerror)
        self._file.truncate(end)
        raise LogError(f"{self._path}: cannot write a row: {reason}")

    def write(self, row: Row) -> None:
        """Appends one row, complete on return for everyone who reads the file.

        Args:
            row: Column name to number, 0-d tensor or array, bool (written as 0 or 1) or string. A column that
                is missing or None becomes an empty cell.

        Raises:
            KeyError: the row has names that were not declared.
            ValueError: a string holds a tab or a line break.
            LogError: the disk is full or the file cannot be written.
        """
        unknown = [name for name in row if name not in self._names]
        if unknown:
            raise KeyError(f"{self._path}: undeclared columns: {', '.join(unknown)}")
        cells = [_cell(name, row.get(name)) for name in self._names]
        self._append("\t".join(cells).encode() + b"\n")

    def last_row(self) -> dict[str, str] | None:
        """The newest row as it stands in the file (name to text), or None if there is no row yet."""
        self._file.seek(0)
        lines = self._file.read().decode().splitlines()
        if len(lines) < 2:
            return None
        return dict(zip(self._names, lines[-1].split("\t"), strict=True))

    def cut(self, column: str, last: float) -> int:
        """Takes back the rows at the end in which a counter is beyond `last`; returns how many.

        Raises:
            LogError: the file cannot be written.
        """
        self._file.seek(0)
        lines = self._file.read().splitlines(keepends=True)
        index, cut = self._names.index(column), 0
        while len(lines) > 1 and float(lines[-1].split(b"\t")[index] or 0) > last:
            lines.pop()
            cut += 1
        try:
            self._file.truncate(sum(map(len, lines)))
        except OSError as error:
            raise LogError(f"{self._path}: cannot take back rows: {error.strerror}") from None
        return cut

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _check_header(path: Path, found: list[str], declared: list[str]) -> None:
    """Raises LogError, saying what differs, unless both lists are the same."""
    if found == declared:
        return
    missing = [name for name in declared if name not in found]
    unknown = [name for name in found if name not in declared]
    differences = []
    if missing:
        differences.append(f"it lacks {', '.join(missing)}")
    if unknown:
        differences.append(f"it has {', '.join(unknown)} that this version does not write")
    if not differences:
        differences.append(f"the order is {', '.join(found)} instead of {', '.join(declared)}")
    raise LogError(
        f"{path}: its columns are others: {'; '.join(differences)}; move it away to start a new one"
    )


def _cell(name: str, value: Any) -> str:
    """One cell: 12 significant digits for floats, which keeps microseconds of a Unix time."""
    if value is None:
        return ""
    if hasattr(value, "item"):  # tensors, arrays and scalars of NumPy
        value = value.item()
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return f"{value:.12g}"
    text = str(value)
    if any(character in text for character in "\t\n\r"):
        raise ValueError(f"{name}={text!r}: tabs and line breaks are not allowed in a cell")
    return text


class WandbLog:
    """The same rows on Weights & Biases, against the global step.

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
        """Starts a run, or continues the one with `run_id`.

        Args:
            project: The project on Weights & Biases.
            name: What the run is called there.
            config: The settings to show; values of keys that name a secret are hidden.
            directory: Where wandb keeps its files.
            entity: User or team; None for the user's default.
            group: Runs that are shown together, here the peers of one training.
            run_id: The `run_id` of the run to continue, from its checkpoint; None starts a new one.
            step_column: The row's entry that holds the global step.
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
            self._run = wandb.init(
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
        self._step_column = step_column
        self._last_step = max(int(last_step), self._run.step - 1)

    @property
    def run_id(self) -> str:
        """Keep this in the checkpoint: it is what continues the run."""
        return self._run.id

    def write(self, row: Row) -> None:
        """Logs the row at its global step, without the missing values."""
        step = int(row[self._step_column])
        if step <= self._last_step:
            return
        self._last_step = step
        self._run.log({name: value for name, value in row.items() if value is not None}, step=step)

    def close(self) -> None:
        """Ends the run; waits until its rows are on disk or sent."""
        self._run.finish()


class Logs:
    """Several logs as one."""

    def __init__(self, logs: Sequence[Log]) -> None:
        self._logs = list(logs)

    def write(self, row: Row) -> None:
        """Writes the row to each log in turn."""
        for log in self._logs:
            log.write(row)

    def close(self) -> None:
        """Closes each log."""
        for log in self._logs:
            log.close()
