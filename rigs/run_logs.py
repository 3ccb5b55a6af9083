"""The log and the metadata of a made-up run, whose totals can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.logs.columns import columns
from agent.logs.metadata import write_metadata
from agent.logs.tsv_log import TsvLog

CONFIG: dict[str, Any] = {
    "algorithm": {"epochs": 2},
    "unroll_length": 10,
    "warmup": 3.0,
    "env": {"physics": {"timestep": 0.005, "decimation": 4}},
}
FIRST: dict[str, Any] = {  # 4 updates of 100 sequences on average, asked for were 80
    "time": 2.0, "step": 3000, "updates": 4, "virtual_batch_size": 80, "transitions": 2000,
    "gradient_batch_size": 100, "gradient_batch_size_min": 80, "gradient_batch_size_max": 120,
    "num_skipped": 0.5, "dropped_gradients": 0, "falls": 3, "timeouts": 1, "blowups": 0,
    "share_acting": 0.5, "share_waiting": 0.1, "share_learning": 0.2, "share_reducing": 0.0,
}  # fmt: skip
IDLE = FIRST | {  # an interval without updates
    "time": 3.0, "step": 3000, "gradient_batch_size": float("nan"), "gradient_batch_size_min": float("nan"),
    "gradient_batch_size_max": float("nan"), "num_skipped": float("nan"), "falls": 0, "timeouts": 0,
}  # fmt: skip
LAST = FIRST | {  # 6 more of 90: 1 x 540 + 4 x 100 sequences in all, x 10 steps / 2 epochs
    "time": 5.0, "step": 5700, "updates": 10, "transitions": 4700,
    "gradient_batch_size": 90, "gradient_batch_size_max": 100, "num_skipped": 0.0, "dropped_gradients": 1,
    "falls": 0, "timeouts": 5, "blowups": 1, "share_acting": 0.0,
}  # fmt: skip


def write_run(
    directory: Path,
    rows: Sequence[Mapping[str, Any]] = (FIRST, IDLE, LAST),
    config: Mapping[str, Any] = CONFIG,
) -> Path:
    """Write `logs.tsv` and `meta.json`; return the path of the log."""
    log = TsvLog(directory / "logs.tsv", columns(()))
    for row in rows:
        log.write(row)
    log.close()
    write_metadata(directory / "meta.json", config)
    return directory / "logs.tsv"
