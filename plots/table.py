"""Logs at this moment: tab-separated files that may still be growing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

LOG = "logs.tsv"
META = "meta.json"


class PlotError(Exception):
    """The files cannot be plotted as asked; the message is one line for the user."""


@dataclass(frozen=True)
class Table:
    """A log: its column names, and the cells of each complete row."""

    path: Path
    names: list[str]
    rows: list[list[str]]

    def column(self, name: str) -> np.ndarray:
        """Return the values of a column `[rows]`, NaN without a finite number or without such a column."""
        if name not in self.names:
            return np.full(len(self.rows), np.nan)
        index = self.names.index(name)
        values = np.array([_number(row[index]) for row in self.rows], dtype=float)
        values[~np.isfinite(values)] = np.nan
        return values

    @cached_property
    def meta(self) -> dict[str, Any]:
        """The content of the `meta.json` beside the log; empty if that is missing or damaged."""
        try:
            meta = json.loads((self.path.parent / META).read_text())
        except (OSError, ValueError):
            return {}
        return meta if isinstance(meta, dict) and isinstance(meta.get("config"), dict) else {}

    def setting(self, key: str) -> Any:
        """Return a setting of the run; `key` is as on the command line (`algorithm.name`).

        Raises:
            PlotError: The run's configuration is missing, or has no such key.
        """
        value = self.meta.get("config")
        if value is None:
            raise PlotError(f"{self.path.parent / META}: no configuration there to look {key!r} up in")
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                raise PlotError(f"{self.path.parent / META}: the configuration has no key {key!r}")
            value = value[part]
        return value


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def _is_binary(line: bytes) -> bool:
    """Return whether the first line of a file is no text."""
    try:
        return "\0" in line.decode()
    except UnicodeDecodeError:
        return True


def read_table(path: Path) -> Table:
    """Return the complete lines of a file of tab-separated values; without any, the table is empty.

    Raises:
        PlotError: The file is missing, cannot be read, or is no text.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PlotError(f"{path}: {error.strerror}") from None
    if _is_binary(content.split(b"\n", 1)[0]):
        raise PlotError(f"{path}: a binary file; a log is text, a {LOG}")
    text = content.decode(errors="replace").replace("\r\n", "\n")
    *lines, _half_written = text.split("\n")
    if not lines:
        return Table(path, [], [])
    names, *rows = (line.split("\t") for line in lines)
    return Table(path, names, [row for row in rows if len(row) == len(names)])


def find_logs(paths: Iterable[Path]) -> list[Path]:
    """Return the logs at these paths: a directory stands for every `logs.tsv` in it, sorted.

    Raises:
        PlotError: A directory holds none.
    """
    found: dict[Path, Path] = {}  # a log with several links counts once
    for path in paths:
        logs = sorted(path.rglob(LOG)) if path.is_dir() else [path]
        if not logs:
            raise PlotError(f"{path}: there is no {LOG} in this directory")
        for log in logs:
            found.setdefault(log.resolve(), log)
    return list(found.values())
