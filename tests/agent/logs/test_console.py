"""What people see: numbers that stay when an interval holds none, and lines where there is no terminal."""

import io
import math

from rich.console import Console

from agent.logs.console import TrainingConsole, duration

ROW = {
    "step": 50, "steps_per_second": 10.0, "mean_episode_return": 1.5, "mean_episode_length": 20.0,
    "lin_vel_error": 0.25, "yaw_rate_error": 0.5, "peers": 2, "leader": True, "gradient_batch_size": 12.0,
    "virtual_batch_size": 8,
}  # fmt: skip


def shown(terminal, *rows):
    out = io.StringIO()
    with TrainingConsole("run", 100.0, Console(file=out, force_terminal=terminal, width=120)) as status:
        for row in rows:
            status.last_line = -math.inf
            status.show(row)
    return out.getvalue()


def test_durations():
    assert [duration(s) for s in (5, 65, 3725, -1, math.nan, math.inf)] == [
        "0:05",
        "1:05",
        "1:02:05",
        "?",
        "?",
        "?",
    ]


def test_lines_without_a_terminal():
    line = shown(False, ROW)
    assert "step 50 of 100 · 10/s · ETA 0:05 · return 1.50" in line
    assert "peers 2 · batch 12" in line
    assert "\x1b" not in line


def test_an_interval_without_episodes_keeps_the_last_return():
    lines = shown(False, ROW, {**ROW, "step": 60, "mean_episode_return": math.nan}).splitlines()
    assert "step 60" in lines[1] and "return 1.50" in lines[1]


def test_the_panel_refreshes_in_place_and_ends_done():
    panel = shown(True, ROW, {**ROW, "step": 100})
    assert "ETA 0:05" in panel and "done" in panel and "12 of 8+" in panel
    assert "\x1b[1A" in panel  # the cursor goes back up
