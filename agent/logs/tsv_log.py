"""`logs.tsv`: a table of tab-separated values whose columns are declared before the first row.

Each row is written as one whole line, straight to the operating system, so that others can read the file
(`plot.py`, `tail -f`) while it grows. Its rules:

- The header is the first line. A file with another header is never appended to: the error says what differs.
- A missing value is an empty cell; a name that was not declared is an error.
- A killed writer leaves a last line without its newline. It is cut off when the file is opened.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.errors import LogError
from agent.logs.log import Row


@dataclass(frozen=True)
class Column:
    """A declared column of `logs.tsv`.

    Attributes:
        name: Its heading, without white space.
        unit: `"m/s"`, `"steps/s"`, …; `""` if it has none.
        description: Its meaning, one line for the documentation.
    """

    name: str
    unit: str
    description: str

    def __post_init__(self) -> None:
        if not self.name or len(self.name.split()) != 1 or self.name != self.name.strip():
            raise ValueError(f"column name {self.name!r}: it must be one word without white space")


class TsvLog:
    """A file of tab-separated values that rows are appended to; the module's docstring states the format."""

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[Column]) -> None:
        """Open `path`: create it with its header, or repair and continue it.

        Args:
            path: The file. Its directory must exist.
            columns: The columns of every row, in this order.

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
        """Check the header, or write it, and cut off a half-written last line."""
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
        """Add a whole line or, where that fails, nothing."""
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
        """Append one row, which readers of the file see whole on return.

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
        """Return the newest row as it stands in the file (name to text), or None if there is no row yet."""
        self._file.seek(0)
        lines = self._file.read().decode().splitlines()
        if len(lines) < 2:
            return None
        return dict(zip(self._names, lines[-1].split("\t"), strict=True))

    def cut(self, column: str, last: float) -> int:
        """Remove the rows at the end in which a counter is beyond `last`; return how many.

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
            raise LogError(f"{self._path}: cannot remove rows: {error.strerror}") from None
        return cut

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _check_header(path: Path, found: list[str], declared: list[str]) -> None:
    """Raise LogError with what differs unless both lists are the same."""
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
    raise LogError(f"{path}: its columns differ: {'; '.join(differences)}; move it away to start a new one")


def _cell(name: str, value: Any) -> str:
    """Return one cell: 12 significant digits for floats, which keep the microseconds of a Unix time."""
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
