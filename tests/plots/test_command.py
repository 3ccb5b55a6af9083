"""plot.py as users run it: what the terminal shows, and the one line that a mistake ends in."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plots.made_runs import logs_of, write

ROOT = Path(__file__).resolve().parents[2]
ANSI = re.compile(r"\033\[[0-9;?]*[A-Za-z]")
BLOCKS = "▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"


def heights(text):
    """Return the line (from above) of the first mark in each column of the plotting area, or None."""
    lines = [line[1:].split("│")[0] for line in ANSI.sub("", text).splitlines() if line.startswith("│")]
    columns = zip(*lines, strict=True)
    return [next((i for i, cell in enumerate(column) if cell in BLOCKS), None) for column in columns]


def test_a_rising_line_rises_across_the_whole_frame(plot, log):
    status, out, err = plot(log)
    assert (status, err) == (0, "")
    rows = heights(out)
    assert None not in rows and rows == sorted(rows, reverse=True)
    assert rows[-1] == 0 and rows[0] > 10
    assert "mean_episode_return over step" in out and "logs.tsv: 100" in out


def test_colours_without_a_terminal_unless_refused(plot, log, monkeypatch):
    assert "\033[32m" in plot(log)[1]
    assert "\033[" not in plot(log, "--no-color")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033[" not in plot(log)[1]


def test_size_options(plot, log):
    lines = ANSI.sub("", plot(log, "--width", 60, "--height", 12)[1]).splitlines()
    assert len(lines) == 12 and 50 <= max(map(len, lines)) <= 60


def test_files_and_keys_are_overlaid(plot, tmp_path):
    for index, name in enumerate(("run1", "run2")):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "logs.tsv", [(step, step + index, -step) for step in range(10)])
    files = [tmp_path / "run1" / "logs.tsv", tmp_path / "run2" / "logs.tsv"]
    out = plot(*files)[1]
    assert "run1/logs.tsv: 9" in out and "run2/logs.tsv: 10" in out
    out = plot(files[0], "--ykey", "mean_episode_return,entropy")[1]
    assert "mean_episode_return: 9" in out and "entropy: -9" in out and "run1" not in out
    out = plot(*files, "--ykey", "mean_episode_return,entropy")[1]
    for label in ("run1/logs.tsv mean_episode_return: 9", "run2/logs.tsv entropy: -9"):
        assert label in out
    assert {"\033[32m", "\033[35m", "\033[36m", "\033[33m"} <= set(ANSI.findall(out))
    out = plot(*files, "--no-color")[1]  # each curve has its own character
    assert "++ run1/logs.tsv" in out and "xx run2/logs.tsv" in out and out.count("x") > 20


def test_window_smooths(plot, tmp_path):
    log = write(tmp_path / "logs.tsv", [(i, 100 * (i % 2), 0) for i in range(1, 41)])
    out = plot(log, "--window", 40)[1]
    assert "(mean of 40 rows)" in out and "logs.tsv: 50" in out
    assert "logs.tsv: 0" in plot(log)[1]


def test_xkey(plot, log):
    out = plot(log, "--xkey", "entropy")[1]
    assert "over entropy" in out
    rows = heights(out)
    assert rows[0] == 0 and rows == sorted(rows)  # entropy falls while the return rises


@pytest.mark.parametrize(
    "content", ["", "st", "step\tmean_episode_return\n", "step\tmean_episode_return\n1\tnan\n"]
)
def test_file_without_values_says_so(plot, tmp_path, content):
    path = tmp_path / "logs.tsv"
    path.write_text(content)
    assert plot(path) == (0, f"{path}: no values of mean_episode_return yet\n", "")


def test_one_point_and_constant_curves_are_drawn(plot, tmp_path):
    for rows in ([(5, 3, 0)], [(5, 3, 0), (6, 3, 0)], [(5, 3, 0), (5, 3, 0)]):
        status, out, _ = plot(write(tmp_path / "logs.tsv", rows))
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
def test_mistakes_are_told_in_one_line(plot, log, arguments, message):
    names = {"log": log, "dir": log.parent}
    (log.parent / "empty").mkdir()
    status, out, err = plot(*(argument.format(**names) for argument in arguments))
    assert (status, out) == (2, "")
    assert err.startswith(f"plot.py: {message.format(**names)}") and err.count("\n") == 1


def test_list_shows_newest_values_units_and_meanings(plot, log):
    status, out, _ = plot(log, "--list")
    lines = [line.split(None, 2) for line in out.splitlines()]
    assert status == 0
    assert [line[:2] for line in lines] == [
        ["step", "50000"],
        ["mean_episode_return", "100"],
        ["entropy", "0"],
    ]
    assert lines[0][2].startswith("policy steps  global step") and lines[2][2].startswith("nats  ")


def test_group_on_the_command_line(plot, tmp_path):
    logs_of(tmp_path, a=(1, [1, 2, 3]), b=(2, [3, 6, 9]))
    status, out, err = plot(tmp_path, "--group", "all")
    assert (status, err) == (0, "") and "all (2): 6 ± 4.2" in out
    assert plot(tmp_path, "--group", "lr")[2].endswith("meta.json: the configuration has no key 'lr'\n")


def test_a_log_without_the_column_is_left_out(plot, tmp_path):
    logs_of(tmp_path, a=(1, [1, 2, 3]))
    (tmp_path / "b").mkdir()
    write(tmp_path / "b" / "logs.tsv", [(0, 5)], names=("step", "other"))
    status, out, _ = plot(tmp_path, "--ykey", "other")
    assert status == 0 and "b/logs.tsv: 5" in out and "a/logs.tsv" not in out


def test_logarithmic_axes_leave_out_what_they_cannot_show(plot, tmp_path):
    log = write(tmp_path / "logs.tsv", [(0, 1, 0), (1, 1, 0), (10, 10, 0), (100, 100, -1), (1000, -5, 0)])
    status, out, _ = plot(log, "--logx", "--logy")
    rows = [row for row in heights(out) if row is not None]
    assert status == 0 and "logs.tsv: 100" in out
    assert rows == sorted(rows, reverse=True) and abs(rows[len(rows) // 2] - max(rows) / 2) < 1.5  # a line
    assert "no values" in plot(log, "--logy", "--ykey", "entropy")[1]


def test_panels_are_one_plot_per_column(plot, log):
    out = plot(log, "--ykey", "mean_episode_return,entropy", "--panels", "--height", 30)[1]
    assert "mean_episode_return over step" in out and "entropy over step" in out


def test_terminal_plot_starts_without_matplotlib(log):
    program = (
        f"import sys; from plots import command; command.main([{str(log)!r}]);"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60, capture_output=True)


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\0\0", b"\x08\0\0\0\0\0\0\0{}", b"PK\x03\x04\0\0"])
def test_a_binary_file_is_refused_in_one_line(plot, tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert plot(path) == (2, "", f"plot.py: {path}: a binary file; a log is text, a logs.tsv\n")


@pytest.mark.parametrize("more", [["--follow", "--interval", "0.05"], []])
def test_a_reader_that_leaves_ends_it_without_a_traceback(log, more):
    process = subprocess.Popen(
        [sys.executable, "plot.py", str(log), *more],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(60) in (0, 1)
