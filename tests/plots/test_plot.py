"""plot.py as users run it: what the terminal shows, what pictures hold, and what is said about bad files."""

import json
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

from plots import command
from plots.series import Series, make_series, rolling_mean
from plots.table import read_table
from plots.terminal import terminal_plot

ROOT = Path(__file__).resolve().parents[2]
ANSI = re.compile(r"\033\[[0-9;?]*[A-Za-z]")
BLOCKS = "▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"


def write(path, rows, names=("step", "mean_episode_return", "entropy"), end=""):
    lines = ["\t".join(names), *("\t".join(map(str, row)) for row in rows)]
    path.write_text("".join(f"{line}\n" for line in lines) + end)
    return path


@pytest.fixture
def log(tmp_path):
    return write(tmp_path / "logs.tsv", [(1000 * i, 2 * i, 50 - i) for i in range(51)])


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs plot.py on an 80 x 24 terminal; returns its status, output and error output."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def call(*arguments):
        try:
            status = command.main([str(argument) for argument in arguments])
        except SystemExit as exit:
            status = exit.code
        return status, *capsys.readouterr()

    return call


def heights(text):
    """For each column of the plotting area the line (from above) of its first mark, None without one."""
    lines = [line[1:].split("│")[0] for line in ANSI.sub("", text).splitlines() if line.startswith("│")]
    columns = zip(*lines, strict=True)
    return [next((i for i, cell in enumerate(column) if cell in BLOCKS), None) for column in columns]


def test_a_rising_line_rises_across_the_whole_frame(run, log):
    status, out, err = run(log)
    assert (status, err) == (0, "")
    rows = heights(out)
    assert None not in rows and rows == sorted(rows, reverse=True)
    assert rows[-1] == 0 and rows[0] > 10
    assert "mean_episode_return over step" in out and "logs.tsv: 100" in out


def test_colours_without_a_terminal_unless_refused(run, log, monkeypatch):
    assert "\033[32m" in run(log)[1]
    assert "\033[" not in run(log, "--no-color")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033[" not in run(log)[1]


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


def test_size_options(run, log):
    lines = ANSI.sub("", run(log, "--width", 60, "--height", 12)[1]).splitlines()
    assert len(lines) == 12 and 50 <= max(map(len, lines)) <= 60


def test_files_and_keys_are_overlaid(run, tmp_path):
    for index, name in enumerate(("run1", "run2")):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "logs.tsv", [(step, step + index, -step) for step in range(10)])
    files = [tmp_path / "run1" / "logs.tsv", tmp_path / "run2" / "logs.tsv"]
    out = run(*files)[1]
    assert "run1/logs.tsv: 9" in out and "run2/logs.tsv: 10" in out
    out = run(files[0], "--ykey", "mean_episode_return,entropy")[1]
    assert "mean_episode_return: 9" in out and "entropy: -9" in out and "run1" not in out
    out = run(*files, "--ykey", "mean_episode_return,entropy")[1]
    for label in ("run1/logs.tsv mean_episode_return: 9", "run2/logs.tsv entropy: -9"):
        assert label in out
    assert {"\033[32m", "\033[35m", "\033[36m", "\033[33m"} <= set(ANSI.findall(out))
    out = run(*files, "--no-color")[1]  # each curve has its own character
    assert "++ run1/logs.tsv" in out and "xx run2/logs.tsv" in out and out.count("x") > 20


def test_rolling_mean_against_a_slow_loop():
    values = np.random.default_rng(0).normal(size=40)
    for window in (1, 2, 7, 39, 40, 500):
        expected = [values[max(i - window + 1, 0) : i + 1].mean() for i in range(40)]
        np.testing.assert_allclose(rolling_mean(values, window), expected, atol=1e-12)


def test_window_smooths(run, tmp_path):
    log = write(tmp_path / "logs.tsv", [(i, 100 * (i % 2), 0) for i in range(1, 41)])
    out = run(log, "--window", 40)[1]
    assert "(mean of 40 rows)" in out and "logs.tsv: 50" in out
    assert "logs.tsv: 0" in run(log)[1]


def test_xkey(run, log):
    out = run(log, "--xkey", "entropy")[1]
    assert "over entropy" in out
    rows = heights(out)
    assert rows[0] == 0 and rows == sorted(rows)  # entropy falls while the return rises


@pytest.mark.parametrize("half", ["9", "9\t9", "9\t1e9\t", "9\t1e9\t4"])
def test_half_written_last_line_is_left_out(run, tmp_path, half):
    log = write(tmp_path / "logs.tsv", [(1, 10, 0), (2, 20, 0)], end=half)
    status, out, _ = run(log)
    assert status == 0 and "logs.tsv: 20" in out


