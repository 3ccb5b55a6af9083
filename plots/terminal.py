"""Plots as text, in the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from plots.series import Series

COLORS = ("green", "magenta", "cyan", "yellow", "red", "blue")
VALUE_WIDTH = 30  # columns of a legend's entry around its label: colour mark, newest value and spread
FRAME_LINES = 5  # title, frame above and below, labels of the x axis, legend
MIN_WIDTH, MIN_HEIGHT = 40, 8
MARGIN = 4  # columns by which a label at the right end of the x axis may stick out


def terminal_plot(
    series: Sequence[Series],
    title: str,
    width: int,
    height: int,
    color: bool,
    log_x: bool = False,
    log_y: bool = False,
) -> str:
    """Return the plot as text of at most `width` columns and about `height` lines.

    Two rows of dots show a mean's spread, one standard deviation above and below.
    """
    import uniplot

    edges = [(index, edge) for index, one in enumerate(series) for edge in _edges(one, width, log_y)]
    owners = [*range(len(series)), *(index for index, _ in edges)]
    colors = [COLORS[index % len(COLORS)] for index in owners]
    return uniplot.plot_to_string(
        [one.smooth for one in series] + [y for _, (_, y) in edges],
        [one.x for one in series] + [x for _, (x, _) in edges],
        title=title,
        legend_labels=[f"{one.label[-(width - VALUE_WIDTH) :]}: {newest(one)}" for one in series],
        color=colors if color else False,
        # Without colours, each curve has a character of its own.
        character_set="block" if color or len(series) == 1 else "ascii",
        lines=[True] * len(series) + [False] * len(edges),
        x_gridlines=[],
        x_as_log=log_x,
        y_as_log=log_y,
        width=width,
        height=height - FRAME_LINES,
        line_length_hard_cap=width - MARGIN,
    )


def _edges(series: Series, width: int, log_y: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return points (x, y) along the upper and the lower edge of a spread, sparse enough for dots."""
    if series.spread is None:
        return []
    edges = []
    for y in (series.smooth + series.spread, series.smooth - series.spread):
        there = np.isfinite(y) & ((y > 0) | (not log_y))
        x, y = series.x[there], y[there]
        step = max(1, 6 * len(series.x) // width)
        if len(x):
            edges.append((x[::step], y[::step]))
    return edges


def newest(series: Series) -> str:
    """Return the last value of a curve and its spread as text."""
    text = f"{series.smooth[-1]:.4g}"
    if series.spread is not None and np.isfinite(series.spread[-1]):
        text += f" ± {series.spread[-1]:.2g}"
    return text


def follow(draw: Callable[[], str], interval: float) -> None:
    """Draw each frame over the last one, without clearing the screen first, until Ctrl-C.

    Args:
        draw: Returns the next frame.
        interval: Seconds between two frames.
    """
    on_screen = sys.stdout.isatty()
    try:
        if on_screen:
            print("\033[2J", end="")
        while True:
            frame = draw()
            if on_screen:  # home; clear what each line leaves to its right, and all below: no flicker
                frame = "\033[H" + frame.replace("\n", "\033[K\n") + "\033[K\n\033[J"
            print(frame, end="" if on_screen else "\n", flush=True)
            time.sleep(interval)
    except KeyboardInterrupt:
        print()
