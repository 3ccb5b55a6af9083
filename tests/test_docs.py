"""The worked examples of the documentation do what it says, as written."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from agent.algorithms.objective import POLICY_LOSSES
from agent.policies.loading import load
from envs.go2.mdp import rewards
from envs.go2.mdp.state import State
from rigs.experiments import TINY

DOCS = Path(__file__).resolve().parents[1] / "docs"


def example(page: str, directory: Path) -> list[str]:
    """Writes the files that a page shows into a directory; returns the command that it shows for them."""
    text = (DOCS / page).read_text()
    files = re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)```$", text, re.M | re.S)
    assert len(files) == 2 and sum(content.count("\n") for _, content in files) < 60
    for name, content in files:
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(content)
    (command,) = re.findall(r"^    python (\w+\.py .*)$", text, re.M)
    return shlex.split(command)


def train(directory: Path, command: list[str]) -> tuple[dict[str, str], Path]:
    """Runs a page's command for two updates; returns the last row of the log, and where it lies."""
    tiny = [setting for setting in TINY if not setting.startswith("env=")]
    arguments = [sys.executable, *command, *tiny, "total_steps=96", "savedir=run"]
    result = subprocess.run(arguments, cwd=directory, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    (log,) = directory.glob("run/peers/*/logs.tsv")
    names, *rows = (line.split("\t") for line in log.read_text().splitlines())
    return dict(zip(names, rows[-1], strict=True)), log.parent


def test_the_task_of_the_page_trains_with_its_own_reward(tmp_path):
    row, directory = train(tmp_path, example("environment.md", tmp_path))
    assert float(row["reward_base_height"]) > 0
    weights = json.loads((directory / "meta.json").read_text())["config"]["env"]["rewards"]["weights"]
    assert (weights["base_height"], weights["pose"], weights["gait"]) == (1.0, 0.1, 2.0)
    assert load(str(tmp_path / "run" / "checkpoint.safetensors")).env.name == "go2_low"


def test_the_algorithm_of_the_page_trains(tmp_path):
    row, directory = train(tmp_path, example("algorithm.md", tmp_path))
    assert float(row["updates"]) >= 2
    algorithm = json.loads((directory / "meta.json").read_text())["config"]["algorithm"]
    assert (algorithm["name"], algorithm["epochs"]) == ("spo", 4)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Runs the Python file of a page and returns what it defines; undoes what it registered."""
    monkeypatch.setattr(rewards, "TERMS", dict(rewards.TERMS))
    before = dict(POLICY_LOSSES)

    def run(page: str) -> dict:
        name, *_ = example(page, tmp_path)
        defined: dict = {"__name__": "example"}
        exec((tmp_path / name).read_text(), defined)
        return defined

    yield run
    POLICY_LOSSES.clear()
    POLICY_LOSSES.update(before)


def test_the_reward_of_the_page_is_the_formula(module):
    defined = module("environment.md")
    state = State.zeros(2)
    state.qpos[:, 2] = 0.22, 0.27
    assert defined["base_height"](state, None) == pytest.approx([1.0, 0.36788], abs=1e-4)
    assert rewards.TERMS["base_height"] is defined["base_height"]


def test_the_loss_of_the_page_is_best_at_the_clip_range(module):
    """For advantage 1 and clip 0.2 the gradient 1 - (r - 1) / 0.2 is 0 at r = 1.2; for -1 at 0.8."""
    loss = module("algorithm.md")["spo"]
    config = type("Config", (), {"clip": 0.2})
    for advantage, best in ((1.0, 1.2), (-1.0, 0.8)):
        log_ratio = torch.tensor([[best]]).log().requires_grad_()
        loss(log_ratio, torch.tensor([[advantage]]), config).backward()
        assert log_ratio.grad.item() == pytest.approx(0.0, abs=1e-6)
    assert loss(torch.zeros(1, 1), torch.full((1, 1), 3.0), config).item() == -3.0
    assert POLICY_LOSSES["spo"] is loss