def test_cells_without_a_number_are_left_out(run, tmp_path):
    values = ["", "nan", 5, "", "inf", 7, "-inf", "x", 6, "nan"]
    log = write(tmp_path / "logs.tsv", [(i, value, 0) for i, value in enumerate(values)])
    status, out, _ = run(log)
    assert status == 0 and "logs.tsv: 6" in out
    (series,) = make_series([read_table(log)], "step", ["mean_episode_return"])
    assert series.x.tolist() == [2, 5, 8] and series.y.tolist() == [5, 7, 6]


@pytest.mark.parametrize(
    "content", ["", "st", "step\tmean_episode_return\n", "step\tmean_episode_return\n1\tnan\n"]
)
def test_file_without_values_says_so(run, tmp_path, content):
    path = tmp_path / "logs.tsv"
    path.write_text(content)
    assert run(path) == (0, f"{path}: no values of mean_episode_return yet\n", "")


def test_one_point_and_constant_curves_are_drawn(run, tmp_path):
    for rows in ([(5, 3, 0)], [(5, 3, 0), (6, 3, 0)], [(5, 3, 0), (5, 3, 0)]):
        status, out, _ = run(write(tmp_path / "logs.tsv", rows))
        assert status == 0 and any(row is not None for row in heights(out))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{log}", "--ykey", "loss"], "{log}: no column 'loss'; it has step, mean_episode_return, entropy"),
        (["{log}", "--xkey", "t"], "{log}: no column 't'; it has step, mean_episode_return, entropy"),
        (["{log}", "{log}.old"], "{log}.old: No such file or directory"),
        (["{dir}/empty"], "{dir}/empty: there is no logs.tsv in this directory"),
        ([], "give logs or directories to plot, or --report RUN"),
        (["{log}", "--report", "{dir}"], "give logs or directories to plot, or --report RUN"),
        (["{log}", "--png", "a.jpg"], "--png a.jpg: must end in .png"),
        (["{log}", "--group", "seed"], "{dir}/meta.json: no configuration there to look 'seed' up in"),
        (["{log}", "--png", "{dir}/no/a.png"], "{dir}/no/a.png: No such file or directory"),
        (["{log}", "--window", "0"], "--window 0: must be 1 or greater"),
        (["{log}", "--interval", "0", "--follow"], "--interval 0.0: must be greater than 0"),
        (["{log}", "--width", "5"], "--width 5: must be 40 or greater"),
        (["{log}", "--height", "5"], "--height 5: must be 8 or greater"),
        (["{log}", "--follow", "--png", "a.png"], "--follow draws in the terminal"),
    ],
)
def test_mistakes_are_told_in_one_line(run, log, arguments, message):
    names = {"log": log, "dir": log.parent}
    (log.parent / "empty").mkdir()
    status, out, err = run(*(argument.format(**names) for argument in arguments))
    assert (status, out) == (2, "")
    assert err.startswith(f"plot.py: {message.format(**names)}") and err.count("\n") == 1


def test_list_shows_newest_values_units_and_meanings(run, log):
    status, out, _ = run(log, "--list")
    lines = [line.split(None, 2) for line in out.splitlines()]
    assert status == 0
    assert [line[:2] for line in lines] == [
        ["step", "50000"],
        ["mean_episode_return", "100"],
        ["entropy", "0"],
    ]
    assert lines[0][2].startswith("policy steps  global step") and lines[2][2].startswith("nats  ")


def logs_of(tmp_path, **runs):
    """A log of three rows for each run, whose values are at steps 0, 1 and 2; with a meta.json."""
    for name, (seed, values) in runs.items():
        directory = tmp_path / name
        directory.mkdir()
        write(directory / "logs.tsv", [(step, value, 0) for step, value in enumerate(values)])
        meta = {"config": {"seed": seed, "algorithm": {"name": "ppo" if seed < 3 else "vtrace"}}}
        (directory / "meta.json").write_text(json.dumps(meta))
    return [read_table(tmp_path / name / "logs.tsv") for name in runs]


def test_a_group_is_shown_by_its_mean_and_spread(tmp_path):
    tables = logs_of(tmp_path, a=(1, [1, 2, 3]), b=(2, [3, 6, 9]), c=(3, [100, 100, 100]))
    (one,) = make_series(tables, "step", ["mean_episode_return"], group="all")
    assert one.label == "all (3)"
    at = [0, 200, -1]  # the middle of 400 points is half a spacing before step 1
    np.testing.assert_allclose(one.smooth[at], [104 / 3, 36, 112 / 3], atol=0.02)
    np.testing.assert_allclose(one.spread[[0, -1]], np.std([[1, 3, 100], [3, 9, 100]], axis=1, ddof=1))
    ppo, vtrace = make_series(tables, "step", ["mean_episode_return"], group="algorithm.name")
    assert (ppo.label, vtrace.label) == ("algorithm.name=ppo (2)", "algorithm.name=vtrace (1)")
    np.testing.assert_allclose([ppo.smooth[0], ppo.spread[0]], [2, np.sqrt(2)])
    assert vtrace.smooth[-1] == 100 and np.isnan(vtrace.spread).all()


