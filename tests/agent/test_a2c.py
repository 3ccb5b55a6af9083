"""The A2C example: its estimates by hand, its time limits, and that learning begins."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from agent.a2c import Actor, Config, Model, compute_gae, main

ROOT = Path(__file__).resolve().parents[2]
CONFIG = Config(discounting=0.5, gae_lambda=0.5, num_envs=3, unroll_length=1)


def column(*values):
    return torch.tensor(values)[:, None]


def test_advantages_worked_out_by_hand():
    """Discount 1/2, lambda 1/2; the errors are 1 + 4/2 - 2 = 1, 2 + 8/2 - 4 = 2 and 3 + 6/2 - 8 = -2."""
    rewards, values, done = column(1.0, 2.0, 3.0), column(2.0, 4.0, 8.0), column(False, False, False)
    advantages = compute_gae(rewards, values, torch.tensor([6.0]), done, CONFIG)
    assert advantages[:, 0].tolist() == [1 + (2 - 2 / 4) / 4, 2 - 2 / 4, -2]


def test_nothing_is_expected_after_the_end_of_an_episode():
    """The episode ends with the second step: its error is 2 - 4 = -2, and the third step's stays out."""
    rewards, values, done = column(1.0, 2.0, 3.0), column(2.0, 4.0, 8.0), column(False, True, False)
    advantages = compute_gae(rewards, values, torch.tensor([6.0]), done, CONFIG)
    assert advantages[:, 0].tolist() == [1 - 2 / 4, -2, -2]


class ThreeEnvs:
    """One step: the first environment goes on, the second fails, the third is cut by its time limit."""

    def reset(self, seed):
        return torch.zeros(3, 4).numpy(), {}

    def step(self, actions):
        obs, rewards = torch.full((3, 4), 7.0).numpy(), torch.ones(3).double().numpy()
        terminated, truncated = torch.tensor([[False, True, False], [False, False, True]]).numpy()
        final_obs = torch.empty(3).numpy().astype(object)
        final_obs[1], final_obs[2] = torch.full((4,), 5.0).numpy(), torch.full((4,), 3.0).numpy()
        return obs, rewards, terminated, truncated, {"final_obs": final_obs}


def test_time_limit_counts_the_value_of_the_last_state(monkeypatch):
    """A state's value is its first number here, so that the cut one, 3, adds 3 / 2 to the reward of 1 / 2."""
    monkeypatch.setattr("gymnasium.make_vec", lambda *_, **__: ThreeEnvs())

    class FirstNumber(Model):
        def forward(self, obs):
            return torch.zeros(*obs.shape[:-1], 2), obs[..., 0]

    actor = Actor(FirstNumber(), CONFIG)
    obs, _, rewards, done = actor.unroll()
    assert rewards.tolist() == [[1 / 2, 1 / 2, 1 / 2 + 3 / 2]] and done.tolist() == [[False, True, True]]
    assert (
        obs.tolist() == torch.zeros(1, 3, 4).tolist() and actor.obs.tolist() == torch.full((3, 4), 7).tolist()
    )
    assert list(actor.last_returns) == [1, 1] and actor.returns.tolist() == [1, 0, 0]


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current directory; training inside it leaves torch's threads as they were."""
    threads = torch.get_num_threads()
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    torch.set_num_threads(threads)


def test_learning_begins(here):
    """Chance holds the pole for about 22 steps."""
    (here / "other-run.tsv").write_text("another run's log\n")
    (here / "logs.tsv").symlink_to("other-run.tsv")
    assert main(["total_steps=30000"]) == 0
    log = rows(here / "logs.tsv")
    assert [int(row["step"]) // 2000 for row in log] == list(range(1, 16))
    assert float(log[0]["mean_episode_return"]) < 40 and float(log[-1]["mean_episode_return"]) > 60
    assert {row["gradient_batch_size"] for row in log} == {"8"}
    assert (here / "other-run.tsv").read_text() == "another run's log\n"
    assert (here / "logs.tsv").resolve().is_relative_to(here / "outputs" / "a2c")


def test_a_file_in_the_place_of_the_link_is_left_alone(here, capsys):
    (here / "logs.tsv").write_text("mine\n")
    assert main(["total_steps=512", "log_interval=512"]) == 0
    assert (here / "logs.tsv").read_text() == "mine\n"
    assert "logs.tsv is a file of its own here" in capsys.readouterr().out
    (log,) = here.glob("outputs/a2c/*/logs.tsv")
    assert [row["step"] for row in rows(log)] == ["512"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("sed=1", "sed=1: unknown key; allowed are total_steps, seed, num_envs,"),
        ("seed=one", "seed='one': must be a whole number"),
        ("num_envs=0", "num_envs=0: must be greater than 0"),
    ],
)
def test_mistakes_are_told_in_one_line(here, capsys, argument, message):
    assert main([argument]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"agent.a2c: {message}") and said.count("\n") == 1
    assert not list(here.iterdir())


def test_command(here):
    command = [sys.executable, "-m", "agent.a2c", "--help"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0 and "python -m agent.a2c seed=2" in result.stdout
