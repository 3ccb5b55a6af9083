"""Plots as files: PNG or SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from plots.series import Series
from plots.table import LOG, PlotError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL = (9, 5)  # inches, width and height of one panel
PANEL_OF_SEVERAL = 3  # inches, height of each of several panels
LEGEND = 40  # characters of a legend's entry


def save(
    panels: Sequence[tuple[str, Sequence[str], Sequence[Series]]],
    xkey: str,
    path: Path,
    log_x: bool = False,
    log_y: bool = False,
) -> None:
    """Draw panels (title, columns, curves) one below the other into a .png or .svg file.

    Behind a rolling mean, the values themselves are pale; a spread is a pale band.

    Raises:
        PlotError: Matplotlib is not installed, or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotError(f"{path}: pictures need matplotlib; run: pip install matplotlib") from None
    width, height = PANEL[0], PANEL[1] if len(panels) == 1 else PANEL_OF_SEVERAL * len(panels)
    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    all_axes = figure.subplots(len(panels), squeeze=False, sharex=True)[:, 0]
    for axes, (title, keys, series) in zip(all_axes, panels, strict=True):
        for index, one in enumerate(series):
            color = f"C{index}"
            if not np.array_equal(one.smooth, one.y, equal_nan=True):
                axes.plot(one.x, one.y, color=color, alpha=0.25, linewidth=0.8)
            if one.spread is not None:
                low, high = one.smooth - one.spread, one.smooth + one.spread
                axes.fill_between(one.x, low, high, color=color, alpha=0.2, linewidth=0)
            axes.plot(one.x, one.smooth, color=color, linewidth=1.6, label=_legend(one.label))
            alone = _alone(one.smooth)
            axes.plot(one.x[alone], one.smooth[alone], "o", color=color, markersize=3)
        axes.set_title(title)
        axes.set_ylabel(_axis_label(keys))
        if log_x:
            _show_decades(axes, "x")
        if log_y:
            _show_decades(axes, "y")
        axes.grid(alpha=0.3)
        axes.legend()
    all_axes[-1].set_xlabel(_axis_label([xkey]))
    try:
        figure.savefig(path, format=path.suffix.removeprefix("."))
    except OSError as error:
        raise PlotError(f"{path}: {error.strerror}") from None


def _alone(values: np.ndarray) -> np.ndarray:
    """Return which values `[n]` have a number but no neighbour with one, so that no line shows them."""
    there = np.concatenate([[False], np.isfinite(values), [False]])
    lonely: np.ndarray = there[1:-1] & ~there[:-2] & ~there[2:]
    return lonely


def _axis_label(keys: Sequence[str]) -> str:
    """Return the columns' names with their units, one unit for all if it is the same."""
    from agent.logs.columns import describe

    units = [describe(key)[0] for key in keys]
    if len(set(units)) == 1:
        return ", ".join(keys) + (f" [{units[0]}]" if units[0] else "")
    return ", ".join(f"{key} [{unit}]" if unit else key for key, unit in zip(keys, units, strict=True))


def _legend(label: str) -> str:
    """Return a short name: without the log's file name, and its end only if it is long."""
    label = label.replace(f"/{LOG}", "")
    return label if len(label) <= LEGEND else "…" + label[1 - LEGEND :]


def _show_decades(axes: Axes, name: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with powers of ten as ticks, of which at least two are in sight."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set(**{f"{name}scale": "log"})
    axis = axes.xaxis if name == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(base=10, numticks=12))
    axis.set_minor_formatter(NullFormatter())
    low, high = np.log10(axis.get_view_interval())
    if np.floor(high) - np.ceil(low) < 1:
        axes.set(**{f"{name}lim": (10 ** np.floor(low), 10 ** np.ceil(high))})
