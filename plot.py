#!/usr/bin/env python3
"""Plots the columns of logs.tsv in the terminal or into a PNG.

    python plot.py logs.tsv
    python plot.py logs.tsv --ykey lin_vel_error,yaw_rate_error --xkey time
    python plot.py run1/logs.tsv run2/logs.tsv --window 20 --follow
    python plot.py logs.tsv --png return.png
    watch -n3 --color python plot.py logs.tsv --ykey mean_episode_return --window 500

The file may still be growing: a half-written last line is left out. Cells that are empty or not finite are
left out too. Colours are always on, also for `watch --color`; NO_COLOR=1 or --no-color turns them off.
"""

import argparse
import io
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

COLORS = ("green", "magenta", "cyan", "yellow", "red", "blue")
VALUE_WIDTH = 20  # columns of a legend's entry around its label: colour mark and newest value
FRAME_LINES = 5  # title, frame above and below, labels of the x axis, legend
MIN_WIDTH, MIN_HEIGHT = 40, 8
MARGIN = 4  # columns that a label at the right end of the x axis may stand out by


class PlotError(Exception):
    """The files do not hold what was asked for; the message is one line for the user."""


@dataclass(frozen=True)
class Table:
    """A file as it is now: column names, and the cells of each complete row."""

    path: Path
    names: list[str]
    rows: list[list[str]]

    def column(self, name: str) -> np.ndarray:
        """The values `[rows]` of a column, NaN where a cell holds no finite number."""
        if name not in self.names:
            raise PlotError(f"{self.path}: no column {name!r}; it has {', '.join(self.names)}")
        index = self.names.index(name)
        values = np.array([_number(row[index]) for row in self.rows], dtype=float)
        values[~np.isfinite(values)] = np.nan
        return values


@dataclass(frozen=True)
class Series:
    """One curve.

    Attributes:
        label: Its name in the legend.
        x: `[points]`.
        y: `[points]`, as in the file.
        smooth: `[points]`, the rolling mean of `y`.
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    smooth: np.ndarray


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def read_table(path: Path) -> Table:
    """Reads the complete lines of a file of tab-separated values; without any, the table is empty.

    Raises:
        PlotError: there is no such file, or it cannot be read.
    """
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise PlotError(f"{path}: {error.strerror}") from None
    *lines, _half_written = text.split("\n")
    if not lines:
        return Table(path, [], [])
    names, *rows = (line.split("\t") for line in lines)
    return Table(path, names, [row for row in rows if len(row) == len(names)])


def rolling_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Mean of each value and the up to `window - 1` before it; `values` `[n]` are finite."""
    if window == 1 or not len(values):
        return values
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def make_series(tables: Sequence[Table], xkey: str, ykeys: Sequence[str], window: int) -> list[Series]:
    """One series for each file and key that has values; those without are left out.

    Raises:
        PlotError: a file has no such column.
    """
    series = []
    for table, file_label in zip(tables, _file_labels([table.path for table in tables]), strict=True):
        for key in ykeys if table.names else ():
            x, y = table.column(xkey), table.column(key)
            there = ~np.isnan(x) & ~np.isnan(y)
            if there.any():
                parts = [file_label] * (len(tables) > 1 or len(ykeys) == 1) + [key] * (len(ykeys) > 1)
                x, y = x[there], y[there]
                series.append(Series(" ".join(parts), x, y, rolling_mean(y, window)))
    return series


