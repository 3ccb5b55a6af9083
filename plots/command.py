"""The command line of `plot.py`."""

from __future__ import annotations

import argparse
import io
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from plots import picture, terminal
from plots.series import Series, make_series
from plots.table import PlotError, Table, find_logs, read_table

USAGE = """\
examples:
  python plot.py logs.tsv
  python plot.py latest --ykey lin_vel_error,yaw_rate_error --xkey time --window 10
  python plot.py run1 run2 --follow
  python plot.py multirun/* --group all --ykey lin_vel_error      # mean and spread over seeds
  python plot.py outputs/herd/* --group algorithm.name --png compare.png
  python plot.py latest --ykey mean_episode_return,grad_norm --panels --svg out.svg
  python plot.py --report latest --out report.html
  watch -n3 --color python plot.py logs.tsv --ykey mean_episode_return --window 10

A directory stands for every logs.tsv in it. A log may still be growing: a half-written last line is ignored,
as are cells that are empty or not finite, and logs without the column. Colours are always on, so that
`watch --color` works; NO_COLOR=1 or --no-color turns them off."""


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of a command line, checked.

    Raises:
        PlotError: An option has a value that cannot be used.
        SystemExit: Help was asked for, or an option is unknown.
    """
    parser = argparse.ArgumentParser(
        prog="plot.py",
        description="Plot columns of logs.tsv in the terminal or into a picture, or write a run's report.",
        epilog=USAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="LOG", help="logs.tsv, or a directory of runs")
    parser.add_argument("--xkey", default="step", help="column along the x axis: step, time, …")
    parser.add_argument(
        "--ykey", default="mean_episode_return", help="columns to plot: a,b,… (default: %(default)s)"
    )
    parser.add_argument(
        "--window",
        type=int,
        default=1,
        metavar="N",
        help="mean over the last N rows of each log (default: %(default)s, the rows as they are). Training "
        "writes a row every log_interval, 2 s unless set: 10 rows smooth a curve and delay it by 10 s; "
        "keep N below a tenth of the rows",
    )
    parser.add_argument(
        "--group",
        metavar="BY",
        help="mean ± standard deviation over logs: all; run (over each run's peers); or a setting such as "
        "seed or algorithm.name (a curve for each of its values)",
    )
    parser.add_argument("--panels", action="store_true", help="a separate plot for each column of --ykey")
    parser.add_argument("--logx", action="store_true", help="logarithmic x axis")
    parser.add_argument("--logy", action="store_true", help="logarithmic y axis")
    parser.add_argument("--follow", action="store_true", help="redraw until Ctrl-C")
    parser.add_argument(
        "--interval", type=float, default=2.0, metavar="S", help="seconds between two frames of --follow"
    )
    parser.add_argument("--png", type=Path, metavar="OUT", help="write a picture instead")
    parser.add_argument("--svg", type=Path, metavar="OUT", help="the same as vector graphics")
    parser.add_argument("--list", action="store_true", help="list the columns, their newest values and units")
    parser.add_argument(
        "--report", type=Path, metavar="RUN", help="write a page about the run in this directory"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report.html"), help="file of --report (default: %(default)s)"
    )
    parser.add_argument("--width", type=int, help="columns of the terminal plot (default: the terminal's)")
    parser.add_argument("--height", type=int, help="lines of the terminal plot (default: at most 24)")
    parser.add_argument("--no-color", action="store_true", help="no ANSI colours")
    options = parser.parse_args(arguments)
    _check(options)
    shown = shutil.get_terminal_size()
    options.width = max(shown.columns, terminal.MIN_WIDTH) if options.width is None else options.width
    options.height = min(max(shown.lines - 3, 12), 24) if options.height is None else options.height
    options.color = not (options.no_color or os.environ.get("NO_COLOR"))
    return options


def _check(options: argparse.Namespace) -> None:
    """Raise PlotError for values that cannot be used, alone or together."""
    if bool(options.files) == bool(options.report):
        raise PlotError("give logs or directories to plot, or --report RUN; --help has examples")
    for name, least in (("window", 1), ("width", terminal.MIN_WIDTH), ("height", terminal.MIN_HEIGHT)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise PlotError(f"--{name} {value}: must be {least} or greater")
    if options.interval <= 0:
        raise PlotError(f"--interval {options.interval}: must be greater than 0")
    for name in ("png", "svg"):
        path = getattr(options, name)
        if path is not None and path.suffix != f".{name}":
            raise PlotError(f"--{name} {path}: must end in .{name}")
    if options.follow and (options.png or options.svg or options.list or options.report):
        raise PlotError("--follow draws in the terminal: it excludes --png, --svg, --list and --report")


def render(options: argparse.Namespace) -> str:
    """Read the files, and plot or list them once; return the text to print."""
    tables = [read_table(path) for path in find_logs(options.files)]
    if options.list:
        return "\n\n".join(list_columns(table) for table in tables)
    ykeys = options.ykey.split(",")
    panels = [
        (_title(keys, options), keys, _series(tables, keys, options))
        for keys in ([[key] for key in ykeys] if options.panels else [ykeys])
    ]
    panels = [panel for panel in panels if panel[2]]
    if not panels:
        return f"{', '.join(map(str, options.files))}: no values of {options.ykey} yet"
    paths = [path for path in (options.png, options.svg) if path is not None]
    for path in paths:
        picture.save(panels, options.xkey, path, options.logx, options.logy)
    if paths:
        return "\n".join(f"wrote {path}" for path in paths)
    height = max(options.height // len(panels), terminal.MIN_HEIGHT)
    return "\n".join(
        terminal.terminal_plot(
            series, title, options.width, height, options.color, options.logx, options.logy
        )
        for title, _, series in panels
    )


def _series(tables: Sequence[Table], keys: Sequence[str], options: argparse.Namespace) -> list[Series]:
    return make_series(tables, options.xkey, keys, options.window, options.group, options.logx, options.logy)


def _title(keys: Sequence[str], options: argparse.Namespace) -> str:
    mean = f" (mean of {options.window} rows)" if options.window > 1 else ""
    return f"{', '.join(keys)} over {options.xkey}{mean}"


def list_columns(table: Table) -> str:
    """Return a log's columns, one per line: name, newest value, unit and meaning."""
    from agent.logs.columns import describe

    newest = table.rows[-1] if table.rows else [""] * len(table.names)
    lines = [(name, cell, *describe(name)) for name, cell in zip(table.names, newest, strict=True)]
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(3)]
    return "\n".join(
        "  ".join(
            [*(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=False)), line[3]]
        ).rstrip()
        for line in lines
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # for terminals that cannot show block characters
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of our output has enough
        _print_nowhere()
    except OSError as error:  # our output cannot be written
        print(f"plot.py: {error.strerror}", file=sys.stderr)
        _print_nowhere()
    return 1


def _print_nowhere() -> None:
    """Discard all further output, so that Python does not complain at its exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _run(arguments: Sequence[str] | None) -> int:
    """Do what the command line asks; return the exit status."""
    try:
        options = parse_arguments(arguments)
        if options.report:
            from plots import report

            print(report.write(options.report, options.out))
        elif options.follow:
            terminal.follow(lambda: _render_or_say(options), options.interval)
        else:
            print(render(options))
    except PlotError as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _render_or_say(options: argparse.Namespace) -> str:
    """Return a frame of --follow, which waits for files that do not exist yet."""
    try:
        return render(options)
    except PlotError as error:
        return str(error)
