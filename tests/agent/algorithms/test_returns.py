"""V-trace and GAE against hand-computed numbers and slow float64 loops."""

import numpy as np
import pytest
import torch

from agent.algorithms.returns import next_values, vtrace_returns


def column(*numbers):
    return torch.tensor(numbers, dtype=torch.float64).unsqueeze(1)


def flags(*values):
    return torch.tensor(values, dtype=torch.bool).unsqueeze(1)


def test_next_value_is_zero_after_a_fall_and_that_of_the_final_observation_at_a_timeout():
    values = column(1.0, 2.0, 3.0, 4.0)
    final = column(0.0, 20.0, 0.0)
    following = next_values(values, final, terminated=flags(1, 0, 0), truncated=flags(0, 1, 0))
    assert following[:, 0].tolist() == [0.0, 20.0, 4.0]


def test_gae_by_hand():
    # γ = λ = 0.5, no end. δ = (1 + 1 - 1, 2 + 2 - 2) = (1, 2); A_1 = 2; A_0 = 1 + 0.25 * 2 = 1.5.
    targets, advantages = vtrace_returns(
        column(1.0, 2.0), column(1.0, 2.0), column(2.0, 4.0), flags(0, 0), None, 0.5, 0.5
    )
    assert advantages[:, 0].tolist() == [1.5, 2.0]
    assert targets[:, 0].tolist() == [2.5, 4.0]


def test_no_trace_crosses_the_end_of_an_episode():
    _, advantages = vtrace_returns(
        column(1.0, 100.0), column(0.0, 0.0), column(0.0, 0.0), flags(1, 0), None, 0.9, 0.9
    )
    assert advantages[:, 0].tolist() == [1.0, 100.0]


def test_a_timeout_bootstraps_and_a_fall_does_not():
    values, final = column(0.0, 7.0), column(10.0)
    for terminated, truncated, expected in [(1, 0, 1.0), (0, 1, 1.0 + 0.5 * 10.0), (0, 0, 1.0 + 0.5 * 7.0)]:
        ended = flags(terminated), flags(truncated)
        following = next_values(values, final, *ended)
        targets, _ = vtrace_returns(column(1.0), values[:1], following, ended[0] | ended[1], None, 0.5, 1.0)
        assert targets.item() == expected


def slow_vtrace(rewards, values, bootstrap, discounts, rhos, clip_rho, clip_c):
    """Equation 1 of Espeholt et al. 2018 as it stands, a sum over the future (no episode ends)."""
    steps = len(rewards)
    following = np.append(values[1:], bootstrap)
    cut_rho, cut_c = np.minimum(rhos, clip_rho), np.minimum(rhos, clip_c)
    targets = np.empty(steps)
    for s in range(steps):
        total = values[s]
        for t in range(s, steps):
            weight = np.prod(discounts[s:t]) * np.prod(cut_c[s:t])
            total += weight * cut_rho[t] * (rewards[t] + discounts[t] * following[t] - values[t])
        targets[s] = total
    next_targets = np.append(targets[1:], bootstrap)
    return targets, cut_rho * (rewards + discounts * next_targets - values)


@pytest.mark.parametrize(("clip_rho", "clip_c"), [(1.0, 1.0), (2.0, 0.8)])
def test_vtrace_against_the_sum_of_the_paper(clip_rho, clip_c):
    rng = np.random.default_rng(0)
    rewards, values, rhos = rng.normal(size=7), rng.normal(size=7), rng.lognormal(size=7)
    bootstrap, discount = rng.normal(), 0.97
    expected = slow_vtrace(rewards, values, bootstrap, np.full(7, discount), rhos, clip_rho, clip_c)
    following = np.append(values[1:], bootstrap)
    got = vtrace_returns(
        column(*rewards), column(*values), column(*following), flags(*[0] * 7), column(*np.log(rhos)),
        discount, 1.0, clip_rho, clip_c,
    )  # fmt: skip
    np.testing.assert_allclose(got[0][:, 0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(got[1][:, 0], expected[1], rtol=1e-12)


def test_vtrace_with_equal_policies_is_gae():
    rng = torch.Generator().manual_seed(1)
    rewards, values, following = torch.randn(3, 9, 4, generator=rng, dtype=torch.float64)
    done = torch.rand(9, 4, generator=rng) < 0.2
    on_policy = vtrace_returns(rewards, values, following, done, None, 0.99, 0.95)
    off_policy = vtrace_returns(
        rewards, values, following, done, torch.zeros(9, 4, dtype=torch.float64), 0.99, 0.95
    )
    for a, b in zip(on_policy, off_policy, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    torch.testing.assert_close(on_policy[0] - values, on_policy[1])
