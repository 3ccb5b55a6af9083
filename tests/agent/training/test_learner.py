"""The parts of an update that the replicas must agree on: sums, clipping, learning rates, settings."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from agent.config import OptimizerConfig
from agent.logs.timer import Timer
from agent.training.actors import Actors
from agent.training.learner import (
    MAX_DROPPED_IN_A_ROW,
    Learner,
    Progress,
    TrainingError,
    clip_gradients,
    differences,
)
from agent.training.schedule import next_learning_rate
from agent.training.statistics import GroupSums


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


def test_a_run_of_gradients_that_are_not_finite_ends_training():
    learner = object.__new__(Learner)
    learner.parameters = [torch.nn.Parameter(torch.zeros(2))]
    learner.sums = GroupSums({"steps": 1, "metrics": 5, "obs_moments": 1})
    learner.config = SimpleNamespace(
        algorithm=SimpleNamespace(grad_norm_clipping=1.0, optimizer=optimizer("constant"), epochs=1),
        model=SimpleNamespace(normalize_observations=False), unroll_length=1,
    )  # fmt: skip
    learner.progress, learner.updates, learner.parameter_changes = Progress(), [], 0
    learner.optimizer = torch.optim.SGD(learner.parameters, lr=1.0)
    stats = {"num_gradients": 1, "num_skipped": 0, "batch_size": 1}
    learner.accumulator = SimpleNamespace(get_gradient_stats=lambda: stats, zero_gradients=lambda: None)

    def apply(gradient):
        learner.sums.attach()
        learner.parameters[0].grad = torch.tensor([gradient, 0.0])
        learner._apply_update()

    for gradient in [math.nan] * (MAX_DROPPED_IN_A_ROW - 1) + [1.0] + [math.inf] * (MAX_DROPPED_IN_A_ROW - 1):
        apply(gradient)
    assert learner.progress.dropped == 2 * (MAX_DROPPED_IN_A_ROW - 1)
    assert learner.parameters[0].tolist() == pytest.approx([-1e-3, 0.0])  # the one that was finite
    with pytest.raises(TrainingError, match="the last 20 updates were not finite"):
        apply(math.nan)


def test_actions_that_are_not_finite_end_training():
    actors = object.__new__(Actors)
    actors.policy = SimpleNamespace(act=lambda *_: (torch.tensor([[math.nan]]), ()), log_std=torch.zeros(1))
    actors.batches, actors.memories, actors.generator = [slice(0, 1)], [()], None
    actors.rollout = SimpleNamespace(obs=torch.zeros(1, 1), start=torch.zeros(1, 1))
    with pytest.raises(TrainingError, match="actions are not finite"):
        actors._act(0, 0)


def test_differences_name_the_key_and_both_values():
    ours = {"algorithm": {"clip": 0.2, "epochs": 5}, "unroll_length": 24}
    theirs = {"algorithm": {"clip": 0.3, "epochs": 5}, "unroll_length": 24}
    assert differences(ours, theirs) == ["algorithm.clip=0.2 (there: 0.3)"]
    assert differences(ours, ours) == []


def test_clock_counts_the_inner_activity_only(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("agent.logs.timer.time.perf_counter", lambda: now[0])
    clock = Timer()
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
