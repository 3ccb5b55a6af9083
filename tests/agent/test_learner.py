"""The parts of an update that the replicas must agree on: sums, clipping, learning rates, settings."""

import math

import numpy as np
import pytest
import torch

from agent.clock import Clock
from agent.config import OptimizerConfig
from agent.group_sums import GroupSums
from agent.learner import clip_gradients, differences
from agent.schedule import next_learning_rate


def optimizer(schedule):
    return OptimizerConfig(1e-3, schedule, 5e-4, 100, 0.01, 0.9, 0.999, 1e-8)


def test_linear_schedule_by_hand():
    rates = [next_learning_rate(optimizer("linear"), 0.0, update, 0.0) for update in (1, 51, 101, 5000)]
    assert rates == pytest.approx([1e-3, 7.5e-4, 5e-4, 5e-4])


@pytest.mark.parametrize(
    ("current", "kl", "expected"),
    [
        (1e-3, 0.021, 1e-3 / 1.5),
        (1e-3, 0.004, 1.5e-3),
        (1e-3, 0.01, 1e-3),
        (1e-3, 0.0, 1e-3),
        (1.2e-5, 1.0, 1e-5),
        (9e-3, 0.001, 1e-2),
    ],
)
def test_adaptive_schedule_by_hand(current, kl, expected):
    assert next_learning_rate(optimizer("adaptive"), current, 7, kl) == pytest.approx(expected)


def test_sums_come_back_as_sums_over_the_group_after_a_mean_over_contributions():
    sizes = {"steps": 1, "terms": 2}
    first, second = GroupSums(sizes), GroupSums(sizes)
    first.add("steps", 10)
    first.add("terms", np.array([1.0, 2.0]))
    first.add("steps", 5)
    second.add("steps", 7)
    for sums in (first, second):
        sums.attach()
    mean = (first.parameter.grad + second.parameter.grad) / 2
    first.parameter.grad = mean
    assert first.read(2)["steps"].tolist() == [22.0]
    assert first.read(2)["terms"].tolist() == [1.0, 2.0]
    first.attach()  # what was contributed is not contributed again
    assert not first.parameter.grad.any()


def test_clipping_by_hand_and_its_norm_has_six_digits():
    parameter = torch.nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([3.0, 4.0])
    assert clip_gradients([parameter], 10.0) == 5.0
    assert parameter.grad.tolist() == [3.0, 4.0]
    assert clip_gradients([parameter], 1.0) == 5.0
    torch.testing.assert_close(parameter.grad, torch.tensor([0.6, 0.8]))
    parameter.grad = torch.tensor([1.0, 1.0])
    assert clip_gradients([parameter], 10.0) == 1.41421
    parameter.grad = torch.tensor([math.nan, 1.0])
    assert math.isnan(clip_gradients([parameter], 1.0))


def test_differences_name_the_key_and_both_values():
    ours = {"algorithm": {"clip": 0.2, "epochs": 5}, "unroll_length": 24}
    theirs = {"algorithm": {"clip": 0.3, "epochs": 5}, "unroll_length": 24}
    assert differences(ours, theirs) == ["algorithm.clip=0.2 (there: 0.3)"]
    assert differences(ours, ours) == []


def test_clock_counts_the_inner_activity_only(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("agent.clock.time.perf_counter", lambda: now[0])
    clock = Clock()
    with clock("acting"):
        now[0] += 2.0
        with clock("learning"):
            now[0] += 1.0
        now[0] += 1.0
    now[0] += 4.0
    shares = clock.shares()
    assert shares == {"acting": 3 / 8, "waiting": 0.0, "learning": 1 / 8, "reducing": 0.0}
    now[0] += 1.0
    assert set(clock.shares().values()) == {0.0}