def test_the_peers_of_a_run_are_one_group(tmp_path):
    tables = logs_of(tmp_path, a=(1, [1, 2, 3]), b=(2, [3, 6, 9]), c=(3, [5, 5, 5]))
    for table, run in zip(tables, ("x/one", "x/one", "x/two"), strict=True):
        (table.path.parent / "meta.json").write_text(json.dumps({"config": {"savedir": run}}))
    series = make_series(tables, "step", ["mean_episode_return"], group="run")
    assert [(one.label, one.smooth[-1]) for one in series] == [("x/one (2)", 6), ("x/two (1)", 5)]


def test_a_mean_reaches_as_far_as_half_of_its_logs(tmp_path):
    tables = logs_of(tmp_path, a=(1, [1, 1, 1]), b=(2, [3, 3]), c=(3, [5]))
    (one,) = make_series(tables, "step", ["mean_episode_return"], group="all")
    assert one.x.max() == pytest.approx(1, abs=0.01)
    assert one.smooth[0] == 3 and one.smooth[-1] == 2


def test_group_on_the_command_line(run, tmp_path):
    logs_of(tmp_path, a=(1, [1, 2, 3]), b=(2, [3, 6, 9]))
    status, out, err = run(tmp_path, "--group", "all")
    assert (status, err) == (0, "") and "all (2): 6 ± 4.2" in out
    assert run(tmp_path, "--group", "lr")[2].endswith("meta.json: the configuration has no key 'lr'\n")


def test_a_directory_stands_for_every_log_in_it_once(run, tmp_path):
    logs_of(tmp_path, a=(1, [1, 2, 3]), b=(2, [3, 6, 9]))
    (tmp_path / "logs.tsv").symlink_to("b/logs.tsv")
    out = run(tmp_path)[1]
    assert "a/logs.tsv: 3" in out and out.count(": 9") == 1


def test_a_log_without_the_column_is_left_out(run, tmp_path):
    logs_of(tmp_path, a=(1, [1, 2, 3]))
    (tmp_path / "b").mkdir()
    write(tmp_path / "b" / "logs.tsv", [(0, 5)], names=("step", "other"))
    status, out, _ = run(tmp_path, "--ykey", "other")
    assert status == 0 and "b/logs.tsv: 5" in out and "a/logs.tsv" not in out


def test_logarithmic_axes_leave_out_what_they_cannot_show(run, tmp_path):
    log = write(tmp_path / "logs.tsv", [(0, 1, 0), (1, 1, 0), (10, 10, 0), (100, 100, -1), (1000, -5, 0)])
    status, out, _ = run(log, "--logx", "--logy")
    rows = [row for row in heights(out) if row is not None]
    assert status == 0 and "logs.tsv: 100" in out
    assert rows == sorted(rows, reverse=True) and abs(rows[len(rows) // 2] - max(rows) / 2) < 1.5  # a line
    assert "no values" in run(log, "--logy", "--ykey", "entropy")[1]


def test_panels_are_one_plot_per_column(run, log):
    out = run(log, "--ykey", "mean_episode_return,entropy", "--panels", "--height", 30)[1]
    assert "mean_episode_return over step" in out and "entropy over step" in out


def test_svg(run, log, tmp_path):
    picture = tmp_path / "out.svg"
    assert run(log, "--svg", picture, "--ykey", "mean_episode_return,entropy", "--panels")[0] == 0
    assert picture.read_text().rstrip().endswith("</svg>")


def test_png_holds_the_curves(run, log, tmp_path):
    """The picture has coloured pixels from the lower left to the upper right."""
    image = pytest.importorskip("matplotlib.image")
    picture = tmp_path / "out.png"
    assert run(log, "--png", picture) == (0, f"wrote {picture}\n", "")
    pixels = image.imread(picture)[..., :3]
    assert pixels.shape[0] >= 500 and pixels.shape[1] >= 900
    height, width = pixels.shape[:2]
    coloured = pixels.max(-1) - pixels.min(-1) > 0.4
    lower_left, upper_right = (
        coloured[3 * height // 4 :, : width // 4],
        coloured[: height // 4, 3 * width // 4 :],
    )
    lower_right = coloured[3 * height // 4 :, 3 * width // 4 :]
    assert lower_left.any() and upper_right.any() and not lower_right.any()


def test_terminal_plot_starts_without_matplotlib(log):
    program = (
        f"import sys; from plots import command; command.main([{str(log)!r}]);"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60, capture_output=True)


def read_until(descriptor, text, deadline):
    """Reads from a terminal until `text` is seen; returns all that was read."""
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
