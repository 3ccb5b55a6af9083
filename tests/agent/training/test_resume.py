"""Stopping and going on, in real processes: the resumed run is the uninterrupted one, number for number."""

import csv
import signal
import subprocess
import sys
import time
from pathlib import Path

from agent.storage import checkpoint

SMALL = [
    "env=go2", "seed=3", "actor_batch_size=4", "unroll_length=6", "batch_size=4", "virtual_batch_size=4",
    "model.hidden_sizes=[16,16]", "physics_threads=1", "learner_threads=1", "log_interval=1e-6",
    "model.normalizer_interval=7", "group=test",
]  # fmt: skip
EXACT = ("step", "updates", "checksum", "policy_loss", "baseline_loss", "kl", "grad_norm", "lin_vel_error",
         "mean_episode_return", "learning_rate", "transitions")  # fmt: skip


def start(directory: Path, *overrides: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "agent.experiment", *SMALL, *overrides]
    return subprocess.Popen(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def train(directory: Path, *overrides: str) -> str:
    process = start(directory, *overrides)
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 0, output
    return output


def rows(directory: Path) -> list[dict[str, str]]:
    with open(directory / "logs.tsv") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def numbers(table: list[dict[str, str]]) -> dict[str, tuple[str, ...]]:
    """The columns that must repeat exactly, by number of updates."""
    return {row["updates"]: tuple(row[name] for name in EXACT) for row in table}


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    train(whole, "total_steps=960", "model=lstm")
    train(parts, "total_steps=480", "model=lstm")
    assert "resuming" in train(parts, "total_steps=960", "model=lstm")
    expected, got = numbers(rows(whole)), numbers(rows(parts))
    assert len(expected) >= 20
    assert got == expected
    steps = [int(row["step"]) for row in rows(parts)]
    assert steps == sorted(steps)


def test_a_signal_ends_a_run_with_a_checkpoint_that_goes_on(tmp_path):
    process = start(tmp_path, "total_steps=1e9")
    deadline = time.monotonic() + 60
    while not ((tmp_path / "logs.tsv").exists() and len(rows(tmp_path)) > 3):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output
    assert "Traceback" not in output
    before = rows(tmp_path)[-1]
    assert "resuming" in train(tmp_path, f"total_steps={int(before['step']) + 48}")
    after = rows(tmp_path)
    index = [row["updates"] for row in after].index(before["updates"])
    assert int(after[index + 1]["step"]) == int(before["step"]) + 48


def test_other_settings_than_the_checkpoint_are_refused_by_name(tmp_path):
    train(tmp_path, "total_steps=48")
    process = start(tmp_path, "total_steps=96", "algorithm.clip=0.3")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "algorithm.clip=0.3 (there: 0.2)" in output
    assert "start another run with another group" in output
    assert "Traceback" not in output
    said = train(tmp_path, "total_steps=96", "seed=4", "env.commands.yaw_rate=[-1,0.5]")
    assert "env.commands.yaw_rate=(-1.0, 0.5) (there: (-1.0, 1.0))" in said
    assert "seed=4 (there: 3)" in said and "total_steps=96.0 (there: 48.0)" in said


def test_a_checkpoint_of_another_kind_is_refused_in_one_line(tmp_path):
    savedir = tmp_path / "outputs" / "herd" / "test"
    savedir.mkdir(parents=True)
    checkpoint.save(savedir / "checkpoint.safetensors", {"policy": {}})
    output, _ = (process := start(tmp_path)).communicate(timeout=60)
    assert process.returncode == 1 and "Traceback" not in output
    assert "no checkpoint of a run of this version of herd: KeyError 'learner'" in output.splitlines()[-1]
