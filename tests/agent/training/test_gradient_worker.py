"""Gradients in a thread: the same at once or in step with acting, and never of stale parameters."""

import threading
import time
from dataclasses import replace

import pytest
import torch

from agent.logs.timer import Timer
from agent.training.gradient_worker import GradientWorker, GuardedParameters
from rigs.toy_objective import PPO, Toy, rollout

SEQUENCES, EPOCHS = 6, 2


def six_robots():
    """One rollout of six robots whose rewards differ, so that the order of the minibatches matters."""
    parts = [
        rollout([0.5, 1.0 + i, 2.0], [0.3 * i, 1.0], [False, False], [False, False], [0.0, 0.0])
        for i in range(SEQUENCES)
    ]
    names = ("obs", "is_first", "action", "log_prob", "reward", "terminated", "truncated", "final_obs")
    joined = {name: torch.cat([getattr(part, name) for part in parts], dim=1) for name in names}
    return replace(parts[0], **joined)


def make_worker(policy, loss=None):
    def squares(minibatch):
        means, _ = policy.unroll(minibatch.obs, minibatch.is_first, ())
        value = (means.squeeze(-1) - minibatch.target).square().mean() + policy.log_std.sum() * 0.1
        return value, torch.arange(5.0)

    parameters = GuardedParameters(list(policy.parameters()))
    generator = torch.Generator().manual_seed(1)
    config = replace(PPO, epochs=EPOCHS)
    return GradientWorker(config, 2, policy, loss or squares, parameters, generator, Timer())


@pytest.fixture
def worker():
    worker = make_worker(Toy())
    yield worker
    worker.close()


def descend(worker):
    """Take the next gradient and a step of gradient descent."""
    gradient = worker.take()
    with worker.parameters.changing(), torch.no_grad():
        for parameter, tensor in zip(worker.parameters.tensors, gradient.tensors, strict=True):
            parameter -= 0.1 * tensor
    return gradient


def test_at_once_or_in_step_with_acting_the_result_is_the_same(worker):
    worker.begin(six_robots())
    counts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        taken = 0
        while worker.due(share):
            descend(worker)
            worker.prefetch()
            taken += 1
        counts.append(taken)
    assert counts == [0, 2, 1, 1, 2]  # of 6 minibatches; round(0.25 * 6) = 2
    at_once = make_worker(Toy())
    at_once.begin(six_robots())
    while at_once.due(1.0):
        descend(at_once)
    at_once.close()
    assert torch.equal(worker.policy.w, at_once.policy.w)
    assert not torch.equal(worker.policy.w, Toy().w)


def test_a_gradient_says_what_it_is_of(worker):
    worker.begin(six_robots())
    gradient = worker.take()
    assert gradient.sequences == 2 and worker.minibatch.obs.shape == (2, 2, 1)
    assert gradient.metrics == (0.0, 1.0, 2.0, 3.0, 4.0) and gradient.metrics.kl == 3.0


def test_a_gradient_of_parameters_that_changed_since_is_computed_again(worker):
    worker.begin(six_robots())
    deadline = time.monotonic() + 10
    while worker.minibatch is None:
        assert time.monotonic() < deadline
    with worker.parameters.changing(), torch.no_grad():
        worker.policy.w += 3.0
    gradient = worker.take()
    again, minibatch = Toy(), worker.minibatch
    again.w.data += 3.0
    (again.w * minibatch.obs.squeeze(-1) - minibatch.target).square().mean().backward()
    assert gradient.tensors[0].item() == pytest.approx(again.w.grad.item())


def test_what_is_dropped_is_due_no_more(worker):
    worker.begin(six_robots())
    worker.take()
    worker.drop()
    assert not worker.due(1.0)
    worker.prefetch()
    worker.begin(six_robots())
    assert worker.due(1.0)
    assert worker.take().sequences == 2


def test_a_change_waits_until_the_gradient_is_computed():
    policy, started, go_on = Toy(), threading.Event(), threading.Event()

    def slow(minibatch):
        started.set()
        assert go_on.wait(10)
        return policy.w.square().sum() + policy.log_std.sum(), torch.zeros(5)

    worker, changed = make_worker(policy, slow), threading.Event()

    def change():
        with worker.parameters.changing():
            changed.set()

    worker.begin(six_robots())
    assert started.wait(10)
    thread = threading.Thread(target=change)
    thread.start()
    assert not changed.wait(0.1)
    go_on.set()
    assert changed.wait(10)
    thread.join()
    worker.close()


def test_an_error_in_the_thread_reaches_the_loop():
    def broken(minibatch):
        raise ValueError("no loss")

    worker = make_worker(Toy(), broken)
    worker.begin(six_robots())
    with pytest.raises(ValueError, match="no loss"):
        worker.take()
    worker.close()
