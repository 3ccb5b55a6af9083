"""Curves from tables: one for each log and column, or the mean and spread of several logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plots.table import PlotError, Table

GRID = 400  # points of a mean curve
STOP = 10  # times the usual distance between two rows: a longer one is a stop, which no line crosses


@dataclass(frozen=True)
class Series:
    """One curve.

    Attributes:
        label: Its name in the legend.
        x: `[points]`, NaN where the line is interrupted, like the others.
        y: `[points]`, as in the file; of several logs, their mean.
        smooth: `[points]`, the rolling mean of `y`.
        spread: `[points]`, standard deviation between the logs of a mean, NaN where there is only one; None
            for the curve of one log.
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    smooth: np.ndarray
    spread: np.ndarray | None = None


def rolling_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Return the mean of each value and up to `window - 1` before it; `values` `[n]` are finite."""
    if window == 1 or not len(values):
        return values
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    means: np.ndarray = (sums[ends] - sums[starts]) / (ends - starts)
    return means


def make_series(
    tables: Sequence[Table],
    xkey: str,
    ykeys: Sequence[str],
    window: int = 1,
    group: str | None = None,
    log_x: bool = False,
    log_y: bool = False,
) -> list[Series]:
    """Return one series for each log (or group of logs) and key that has values.

    Args:
        tables: The logs.
        xkey: Column along the x axis.
        ykeys: Columns to plot.
        window: Rows of the rolling mean, taken within each log.
        group: None for a curve of each log, or the logs whose mean is one curve: `all`, `run` (the peers of
            each run), or a setting such as `seed` or `algorithm.name` (the logs of each of its values).
        log_x: Leave out points that a logarithmic x axis cannot show.
        log_y: The same for the y axis.

    Raises:
        PlotError: No log has such a column, or a log has no such setting.
    """
    for key in (xkey, *ykeys):
        _check_column(tables, key)
    labels = _file_labels([table.path for table in tables])
    series = []
    for key in ykeys:
        curves = [
            (label, table, curve)
            for label, table in zip(labels, tables, strict=True)
            if (curve := _curve(table, xkey, key, window, log_x, log_y)) is not None
        ]
        if group is None:
            several = len(tables) > 1 or len(ykeys) == 1
            for label, _, (x, y, smooth) in curves:
                parts = [label] * several + [key] * (len(ykeys) > 1)
                interrupted = [np.insert(values, stops(x), np.nan) for values in (x, y, smooth)]
                series.append(Series(" ".join(parts), *interrupted))
            continue
        members: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        for _, table, (x, _, smooth) in curves:
            members.setdefault(_group_label(table, group), []).append((x, smooth))
        for label, group_curves in members.items():
            name = f"{label} ({len(group_curves)})" + f" {key}" * (len(ykeys) > 1)
            series.append(_mean_series(name, group_curves, log_x))
    return series


def _check_column(tables: Sequence[Table], key: str) -> None:
    """Raise PlotError if there are columns, but none has this name."""
    with_columns = [table for table in tables if table.names]
    if with_columns and not any(key in table.names for table in with_columns):
        first = with_columns[0]
        raise PlotError(f"{first.path}: no column {key!r}; it has {', '.join(first.names)}")


def _curve(
    table: Table, xkey: str, key: str, window: int, log_x: bool, log_y: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return x, y and smoothed y of one log without the points that cannot be shown; None if none is left."""
    x, y = table.column(xkey), table.column(key)
    there = ~np.isnan(x) & ~np.isnan(y)
    there &= (x > 0) | (not log_x)
    there &= (y > 0) | (not log_y)
    if not there.any():
        return None
    return x[there], y[there], rolling_mean(y[there], window)


def _group_label(table: Table, group: str) -> str:
    """Return the group of a log."""
    if group == "all":
        return "all"
    if group == "run":
        config = table.meta.get("config", {})
        return str(config.get("savedir") or table.path.parent)
    return f"{group}={table.setting(group)}"


def stops(x: np.ndarray) -> np.ndarray:
    """Return the indices of the values of `x` `[n]` that come after a stop, such as a peer's absence.

    Only values that never fall, such as steps and times, have stops.
    """
    distances = np.diff(x)
    if not (distances > 0).any() or (distances < 0).any():
        return np.zeros(0, int)
    return np.flatnonzero(distances > STOP * np.median(distances[distances > 0])) + 1


def _mean_series(label: str, curves: Sequence[tuple[np.ndarray, np.ndarray]], log_x: bool) -> Series:
    """Return the mean of curves (x, y), whose points are joined by straight lines except across stops.

    It is shown where at least half of the curves have values; where so many never do together, with as many
    as do.
    """
    low, high = min(x.min() for x, _ in curves), max(x.max() for x, _ in curves)
    grid = np.geomspace(low, high, GRID) if log_x else np.linspace(low, high, GRID)
    pieces = [list(_pieces(x, y)) for x, y in curves]
    ends = [x[[0, -1]] for curve in pieces for x, _ in curve]
    grid = np.unique(np.concatenate([grid, *ends]))
    values = np.full((len(curves), len(grid)), np.nan)
    for row, curve in zip(values, pieces, strict=True):
        for x, y in curve:
            inside = (grid >= x[0]) & (grid <= x[-1])
            row[inside] = np.interp(grid[inside], x, y)
    count = (~np.isnan(values)).sum(axis=0)
    enough = count >= min(len(curves) / 2, count.max())
    first, last = np.flatnonzero(enough)[[0, -1]]
    values[:, ~enough], grid[~enough] = np.nan, np.nan
    values, count, grid = (part[..., first : last + 1] for part in (values, count, grid))
    mean = np.divide(np.nansum(values, axis=0), count, out=np.full(len(grid), np.nan), where=~np.isnan(grid))
    squares = np.nansum((values - mean) ** 2, axis=0)
    several = (count > 1) & ~np.isnan(grid)
    spread = np.sqrt(np.divide(squares, count - 1, out=np.full(len(grid), np.nan), where=several))
    return Series(label, grid, mean, mean, spread)


def _pieces(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the parts (x, y) of a curve between its stops, in the order of x."""
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    at = stops(x)
    yield from zip(np.split(x, at), np.split(y, at), strict=True)


def _file_labels(paths: Sequence[Path]) -> list[str]:
    """Return the shortest ends of the paths, in whole names, that differ from one another."""
    longest = max(len(path.parts) for path in paths)
    for count in range(1, longest):
        labels = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(labels)) == len(set(paths)):
            return labels
    return [str(path) for path in paths]
