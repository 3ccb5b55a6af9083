"""The files of one run: its peers' logs and descriptions, and the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plots.table import LOG, META, PlotError, Table, find_logs, read_table

CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Run:
    """The files that one training run has written.

    Attributes:
        directory: `savedir` of the run, or `localdir` of a peer.
        peers: The logs with rows, first the one with a `meta.json` that has the most rows.
        checkpoint: The newest policy; None if there is none.
    """

    directory: Path
    peers: Sequence[Table]
    checkpoint: Path | None

    @property
    def log(self) -> Table:
        """The log whose group columns describe the whole run."""
        return self.peers[0]

    @property
    def meta(self) -> dict[str, Any]:
        """The metadata beside that log."""
        return self.log.meta

    @property
    def config(self) -> dict[str, Any]:
        """The run's settings; empty without a `meta.json`."""
        config: dict[str, Any] = self.meta.get("config", {})
        return config


def load_run(path: Path) -> Run:
    """Find a run's files from its directory, from that of a peer, or from a log.

    Raises:
        PlotError: There is no log with a row, or no `meta.json` beside it.
    """
    directory = path.parent if path.is_file() else path
    if not directory.is_dir():
        raise PlotError(f"{path}: no such file or directory")
    directory = directory.resolve()
    tables = [read_table(log) for log in find_logs([directory])]
    if directory.parent.name == "peers" and (directory / LOG).exists():  # of one peer: the run is above
        tables, directory = [read_table(directory / LOG)], directory.parent.parent
    filled = [table for table in tables if table.rows and "time" in table.names]
    if not filled:
        raise PlotError(f"{path}: no log of a training with a row yet")
    runs = {str(table.meta["config"].get("savedir")) for table in filled if "config" in table.meta}
    if len(runs) > 1:
        raise PlotError(f"{path}: holds {len(runs)} runs; name one: {', '.join(sorted(runs)[:3])}, …")
    peers = sorted(filled, key=lambda table: ("config" in table.meta, len(table.rows)), reverse=True)
    if not runs:
        raise PlotError(f"{peers[0].path.parent / META}: missing or damaged; a report needs it")
    checkpoint = directory / CHECKPOINT
    return Run(directory, peers, checkpoint if checkpoint.is_file() else None)


def compare_checksums(peers: Sequence[Table]) -> tuple[int, int]:
    """Return the number of updates whose checksum several peers wrote, and of those on which they agree."""
    seen: dict[str, set[str]] = {}
    count: dict[str, int] = {}
    for table in peers:
        if not {"checksum", "checksum_updates"} <= set(table.names):
            continue
        at, value = table.names.index("checksum_updates"), table.names.index("checksum")
        for updates, checksum in {(row[at], row[value]) for row in table.rows}:
            seen.setdefault(updates, set()).add(checksum)
            count[updates] = count.get(updates, 0) + 1
    shared = [updates for updates, times in count.items() if times > 1]
    return len(shared), sum(len(seen[updates]) == 1 for updates in shared)


def last(table: Table, name: str) -> float:
    """Return the newest value of a column, or NaN."""
    values = table.column(name)
    values = values[~np.isnan(values)]
    return float(values[-1]) if len(values) else float("nan")


def mean(table: Table, name: str) -> float:
    """Return the mean of a column's values, or NaN."""
    values = table.column(name)
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")
