"""The summary of a run from its log, and how it compares with the model of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agent.errors import LogError
from agent.logs.run_model import ParallelSimRunScenario, significant
from agent.logs.timer import ACTIVITIES

ENDS = ("falls", "timeouts", "blowups")
NEEDED = (
    "time", "step", "updates", "virtual_batch_size", "transitions", "gradient_batch_size",
    "gradient_batch_size_min", "gradient_batch_size_max", "num_skipped", "dropped_gradients", *ENDS,
    *(f"share_{activity}" for activity in ACTIVITIES),
)  # fmt: skip


@dataclass(frozen=True)
class RunSummary:
    """Totals of a run so far; counts are the group's.

    Attributes:
        seconds: Training time.
        step: Policy steps simulated.
        transitions: Policy steps learned from, each counted once whatever the number of epochs.
        updates: Optimizer steps.
        dropped: Of them, those left out for a gradient that was not finite.
        epochs: Passes over the same data.
        virtual_batch_size: Sequences asked for in an update, at least.
        batch_size: Sequences that updates held: mean, least, most.
        unroll_length: Policy steps of a sequence.
        skipped: Contributions left out of an update, mean.
        warmup: Seconds at each start whose data was discarded.
        policy_rate: Policy steps per second of simulated time, Hz.
        ended: Episodes that ended in falls, time-outs and blow-ups.
        shares: Share of this peer's wall time per activity.
    """

    seconds: float
    step: int
    transitions: float
    updates: int
    dropped: int
    epochs: int
    virtual_batch_size: int
    batch_size: tuple[float, float, float]
    unroll_length: int
    skipped: float
    warmup: float
    policy_rate: float
    ended: dict[str, int]
    shares: dict[str, float]

    def as_asked_for(self) -> dict[str, Any]:
        """Return the run as it was asked for, as settings for `agent.logs.run_model.from_settings`."""
        return {
            "robots": self.virtual_batch_size,
            "steps_per_update": self.unroll_length,
            "updates": self.updates // self.epochs,
            "training_time": f"{self.seconds} s",
            "policy_rate": f"{self.policy_rate} Hz",
        }

    @property
    def unlearned(self) -> float:
        """Policy steps that were simulated but went into no update."""
        return self.step - self.transitions


def read(path: Path) -> RunSummary:
    """Read a `logs.tsv` and the `meta.json` beside it.

    Raises:
        LogError: a file is missing or damaged, is no log of a training, or has no update yet.
    """
    try:
        *lines, _half_written = path.read_text().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LogError(f"{path}: {getattr(error, 'strerror', None) or 'no text file'}") from None
    names, *rows = (line.split("\t") for line in lines or [""])
    return summarize(path, names, rows)


def summarize(path: Path, names: Sequence[str], cells: Sequence[Sequence[str]]) -> RunSummary:
    """Return the summary of a log that was read before.

    Args:
        path: The log; the `meta.json` beside it is read.
        names: Its columns.
        cells: Its rows.

    Raises:
        LogError: As for `read`.
    """
    rows, config = _columns(path, names, cells), _config(path.resolve().parent / "meta.json")
    last = {name: values[-1] for name, values in rows.items()}
    epochs = int(config["algorithm"]["epochs"])
    if not last["updates"] >= epochs:
        raise LogError(f"{path}: there is no whole update yet")
    updates = np.diff(rows["updates"], prepend=0.0)  # in each row's interval; none is before the first row
    physics = config["env"]["physics"]
    return RunSummary(
        seconds=last["time"],
        step=int(last["step"]),
        transitions=last["transitions"],
        updates=int(last["updates"]),
        dropped=int(last["dropped_gradients"]),
        epochs=epochs,
        virtual_batch_size=int(last["virtual_batch_size"]),
        batch_size=(
            _mean(rows["gradient_batch_size"], updates),
            float(np.nanmin(rows["gradient_batch_size_min"])),
            float(np.nanmax(rows["gradient_batch_size_max"])),
        ),
        unroll_length=int(config["unroll_length"]),
        skipped=_mean(rows["num_skipped"], updates),
        warmup=float(config["warmup"]),
        policy_rate=1 / (physics["timestep"] * physics["decimation"]),
        ended={name: int(rows[name].sum()) for name in ENDS},
        shares={
            name: _mean(rows[f"share_{name}"], np.diff(rows["time"], prepend=0.0)) for name in ACTIVITIES
        },
    )


def _columns(path: Path, names: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
    """Return the needed columns, `[rows]` each."""
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise LogError(f"{path}: no log of a training: it has no column {missing[0]}")
    if not rows:
        raise LogError(f"{path}: there is no row yet")
    try:
        return {
            name: np.array([float(row[names.index(name)] or math.nan) for row in rows]) for name in NEEDED
        }
    except (ValueError, IndexError):
        raise LogError(f"{path}: damaged: a cell is no number, or a row is too short") from None


def _config(path: Path) -> dict[str, Any]:
    """Return the configuration of the run."""
    try:
        config: dict[str, Any] = json.loads(path.read_text())["config"]
        config["algorithm"]["epochs"], config["unroll_length"], config["warmup"], config["env"]["physics"]
    except OSError:
        raise LogError(f"{path}: missing; it lies beside the log and says what was asked for") from None
    except (ValueError, KeyError, TypeError):
        raise LogError(f"{path}: damaged, or of another program") from None
    return config


def _mean(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted mean of the values that are finite."""
    known = np.isfinite(values)
    total = weights[known].sum()
    return float((values * weights)[known].sum() / total) if total > 0 else math.nan


