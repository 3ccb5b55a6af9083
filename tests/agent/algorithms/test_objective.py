"""Losses and bootstraps of PPO and V-trace against hand-computed numbers."""

from dataclasses import replace

import pytest
import torch

from agent.algorithms.objective import Metrics, compute_targets, loss, make_loss
from agent.algorithms.rollout import Minibatch
from agent.models.gaussian import log_prob
from rigs.toy_objective import PPO, Toy, rollout


def test_compute_targets_bootstraps_a_timeout_with_the_value_of_the_final_observation():
    # V = obs. Step 0 ends by a time-out whose final observation is worth 8, the next episode begins at 3.
    data = rollout([1.0, 3.0, 5.0], [1.0, 1.0], [0, 0], [1, 0], final_obs=[8.0, 99.0])
    batch = compute_targets(Toy(), data, PPO)
    # target_0 = 1 + 0.5 * 8 = 5 (no trace over the end); target_1 = 1 + 0.5 * 5 = 3.5.
    assert batch.target[:, 0].tolist() == [5.0, 3.5]
    assert batch.advantage[:, 0].tolist() == [4.0, 0.5]


def test_compute_targets_does_not_bootstrap_a_fall():
    data = rollout([1.0, 3.0, 5.0], [1.0, 1.0], [1, 0], [0, 0], final_obs=[8.0, 8.0])
    assert compute_targets(Toy(), data, PPO).target[:, 0].tolist() == [1.0, 3.5]


def minibatch(ratio, advantage, target=0.0):
    """One sample at obs 0 whose action was `ratio` times less likely for the policy that chose it."""
    zero = torch.zeros(1, 1, 1, dtype=torch.float64)
    now = log_prob(zero, torch.zeros(1, dtype=torch.float64), zero + 0.5)
    one = torch.ones(1, 1, dtype=torch.float64)
    return Minibatch(
        zero, torch.zeros(1, 1, dtype=torch.bool), zero + 0.5, now - torch.log(one * ratio), one * 0,
        one * target, one * advantage, (),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [(1.5, 1.0, -1.2), (1.5, -1.0, 1.5), (0.5, 1.0, -0.5), (0.5, -1.0, 0.8), (1.1, 2.0, -2.2)],
)
def test_clipped_surrogate_by_hand(ratio, advantage, expected):
    total, metrics = loss(Toy(), minibatch(ratio, advantage), PPO)
    assert total.item() == pytest.approx(expected)
    assert Metrics(*metrics.tolist()).clip_fraction == float(abs(ratio - 1) > 0.2)


def test_value_and_entropy_terms_by_hand():
    config = replace(PPO, baseline_cost=0.25, entropy_cost=0.1)
    total, _ = loss(Toy(), minibatch(1.0, 0.0, target=2.0), config)
    assert total.item() == pytest.approx(0.25 * 4.0 - 0.1 * 1.4189385332046727)  # entropy: ln sqrt(2 pi e)


def test_vtrace_follows_the_gradient_of_log_prob_times_advantage():
    toy = Toy()
    batch = minibatch(1.0, 3.0)
    batch.obs += 2.0  # mean = 2 w, action 0.5: d log_prob / dw = (0.5 - 2) * 2 = -3
    total, _ = loss(toy, batch, replace(PPO, name="vtrace", baseline_cost=0.0))
    total.backward()
    assert toy.w.grad.item() == pytest.approx(9.0)


def test_tf32_is_a_setting_of_gpus_alone():
    """On a GPU it is set either way; a peer on the CPU leaves the process as it was."""
    policy = torch.nn.Linear(1, 1)
    before, found = torch.get_float32_matmul_precision(), []
    for device, precision in (("cuda:0", "tf32"), ("cpu", "auto"), ("cuda:0", "float32")):
        make_loss(policy, PPO, device, precision)
        found.append(torch.get_float32_matmul_precision())
    torch.set_float32_matmul_precision(before)
    assert found == ["high", "high", "highest"]
