"""A run that learned something leaves a checkpoint, however it ends, in real processes."""

import os
import signal
import subprocess
import sys
import time

import pytest

from agent.storage import checkpoint
from rigs.experiments import TINY

RUN = [*TINY, "savedir=run", "group=g", "local_name=p"]
COMMAND = [sys.executable, "-m", "agent.experiment", *RUN]


def steps_saved(directory):
    return checkpoint.load(directory / "run" / "checkpoint.safetensors")["learner"]["progress"]["step"]


def test_a_savedir_apart_from_the_localdir_is_created_at_the_start(tmp_path):
    command = [*COMMAND, f"localdir={tmp_path}/own", "savedir=deep/er/run", "total_steps=96"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "deep" / "er" / "run" / "checkpoint.safetensors").exists()


def test_a_savedir_that_cannot_be_written_is_refused_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    command = [*COMMAND, f"localdir={tmp_path}/own", "savedir=file/run", "total_steps=96"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and result.stderr.count("\n") == 1, result.stderr
    assert f"savedir={tmp_path}/file/run: cannot write checkpoints there: Not a directory" in result.stderr
    assert not (tmp_path / "own").exists()


def test_the_reader_of_the_output_may_leave(tmp_path):
    command = [*COMMAND, "total_steps=960"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert "broker embedded" in process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(60) == 0 and errors == ""
    assert steps_saved(tmp_path) >= 960


@pytest.mark.parametrize(
    ("output", "environment"),
    [("/dev/full", {}), ("out", {"PYTHONIOENCODING": "ascii"}), ("out", {"LC_ALL": "C", "PYTHONUTF8": "0"})],
)
def test_an_output_that_cannot_be_written_or_encoded_stops_nothing(tmp_path, output, environment):
    with open(tmp_path / output, "w") as file:
        result = subprocess.run(
            [*COMMAND, "total_steps=960"], cwd=tmp_path, stdout=file, stderr=subprocess.PIPE, text=True,
            timeout=60, env=os.environ | environment,
        )  # fmt: skip
    assert result.returncode == 0 and result.stderr == ""
    assert steps_saved(tmp_path) >= 960


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_with_a_checkpoint(tmp_path, number):
    process = subprocess.Popen(
        [*COMMAND, "total_steps=1e9"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    deadline = time.monotonic() + 60
    log = tmp_path / "run" / "peers" / "p" / "logs.tsv"
    while not log.exists() or log.read_text().count("\n") < 4:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and b"Traceback" not in output
    assert steps_saved(tmp_path) > 0


BROKEN = """
import agent.experiment, agent.training.metrics_row
row, calls = agent.training.metrics_row.MetricsRow.row, [0]
def broken(self):
    calls[0] += 1
    if calls[0] > 5:
        raise ZeroDivisionError("a mistake of ours")
    return row(self)
agent.training.metrics_row.MetricsRow.row = broken
agent.experiment.main()
"""


def test_an_unexpected_exception_leaves_a_checkpoint_that_resumes(tmp_path):
    command = [sys.executable, "-c", BROKEN, *RUN, "total_steps=1e9"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode != 0 and "a mistake of ours" in result.stderr
    saved = steps_saved(tmp_path)
    assert saved > 0
    command = [*COMMAND, f"total_steps={saved + 96}"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and f"at step {saved:,}" in result.stdout, result.stderr
    assert steps_saved(tmp_path) >= saved + 96
