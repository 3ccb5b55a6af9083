"""logs.tsv: what is on disk after good and bad endings."""

import math
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from agent.errors import LogError
from agent.logs.tsv_log import Column, TsvLog

COLUMNS = [Column("step", "steps", "global step"), Column("loss", "", "loss"), Column("note", "", "text")]


def test_header_comes_first_and_rows_follow_in_declared_order(tmp_path):
    log = TsvLog(tmp_path / "logs.tsv", COLUMNS)
    log.write({"note": "start", "loss": 0.25, "step": 3})
    assert (tmp_path / "logs.tsv").read_text() == "step\tloss\tnote\n3\t0.25\tstart\n"
    log.close()


def test_row_is_readable_before_the_log_is_closed(tmp_path):
    log = TsvLog(tmp_path / "logs.tsv", COLUMNS)
    for step in range(3):
        log.write({"step": step})
        assert (tmp_path / "logs.tsv").read_text().splitlines()[-1] == f"{step}\t\t"
    log.close()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (float("nan"), "nan"),
        (-math.inf, "-inf"),
        (1764451905.123456, "1764451905.12"),
        (0.1 + 0.2, "0.3"),
        (123456789012345678, "123456789012345678"),
        (True, "1"),
        (np.float32(0.5), "0.5"),
        (np.int64(7), "7"),
        (torch.tensor(2.5), "2.5"),
        ("a b", "a b"),
    ],
)
def test_cells(tmp_path, value, text):
    log = TsvLog(tmp_path / "logs.tsv", COLUMNS)
    log.write({"step": 1, "loss": value, "note": "x"})
    assert (tmp_path / "logs.tsv").read_text().splitlines()[1] == f"1\t{text}\tx"
    log.close()


def test_undeclared_name_is_an_error_and_writes_nothing(tmp_path):
    log = TsvLog(tmp_path / "logs.tsv", COLUMNS)
    with pytest.raises(KeyError, match="undeclared columns: entropy, kl"):
        log.write({"step": 1, "entropy": 2, "kl": 3})
    assert (tmp_path / "logs.tsv").read_text() == "step\tloss\tnote\n"


@pytest.mark.parametrize("text", ["a\tb", "a\nb", "a\rb"])
def test_text_that_would_shift_the_table_is_an_error(tmp_path, text):
    log = TsvLog(tmp_path / "logs.tsv", COLUMNS)
    with pytest.raises(ValueError, match="note="):
        log.write({"note": text})


def test_resuming_appends(tmp_path):
    for step in (1, 2):
        log = TsvLog(tmp_path / "logs.tsv", COLUMNS)
        log.write({"step": step})
        log.close()
    assert (tmp_path / "logs.tsv").read_text() == "step\tloss\tnote\n1\t\t\n2\t\t\n"


def test_last_row(tmp_path):
    log = TsvLog(tmp_path / "logs.tsv", COLUMNS)
    assert log.last_row() is None
    log.write({"step": 1})
    log.write({"step": 2, "note": "end"})
    assert TsvLog(tmp_path / "logs.tsv", COLUMNS).last_row() == {"step": "2", "loss": "", "note": "end"}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("step\tnote\n", "it lacks loss;"),
        ("step\tloss\tnote\tkl\n1\t2\t3\t4\n", "it has kl that this version does not write"),
        ("step\tnote\tloss\n", "the order is step, note, loss instead of step, loss, note"),
        ("something else", "not a log of this program"),
        ("step\tloss\tno", None),  # killed within the header
        ("", None),
    ],
)
def test_file_that_was_there_before(tmp_path, header, message):
    path = tmp_path / "logs.tsv"
    path.write_text(header)
    if message is None:
        TsvLog(path, COLUMNS).write({"step": 1})
        assert path.read_text() == "step\tloss\tnote\n1\t\t\n"
    else:
        with pytest.raises(LogError, match=message) as caught:
            TsvLog(path, COLUMNS)
        assert "\n" not in str(caught.value)
        assert path.read_text() == header


def test_rows_of_lost_updates_are_removed(tmp_path):
    path = tmp_path / "logs.tsv"
    log = TsvLog(path, COLUMNS)
    for step in (None, 1, 2, 2, 5, 7):
        log.write({"step": step, "note": "x"})
    assert log.cut("step", 2) == 2
    assert log.cut("step", 2) == 0
    log.write({"step": 3})
    assert [line.split("\t")[0] for line in path.read_text().splitlines()] == ["step", "", "1", "2", "2", "3"]
    assert log.cut("step", -1) == 5
    assert path.read_text() == "step\tloss\tnote\n"
    log.close()


@pytest.mark.parametrize("half", ["2", "2\t0.", "2\t0.5\tx"])
def test_half_written_last_line_is_cut_off(tmp_path, half):
    path = tmp_path / "logs.tsv"
    path.write_text(f"step\tloss\tnote\n1\t\t\n{half}")
    log = TsvLog(path, COLUMNS)
    assert path.read_text() == "step\tloss\tnote\n1\t\t\n"
    log.write({"step": 2})
    assert path.read_text() == "step\tloss\tnote\n1\t\t\n2\t\t\n"


def test_full_disk_is_an_error_and_leaves_whole_lines(tmp_path):
    """A limit on the size of files stands in for a full disk: writes come back short, then fail."""
    path = tmp_path / "logs.tsv"
    log = TsvLog(path, COLUMNS)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (32, hard))
        log.write({"step": 1, "note": "fits"})
        with pytest.raises(LogError, match=r"logs.tsv: cannot write a row: the disk is full"):
            log.write({"step": 2, "note": "too long"})
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
        with pytest.raises(LogError, match=r"logs.tsv: cannot write a row: File too large"):
            log.write({"step": 2, "note": "too long"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_text() == "step\tloss\tnote\n1\t\tfits\n"


def test_unwritable_place_is_one_line(tmp_path):
    with pytest.raises(LogError, match="cannot open it for writing: No such file or directory"):
        TsvLog(tmp_path / "nowhere" / "logs.tsv", COLUMNS)
    with pytest.raises(LogError, match="cannot open it for writing: Is a directory"):
        TsvLog(tmp_path, COLUMNS)


def test_columns_are_checked(tmp_path):
    with pytest.raises(ValueError, match="declared twice: step"):
        TsvLog(tmp_path / "logs.tsv", [*COLUMNS, COLUMNS[0]])
    for name in ("", "two words", "tab\t"):
        with pytest.raises(ValueError, match="one word"):
            Column(name, "", "")


WRITER = """
import sys
from agent.logs.tsv_log import Column, TsvLog
log = TsvLog(sys.argv[1], [Column("a", "", ""), Column("b", "", "")])
start = int((log.last_row() or {"a": -1})["a"]) + 1
print("ready", flush=True)
for step in range(start, 10**9):
    log.write({"a": step, "b": step})
"""


def test_killed_writers_leave_a_table_without_gaps(tmp_path):
    path = tmp_path / "logs.tsv"
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout.readline() == b"ready\n"
            size = path.stat().st_size
            while path.stat().st_size < size + 10_000:
                assert writer.poll() is None
            writer.kill()
    lines = path.read_text().splitlines()
    assert lines[0] == "a\tb"
    assert lines[1:] == [f"{step}\t{step}" for step in range(len(lines) - 1)]
