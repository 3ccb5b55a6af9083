"""logs.tsv, meta.json, shortcuts and wandb: what is on disk after good and bad endings."""

import json
import math
import os
import resource
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from agent.logs.record import Column, LogError, Logs, TsvLog, WandbLog

from agent.logs.metadata import git_commit, symlink, write_metadata

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


def test_rows_of_lost_updates_are_taken_back(tmp_path):
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
from agent.logs.record import Column, TsvLog
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


def test_metadata_tells_the_run_apart_and_keeps_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "in-the-environment")
    config = {
        "seed": 1,
        "api_key": "in-the-config",
        "monkey": "no secret",
        "env": {"token": "nested", "key": None},
    }
    write_metadata(tmp_path / "meta.json", config, peer="anna")
    text = (tmp_path / "meta.json").read_text()
    assert "in-the-" not in text and "nested" not in text
    metadata = json.loads(text)
    assert metadata["config"] == {
        "seed": 1,
        "api_key": "***",
        "monkey": "no secret",
        "env": {"token": "***", "key": None},
    }
    assert metadata["peer"] == "anna"
    assert metadata["packages"]["torch"] == torch.__version__
    assert metadata["cores"] >= 1 and metadata["host"]
    assert not list(tmp_path.glob(".*"))


def test_git_commit(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert git_commit(tmp_path) is None
    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    git("tag", "-a", "v1", "-m", "v1")
    commit = git("rev-parse", "HEAD")
    assert git_commit(tmp_path) == commit
    (tmp_path / "file").write_text("two")
    assert git_commit(tmp_path) == f"{commit}-dirty"


def test_symlink_moves_and_never_replaces_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("run1", "run2"):
        (tmp_path / name).mkdir()
    assert symlink("run1", "latest") and symlink("run2", "latest")
    assert os.readlink("latest") == "run2"  # relative: the directory can be moved
    elsewhere = tmp_path / "run1" / "link"
    assert symlink("run2", elsewhere)
    assert elsewhere.resolve() == tmp_path / "run2"
    Path("logs.tsv").write_text("mine")
    assert not symlink("run1", "logs.tsv")
    assert Path("logs.tsv").read_text() == "mine"
    assert not symlink("run1", tmp_path / "missing" / "link")
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_logs_write_and_close_all(tmp_path):
    paths = [tmp_path / "a.tsv", tmp_path / "b.tsv"]
    members = [TsvLog(path, COLUMNS) for path in paths]
    logs = Logs(members)
    logs.write({"step": 1})
    logs.close()
    assert [path.read_text() for path in paths] == ["step\tloss\tnote\n1\t\t\n"] * 2
    with pytest.raises(ValueError, match="closed"):
        members[0].write({"step": 2})


def _wandb_records(path):
    """The protobuf records in an offline file: LevelDB's log format behind a header of 7 bytes."""
    content, position, record = path.read_bytes(), 7, b""
    while len(content) - position >= 7:
        if 32768 - position % 32768 < 7:  # the rest of a block is too short for a chunk's header
            position += 32768 - position % 32768
            continue
        length, kind = struct.unpack("<HB", content[position + 4 : position + 7])
        record += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # a whole record, or its last chunk
            yield record
            record = b""


def _wandb_steps(directory):
    """The steps of all rows in the offline files of `directory`, oldest file first."""
    from wandb.proto import wandb_internal_pb2

    files = sorted(
        directory.glob("wandb/offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_mtime_ns
    )
    records = [wandb_internal_pb2.Record.FromString(data) for path in files for data in _wandb_records(path)]
    return [record.history.step.num for record in records if record.HasField("history")]


def test_wandb_offline_resumes_the_same_run_with_rising_steps(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    arguments = {"project": "herd", "name": "test", "config": {"seed": 1}, "directory": tmp_path}
    first = WandbLog(**arguments)
    for step in (0, 10, 20):
        first.write({"step": step, "loss": 1.0, "note": None})
    first.close()
    # The checkpoint was older than the last row: training goes back to step 10.
    second = WandbLog(**arguments, run_id=first.run_id, last_step=20)
    assert second.run_id == first.run_id
    for step in (10, 20, 30, 40):
        second.write({"step": step, "loss": 0.5})
    second.close()
    assert _wandb_steps(tmp_path) == [0, 10, 20, 30, 40]
    files = list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert {file.name for file in files} == {f"run-{first.run_id}.wandb"} and len(files) == 2


def test_wandb_missing_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(LogError, match="wandb=true: wandb is not installed"):
        WandbLog(project="herd", name="test", config={}, directory=tmp_path)
