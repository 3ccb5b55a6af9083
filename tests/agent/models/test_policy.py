"""Policies: `act` against `unroll`, memory at episode starts, mirror symmetry, the normaliser."""

from types import SimpleNamespace

import pytest
import torch

from agent.config import ModelConfig
from agent.models.policy import Normalizer, make_policy

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
    start = torch.rand(6, 4) < 0.3
    memory = policy.initial_memory(4)
    means, values = policy.unroll(obs, start, memory)
    again, memories = policy.values(obs, start, memory)
    torch.testing.assert_close(values, again)
    for t in range(6):
        mean, memory = policy.act(obs[t], start[t], memory)
        torch.testing.assert_close(means[t], mean)
        for whole, single in zip(memories, memory, strict=True):
            torch.testing.assert_close(whole[t], single)
    assert values.shape == (6, 4)


def test_value_of_the_observation_after_a_step_is_that_of_a_longer_unroll(policy):
    obs, start = torch.randn(4, 2, OBS), torch.zeros(4, 2, dtype=torch.bool)
    _, values = policy.unroll(obs, start, policy.initial_memory(2))
    _, memories = policy.values(obs[:3], start[:3], policy.initial_memory(2))
    torch.testing.assert_close(policy.value(obs[3], tuple(m[2] for m in memories)), values[3])


def test_an_episode_start_forgets_what_was_before():
    policy = make_policy(config("lstm"), OBS, ACTIONS, None)
    obs = torch.randn(3, 1, OBS)
    start = torch.tensor([[False], [True], [False]])
    other = obs.clone()
    other[0] += 1.0
    means, _ = policy.unroll(obs, start, policy.initial_memory(1))
    changed, _ = policy.unroll(other, start, policy.initial_memory(1))
    assert not torch.equal(means[0], changed[0])
    assert torch.equal(means[1:], changed[1:])
    kept, _ = policy.unroll(other, torch.zeros_like(start), policy.initial_memory(1))
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
    start = torch.zeros(7, dtype=torch.bool)
    mirrored_obs = obs[:, mirror.obs_index] * torch.tensor(mirror.obs_sign)
    mean, _ = policy.act(obs, start, ())
    mirrored, _ = policy.act(mirrored_obs, start, ())
    torch.testing.assert_close(mirrored, mean[:, mirror.action_index] * torch.tensor(mirror.action_sign))
    assert not torch.allclose(mirrored, mean)


def test_normalizer_gives_mean_0_and_variance_1_of_all_that_was_added():
    data = torch.randn(1000, 2, OBS) * 3.0 + 5.0
    normalizer = Normalizer(OBS)
    before = normalizer(data[0])
    normalizer.add(Normalizer.moments(data[:400]))
    normalizer.add(Normalizer.moments(data[400:]))
    torch.testing.assert_close(normalizer(data[0]), before)  # not in use before fold()
    normalizer.fold()
    normal = normalizer(data).reshape(-1, OBS)
    torch.testing.assert_close(normal.mean(0), torch.zeros(OBS), atol=1e-4, rtol=0)
    torch.testing.assert_close(normal.var(0, unbiased=False), torch.ones(OBS), atol=1e-3, rtol=0)


def test_normalizer_keeps_a_constant_observation_finite():
    normalizer = Normalizer(1)
    normalizer.add(Normalizer.moments(torch.full((10, 1), 3.0)))
    normalizer.fold()
    assert normalizer(torch.full((1, 1), 3.0)).item() == 0.0
    assert abs(normalizer(torch.full((1, 1), 1e9)).item()) == Normalizer.MAX_DEVIATIONS
