"""Plots as files: PNG or SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from plots.series import Series
from plots.table import PlotError

PANEL = (9, 5)  # inches, width and height of one panel
PANEL_OF_SEVERAL = 3  # inches, height of each of several panels


def save(
    panels: Sequence[tuple[str, Sequence[Series]]],
    xkey: str,
    path: Path,
    log_x: bool = False,
    log_y: bool = False,
) -> None:
    """Draw panels (title, curves) one below the other into a .png or .svg file.

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
    for axes, (title, series) in zip(all_axes, panels, strict=True):
        for index, one in enumerate(series):
            color = f"C{index}"
            if one.smooth is not one.y:
                axes.plot(one.x, one.y, color=color, alpha=0.25, linewidth=0.8)
            if one.spread is not None:
                low, high = one.smooth - one.spread, one.smooth + one.spread
                axes.fill_between(one.x, low, high, color=color, alpha=0.2, linewidth=0)
            axes.plot(one.x, one.smooth, color=color, linewidth=1.6, label=one.label)
        axes.set_title(title)
        axes.set_xscale("log" if log_x else "linear")
        axes.set_yscale("log" if log_y else "linear")
        axes.grid(alpha=0.3)
        axes.legend()
    all_axes[-1].set_xlabel(xkey)
    try:
        figure.savefig(path, format=path.suffix.removeprefix("."))
    except OSError as error:
        raise PlotError(f"{path}: {error.strerror}") from None
