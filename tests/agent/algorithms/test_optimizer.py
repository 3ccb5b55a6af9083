"""Learning-rate schedules and gradient clipping by hand."""

import math

import pytest
import torch

from agent.algorithms.optimizer import OptimizerConfig, clip_gradients, next_learning_rate


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
