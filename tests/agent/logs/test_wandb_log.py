"""Weights & Biases, offline."""

import struct
import sys
import time

import pytest

from agent.errors import LogError
from agent.logs.log import Logs
from agent.logs.wandb_log import WandbLog


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
    time.sleep(1.1)  # wandb names the directory of an offline run by the second in which it starts
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


def test_a_service_that_fails_is_told_once_and_stops_no_other_log(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    rows = []

    class Memory:
        def write(self, row):
            rows.append(row)

        def close(self):
            rows.append("closed")

    wandb = WandbLog(project="p", name="n", config={}, directory=tmp_path)
    logs = Logs([wandb, Memory()])
    end = wandb.run.finish

    def broken(*_, **__):
        raise ConnectionResetError("the service has gone")

    monkeypatch.setattr(wandb.run, "log", broken)
    with pytest.raises(LogError, match="wandb: the service has gone; no further rows go there"):
        logs.write({"step": 1})
    logs.write({"step": 2})
    logs.close()
    assert rows == [{"step": 1}, {"step": 2}, "closed"]
    end()
