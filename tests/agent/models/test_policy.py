"""Policies: `act` against `unroll`, hidden states at episode is_firsts, mirror symmetry."""

from types import SimpleNamespace

import pytest
import torch

from agent.models.policy import ModelConfig, make_policy

OBS, ACTIONS = 5, 3


def config(name, mirror=False):
    return ModelConfig(name, [16, 8], "elu", 0.5, mirror, True, 20)


@pytest.fixture(params=["mlp", "lstm"])
def policy(request):
    torch.manual_seed(0)
    policy = make_policy(config(request.param), OBS, ACTIONS, None)
    for parameter in policy.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return policy


def test_unroll_is_acting_step_by_step(policy):
    obs = torch.randn(6, 4, OBS)
    is_first = torch.rand(6, 4) < 0.3
    hidden = policy.initial_hidden(4)
    means, values = policy.unroll(obs, is_first, hidden)
    again, states = policy.values(obs, is_first, hidden)
    torch.testing.assert_close(values, again)
    for t in range(6):
        mean, hidden = policy.act(obs[t], is_first[t], hidden)
        torch.testing.assert_close(means[t], mean)
        for whole, single in zip(states, hidden, strict=True):
            torch.testing.assert_close(whole[t], single)
    assert values.shape == (6, 4)


def test_value_of_the_observation_after_a_step_is_that_of_a_longer_unroll(policy):
    obs, is_first = torch.randn(4, 2, OBS), torch.zeros(4, 2, dtype=torch.bool)
    _, values = policy.unroll(obs, is_first, policy.initial_hidden(2))
    _, states = policy.values(obs[:3], is_first[:3], policy.initial_hidden(2))
    torch.testing.assert_close(policy.value(obs[3], tuple(m[2] for m in states)), values[3])


def test_an_episode_start_forgets_what_was_before():
    policy = make_policy(config("lstm"), OBS, ACTIONS, None)
    obs = torch.randn(3, 1, OBS)
    is_first = torch.tensor([[False], [True], [False]])
    other = obs.clone()
    other[0] += 1.0
    means, _ = policy.unroll(obs, is_first, policy.initial_hidden(1))
    changed, _ = policy.unroll(other, is_first, policy.initial_hidden(1))
    assert not torch.equal(means[0], changed[0])
    assert torch.equal(means[1:], changed[1:])
    kept, _ = policy.unroll(other, torch.zeros_like(is_first), policy.initial_hidden(1))
    assert not torch.equal(means[1:], kept[1:])


def test_the_mirrored_actor_answers_mirrored_observations_with_mirrored_actions():
    mirror = SimpleNamespace(
        obs_index=[1, 0, 2, 3, 4],
        obs_sign=[1.0, 1.0, -1.0, 1.0, 1.0],
        action_index=[1, 0, 2],
        action_sign=[-1.0, -1.0, 1.0],
    )
    policy = make_policy(config("mlp", mirror=True), OBS, ACTIONS, mirror)
    obs = torch.randn(7, OBS)
    is_first = torch.zeros(7, dtype=torch.bool)
    mirrored_obs = obs[:, mirror.obs_index] * torch.tensor(mirror.obs_sign)
    mean, _ = policy.act(obs, is_first, ())
    mirrored, _ = policy.act(mirrored_obs, is_first, ())
    torch.testing.assert_close(mirrored, mean[:, mirror.action_index] * torch.tensor(mirror.action_sign))
    assert not torch.allclose(mirrored, mean)
