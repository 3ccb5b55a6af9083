"""Loading policies for use."""

import numpy as np
import pytest
import torch

from agent.errors import CheckpointError
from agent.policies import loading
from agent.storage import checkpoint
from rigs import untrained_policies as policies


@pytest.mark.parametrize("model", ["mlp", "lstm"])
def test_a_loaded_policy_acts_as_the_saved_one(tmp_path, model):
    path = policies.save(tmp_path / "policy.safetensors", 1.0, f"model={model}")
    loaded = loading.load(path)
    policy, config = policies.untrained(1.0, f"model={model}")
    assert (loaded.env, loaded.step, loaded.seconds) == (config.env, 1_000_000, 60.0)
    obs, start = torch.randn(5, 50), torch.ones(5, dtype=torch.bool)
    expected, _ = policy.act(obs, start, policy.initial_hidden(5))
    actions = loading.Controller(loaded.policy, 5).act(obs.numpy(), start.numpy())
    assert expected.abs().mean() > 0.1
    np.testing.assert_array_equal(actions, expected.numpy())


def test_the_controller_remembers_until_an_episode_starts():
    policy = policies.trained(1.0, "model=lstm").policy
    controller = loading.Controller(policy, 2)
    obs = np.ones((2, 50), np.float32)
    first = controller.act(obs, np.array([True, True]))
    second = controller.act(obs, np.array([False, True]))
    np.testing.assert_array_equal(second[1], first[1])
    assert np.abs(second[0] - first[0]).max() > 1e-3


def change(values, *keys):
    *path, last = keys
    for key in path:
        values = values[key]
    del values[last]


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (("config", "env", "gait"), "env.gait"),
        (("config", "model", "hidden_sizes"), "model.hidden_sizes"),
        (("policy", "log_std"), "log_std"),
        (("learner", "progress"), "progress"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_one_line(tmp_path, missing, said):
    path = policies.save(tmp_path / "policy.safetensors", 1.0)
    values = checkpoint.load(path)
    change(values, *missing)
    checkpoint.save(path, values)
    with pytest.raises(CheckpointError) as error:
        loading.load(path)
    assert said in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_nothing_trained_yet_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="nothing was trained in this directory yet"):
        loading.load(loading.LATEST)
