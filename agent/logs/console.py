"""The console output of a training peer: a refreshing panel, or lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from moolib import output

LINE_INTERVAL = 10.0  # s between two lines where the output is no terminal


def duration(seconds: float) -> str:
    """Return seconds as `1:02:03` or `2:03`, or `?` where they are not a number."""
    if not 0 <= seconds < 1e7:
        return "?"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Console(Console):
    """A console that leaves it to its user to deal with a reader that has gone."""

    def on_broken_pipe(self) -> None:
        """Go on, where rich would end the process."""
        output.flush(self.file)


class TrainingConsole:
    """Shows the newest row of the log; `say` prints a line that stays.

    An output that fails (its reader has gone, the disk is full, the terminal was closed) is no reason to
    stop training: from then on, everything that is printed vanishes.
    """

    def __init__(self, title: str, total_steps: float, console: Console | None = None) -> None:
        self.console = console or _Console()
        self.title, self.total_steps = title, total_steps
        self.live = Live(console=self.console, auto_refresh=False, transient=False)
        self.last_line = 0.0
        self._kept: dict[str, float] = {}

    def __enter__(self) -> TrainingConsole:
        if self.console.is_terminal:
            with self._tolerated():
                self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            with self._tolerated():
                self.live.stop()

    @contextmanager
    def _tolerated(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):  # ValueError: the stream was closed
            output.flush(self.console.file)

    def say(self, message: str) -> None:
        """Print a line that stays."""
        with self._tolerated():
            self.console.print(message, markup=False, highlight=False, soft_wrap=True)

    def show(self, row: Mapping[str, Any]) -> None:
        """Show a row of logs.tsv."""
        row = self._with_last_known(row)
        if self.console.is_terminal:
            with self._tolerated():
                self.live.update(self._panel(row), refresh=True)
        elif time.monotonic() - self.last_line >= LINE_INTERVAL:
            self.last_line = time.monotonic()
            self.say(self._line(row))

    def _with_last_known(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row with the last known number where a short interval held no episode or update."""
        self._kept |= {k: v for k, v in row.items() if isinstance(v, (int, float)) and v == v}
        return {k: self._kept.get(k, v) for k, v in row.items()}

    def _eta(self, row: Mapping[str, Any]) -> str:
        if row["step"] >= self.total_steps:
            return "done"
        rate = row["steps_per_second"]
        return "ETA " + duration((self.total_steps - row["step"]) / rate if rate > 0 else -1)

    def _line(self, row: Mapping[str, Any]) -> str:
        return (
            f"step {row['step']:,} of {self.total_steps:,.0f} · "
            f"{row['steps_per_second']:,.0f}/s · {self._eta(row)} · "
            f"return {row['mean_episode_return']:.2f} · length {row['mean_episode_length']:.0f} · "
            f"error {row['lin_vel_error']:.3f} m/s {row['yaw_rate_error']:.3f} rad/s · "
            f"peers {row['peers']} · batch {row['gradient_batch_size']:.0f}"
        )

    def _panel(self, row: Mapping[str, Any]) -> Group:
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text(self.title, style="bold"),
            ProgressBar(
                total=self.total_steps,
                completed=min(row["step"], self.total_steps),
                width=24,
                complete_style="green",
                finished_style="green",
            ),
            f"{row['step']:,} of {self.total_steps:,.0f} steps",
            f"{row['steps_per_second']:,.0f}/s",
            self._eta(row),
        )
        body = Table.grid(padding=(0, 2))
        cells = (
            ("return", f"{row['mean_episode_return']:.2f}"),
            ("episode length", f"{row['mean_episode_length']:.0f}"),
            ("velocity error", f"{row['lin_vel_error']:.3f} m/s"),
            ("yaw error", f"{row['yaw_rate_error']:.3f} rad/s"),
            ("peers", f"{row['peers']}{' (leader)' if row['leader'] else ''}"),
            ("gradient batch", f"{row['gradient_batch_size']:.0f} of {row['virtual_batch_size']}+"),
        )
        body.add_row(*(Text(name, style="dim") for name, _ in cells))
        body.add_row(*(value for _, value in cells))
        return Group(head, body)