Line = tuple[str, float | None, float, str]
"""Quantity, modeled (None: not at all), measured, and the reason for the difference."""


def compare(model: ParallelSimRunScenario, run: RunSummary, steps: float | None = None) -> list[Line]:
    """Compare a run with the model of a run.

    Args:
        model: The run as it was asked for, or any other.
        run: The summary of the run.
        steps: If given, add the time that this many policy steps take.
    """
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in run.shares.items())
    falls, timeouts, blowups = (run.ended[name] for name in ENDS)
    ended = f"{falls:,} falls, {timeouts:,} time-outs, {blowups:,} blow-ups"
    rate, seconds = model.throughput.m_as("1/s"), run.seconds
    lines: list[Line] = [
        ("robots (sequences per update)", model.robots, run.batch_size[0], _overshoot(model, run)),
        ("steps per update", model.steps_per_update, run.unroll_length, ""),
        ("updates", model.updates, run.updates / run.epochs, _updates(run)),
        ("policy steps learned from", model.samples, run.transitions, "the three lines above"),
        ("policy steps simulated", model.samples, run.step, _unlearned(run)),
        ("training time, s", model.training_time.m_as("s"), seconds, f"this peer: {shares}"),
        ("learned from per second", rate, run.transitions / seconds, ""),
        ("simulated per second", rate, run.step / seconds, ""),
        (
            "simulated experience, days",
            model.simulated_experience.m_as("day"),
            run.step / run.policy_rate / 86_400,
            "",
        ),
        ("contributions left out", None, run.skipped, "per update: of members that had no gradient ready"),
        ("episodes ended", None, sum(run.ended.values()), f"{ended}; the model knows no resets"),
    ]
    if steps is not None:
        here = steps * seconds / run.transitions / 60
        lines.append((f"minutes for {significant(steps)} steps", model.time_for(steps).m_as("min"), here, ""))
    return lines


def describe(lines: Sequence[Line]) -> str:
    """Return the result of `compare` as a table for a terminal."""
    width = max(len(name) for name, *_ in lines)
    rows = [f"{'':<{width}}  {'modeled':>12}  {'measured':>12}  {'ratio':>6}  what lies between"]
    for name, modeled, found, reason in lines:
        shown, ratio = ("-", "") if modeled is None else (significant(modeled), f"{found / modeled:.3f}")
        rows.append(f"{name:<{width}}  {shown:>12}  {significant(found):>12}  {ratio:>6}  {reason}".rstrip())
    return "\n".join(rows)


def _overshoot(model: ParallelSimRunScenario, run: RunSummary) -> str:
    _, least, most = run.batch_size
    asked = f"at least {run.virtual_batch_size:,} asked for"
    if most > run.virtual_batch_size:
        return f"overshoot: updates held {least:,.0f} to {most:,.0f}, {asked}"
    return "" if model.robots == run.virtual_batch_size else f"updates held {most:,.0f}, {asked}"


def _updates(run: RunSummary) -> str:
    dropped = f", {run.dropped:,} of them dropped" if run.dropped else ""
    return f"{run.updates:,} optimizer steps over {run.epochs} epochs{dropped}"


def _unlearned(run: RunSummary) -> str:
    if run.unlearned < 1:
        return "all were learned from"
    warm = f"{run.warmup:g} s of warm-up at each start, and " if run.warmup else ""
    return (
        f"{run.unlearned:,.0f} were not learned from: {warm}rollouts that were not finished or came too late"
    )
