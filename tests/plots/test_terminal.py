"""Plots in the terminal: their width, and --follow in a real one."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from plots.series import Series
from plots.terminal import terminal_plot
from tests.plots.made_runs import write

ROOT = Path(__file__).resolve().parents[2]
ANSI = re.compile(r"\033\[[0-9;?]*[A-Za-z]")


@pytest.mark.parametrize("scale", [1e-7, 0.01, 1, 1e5, -1e9])
@pytest.mark.parametrize("end", [1, 500, 1e6, 5e6, 123456789])
@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("shape", [np.sin(np.arange(30.0)), np.full(30, 5.0)])
def test_no_line_is_wider_than_the_terminal(shape, width, end, scale):
    x, y = np.linspace(0, end, 30), scale * shape
    series = [Series(label, x, y, y) for label in ("a/very/long/path/to/logs.tsv some_long_key", "b", "c")]
    text = ANSI.sub("", terminal_plot(series, "title", width, 24, color=True))
    assert max(map(len, text.splitlines())) <= width
    assert len(text.splitlines()) <= 24 + 2  # three curves may need more than one line of legend


def read_until(descriptor, text, deadline):
    """Read from a terminal until `text` appears; return all that was read."""
    seen = b""
    while text not in ANSI.sub("", seen.decode(errors="replace")):
        assert time.monotonic() < deadline, seen
        seen += os.read(descriptor, 65536)
    return seen.decode()


def test_follow_redraws_while_the_file_grows_and_ends_with_ctrl_c(tmp_path):
    path = tmp_path / "logs.tsv"
    terminal, process_end = pty.openpty()
    command = [sys.executable, str(ROOT / "plot.py"), str(path), "--follow", "--interval", "0.05"]
    deadline = time.monotonic() + 60
    with subprocess.Popen(command, stdout=process_end, stderr=process_end) as follower:
        os.close(process_end)
        try:
            read_until(terminal, "No such file", deadline)  # it waits for the file
            write(path, [(0, 1, 0), (1, 2, 0)])
            read_until(terminal, "logs.tsv: 2", deadline)
            with open(path, "a") as file:
                file.write("2\t33\t0\n")
            seen = read_until(terminal, "logs.tsv: 33", deadline)
            assert "\033[H" in seen and "\033[2J" not in seen  # drawn over the last frame: no flicker
            follower.send_signal(signal.SIGINT)
            assert follower.wait(timeout=30) == 0
        finally:
            follower.kill()
    os.close(terminal)