def _file_labels(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths, in whole names, that tell them apart."""
    longest = max(len(path.parts) for path in paths)
    for count in range(1, longest):
        labels = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(labels)) == len(set(paths)):
            return labels
    return [str(path) for path in paths]


def terminal_plot(series: Sequence[Series], title: str, width: int, height: int, color: bool) -> str:
    """The plot as text of at most `width` columns and about `height` lines."""
    import uniplot

    return uniplot.plot_to_string(
        [one.smooth for one in series],
        [one.x for one in series],
        title=title,
        legend_labels=[f"{one.label[-(width - VALUE_WIDTH) :]}: {one.smooth[-1]:.4g}" for one in series],
        color=[COLORS[i % len(COLORS)] for i in range(len(series))] if color else False,
        # Without colours, each curve has a character of its own.
        character_set="block" if color or len(series) == 1 else "ascii",
        lines=True,
        x_gridlines=[],
        width=width,
        height=height - FRAME_LINES,
        line_length_hard_cap=width - MARGIN,
    )


def save_png(series: Sequence[Series], title: str, xkey: str, path: Path) -> None:
    """Draws the plot into a picture; with a window, the values themselves are pale behind their mean.

    Raises:
        PlotError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotError("--png needs matplotlib; run: pip install matplotlib") from None
    figure = Figure(figsize=(9, 5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for index, one in enumerate(series):
        if one.smooth is not one.y:
            axes.plot(one.x, one.y, color=f"C{index}", alpha=0.25, linewidth=0.8)
        axes.plot(one.x, one.smooth, color=f"C{index}", linewidth=1.6, label=one.label)
    axes.set_xlabel(xkey)
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise PlotError(f"{path}: {error.strerror}") from None


def list_columns(table: Table) -> str:
    """The file's columns with their newest values, one per line."""
    newest = table.rows[-1] if table.rows else [""] * len(table.names)
    width = max(map(len, table.names), default=0)
    return "\n".join(f"{name:<{width}}  {cell}" for name, cell in zip(table.names, newest, strict=True))


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line, checked.

    Raises:
        PlotError: an option has a value that cannot be used.
        SystemExit: help was asked for, or an option is unknown.
    """
    summary, _, examples = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="plot.py",
        description=summary,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="one or more logs.tsv")
    parser.add_argument("--xkey", default="step", help="column along the x axis (default: %(default)s)")
    parser.add_argument(
        "--ykey", default="mean_episode_return", help="columns to plot: a,b,… (default: %(default)s)"
    )
    parser.add_argument("--window", type=int, default=1, metavar="N", help="mean over the last N rows")
    parser.add_argument("--follow", action="store_true", help="draw again and again until Ctrl-C")
    parser.add_argument(
        "--interval", type=float, default=2.0, help="seconds between two drawings of --follow"
    )
    parser.add_argument("--png", type=Path, metavar="OUT", help="write a picture instead")
    parser.add_argument("--list", action="store_true", help="list the columns and their newest values")
    parser.add_argument("--width", type=int, help="columns of the terminal plot (default: the terminal's)")
    parser.add_argument("--height", type=int, help="lines of the terminal plot (default: at most 24)")
    parser.add_argument("--no-color", action="store_true", help="no ANSI colours")
    options = parser.parse_args(arguments)
    if options.window < 1:
        raise PlotError(f"--window {options.window}: must be 1 or greater")
    if options.interval <= 0:
        raise PlotError(f"--interval {options.interval}: must be greater than 0")
    if options.follow and (options.png or options.list):
        raise PlotError("--follow draws in the terminal: it does not go with --png or --list")
    terminal = shutil.get_terminal_size()
    options.width = max(terminal.columns, MIN_WIDTH) if options.width is None else options.width
    options.height = min(max(terminal.lines - 3, 12), 24) if options.height is None else options.height
    if options.width < MIN_WIDTH:
        raise PlotError(f"--width {options.width}: must be {MIN_WIDTH} or greater")
    if options.height < MIN_HEIGHT:
        raise PlotError(f"--height {options.height}: must be {MIN_HEIGHT} or greater")
    options.color = not (options.no_color or os.environ.get("NO_COLOR"))
    return options


def render(options: argparse.Namespace) -> str:
    """Reads the files and does what was asked for once; returns the text to print."""
    tables = [read_table(path) for path in options.files]
    if options.list:
        return "\n\n".join(list_columns(table) for table in tables)
    ykeys = options.ykey.split(",")
    series = make_series(tables, options.xkey, ykeys, options.window)
    mean = f" (mean of {options.window} rows)" if options.window > 1 else ""
    title = f"{', '.join(ykeys)} over {options.xkey}{mean}"
    if not series:
        return f"{', '.join(map(str, options.files))}: no values of {options.ykey} yet"
    if options.png:
        save_png(series, title, options.xkey, options.png)
        return f"wrote {options.png}"
    return terminal_plot(series, title, options.width, options.height, options.color)


def frames(options: argparse.Namespace) -> Iterator[str]:
    """What to print, again and again; a file that is not there yet is waited for."""
    while True:
        try:
            yield render(options)
        except PlotError as error:
            yield str(error)
        time.sleep(options.interval)


def follow(options: argparse.Namespace) -> None:
    """Draws each frame over the last one, without clearing the screen first, until Ctrl-C."""
    on_screen = sys.stdout.isatty()
    try:
        if on_screen:
            print("\033[2J", end="")
        for frame in frames(options):
            if on_screen:
                frame = "\033[H" + frame.replace("\n", "\033[K\n") + "\033[K\n\033[J"
            print(frame, end="" if on_screen else "\n", flush=True)
    except KeyboardInterrupt:
        print()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # for terminals that cannot show block characters
    try:
        options = parse_arguments(arguments)
        if options.follow:
            follow(options)
        else:
            print(render(options))
    except PlotError as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
