"""The command that evaluates."""

import json

import pytest

from agent import evaluate
from agent.errors import CheckpointError
from agent.policies import evaluation
from agent.policies.loading import load
from rigs import untrained_policies as policies


def test_the_command_prints_a_table_or_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(evaluation, "SECONDS", 0.5)
    monkeypatch.setattr(evaluation, "SETTLE", 0.1)
    path = policies.save(tmp_path / "policy.safetensors", 0.0)
    assert evaluate.main([f"checkpoint={path}", "robots=1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["training_steps"] == 1_000_000
    assert len(printed["per_command"]) == 9
    assert printed["overall"]["falls"] == 0
    assert evaluate.main([f"checkpoint={path}", "robots=1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("0.6 0.2 0.5") for line in lines) == 2
    assert max(map(len, lines[1:])) <= 80


def test_mistakes_are_one_line(tmp_path, capsys):
    assert evaluate.main(["checkpoint=nowhere"]) == 1
    assert evaluate.main(["speed=1"]) == 2
    assert evaluate.main(["physics=real"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "agent.evaluate: nowhere: there is no such checkpoint",
        "agent.evaluate: speed=1: unknown key; allowed are checkpoint, physics, robots, push, seed, json",
        "agent.evaluate: physics='real': must be one of train, menagerie",
    ]


def test_a_run_is_found_by_its_directory(tmp_path, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    policies.save(run / "checkpoint.safetensors", 0.0)
    (tmp_path / "latest").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("latest", "run", "~/run", "run/checkpoint.safetensors"):
        assert load(name).path.samefile(run / "checkpoint.safetensors")
    (tmp_path / "latest").unlink()
    with pytest.raises(CheckpointError, match="nothing was trained in this directory yet"):
        load("latest")
