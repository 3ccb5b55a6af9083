"""Lessons: in step with acting they learn what they learn at once; nothing changes under a gradient."""

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from agent.logs.timer import Timer
from agent.training.gradient_worker import Lessons
from tests.agent.algorithms.test_objective import PPO, Toy, rollout

SEQUENCES, EPOCHS = 6, 2


class Group:
    """A learner whose group wants every gradient, or none, and applies it with plain gradient descent."""

    def __init__(self):
        self.policy = Toy()
        self.parameters = list(self.policy.parameters())
        self.parameters_in_use = threading.Lock()
        self.parameter_changes = 0
        self.wants = True
        self.alone = True
        self.contributions = []
        self.accumulator = SimpleNamespace(wants_gradients=lambda: self.wants)
        self.sums = SimpleNamespace(add=lambda name, value: None)

    def poll(self):
        pass

    def wait_until_wanted(self):
        return self.wants

    def contribute(self, gradients, sequences):
        assert not self.parameters_in_use.locked()
        self.contributions.append(sequences)
        self.parameter_changes += 1
        with torch.no_grad():
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                parameter -= 0.1 * gradient


def batch():
    """One rollout of six robots whose rewards differ, so that the order of the minibatches matters."""
    parts = [
        rollout([0.5, 1.0 + i, 2.0], [0.3 * i, 1.0], [False, False], [False, False], [0.0, 0.0])
        for i in range(SEQUENCES)
    ]
    joined = {
        name: torch.cat([getattr(part, name) for part in parts], dim=1)
        for name in ("obs", "start", "action", "log_prob", "reward", "terminated", "truncated", "final_obs")
    }
    return replace(parts[0], **joined)


def lessons(group, loss=None):
    config = SimpleNamespace(
        algorithm=replace(PPO, epochs=EPOCHS), sequences=SEQUENCES, batch_size=2, learner_threads=1
    )

    def squares(minibatch):
        means, _ = group.policy.unroll(minibatch.obs, minibatch.start, ())
        value = (means.squeeze(-1) - minibatch.target).square().mean() + group.policy.log_std.sum() * 0.1
        return value, torch.zeros(5)

    return Lessons(config, group, loss or squares, Timer(), torch.Generator().manual_seed(1))


def test_in_step_with_acting_or_at_once_the_result_is_the_same():
    at_once, in_step = Group(), Group()
    first = lessons(at_once)
    first.begin(batch())
    first.finish()
    second = lessons(in_step)
    second.begin(batch())
    counts = []
    for share in (0.0, 0.25, 0.5, 0.75):
        second.keep_up(share)
        counts.append(len(in_step.contributions))
    assert counts == [0, 2, 3, 4]  # of 6 minibatches; round(0.25 * 6) = 2
    second.finish()
    assert at_once.contributions == in_step.contributions == [2] * 6
    assert torch.equal(at_once.policy.w, in_step.policy.w)
    assert not torch.equal(at_once.policy.w, Toy().w)


def test_what_the_group_does_not_want_now_is_kept_for_later():
    group = Group()
    group.wants = False
    taught = lessons(group)
    taught.begin(batch())
    taught.keep_up(1.0)
    assert group.contributions == []
    group.wants = True
    taught.finish()
    assert group.contributions == [2] * 6


def test_an_update_waits_until_the_gradient_is_computed():
    group, started, go_on = Group(), threading.Event(), threading.Event()

    def slow(minibatch):
        started.set()
        assert go_on.wait(10)
        return group.policy.w.square().sum() + group.policy.log_std.sum(), torch.zeros(5)

    taught = lessons(group, slow)
    taught.begin(batch())
    assert started.wait(10)
    assert not group.parameters_in_use.acquire(blocking=False)
    go_on.set()
    assert group.parameters_in_use.acquire(timeout=10)
    group.parameters_in_use.release()
    taught.finish()


@pytest.mark.parametrize("alone", [True, False])
def test_a_gradient_of_parameters_that_changed_since_is_computed_again(alone):
    group = Group()
    group.alone = alone
    taught = lessons(group)
    taught.begin(batch())
    deadline = time.monotonic() + 10
    while not taught._gradient.done():
        assert time.monotonic() < deadline
    with torch.no_grad():
        group.policy.w += 3.0
    group.parameter_changes += 1
    taught.keep_up(1 / 6)
    minibatch, w = taught.minibatch if not alone else None, group.policy.w.item()
    again = Toy()
    again.w.data += 3.0
    if minibatch is not None:
        value = (again.w * minibatch.obs.squeeze(-1) - minibatch.target).square().mean()
        value.backward()
        assert w == pytest.approx(4.0 - 0.1 * again.w.grad.item())
    assert group.contributions == [2]
    taught.finish()
    assert group.contributions == [2] * 6


def test_an_error_in_the_thread_reaches_the_loop():
    def broken(minibatch):
        raise ValueError("no loss")

    taught = lessons(Group(), broken)
    taught.begin(batch())
    with pytest.raises(ValueError, match="no loss"):
        taught.finish()
