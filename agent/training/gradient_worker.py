"""Learning from one rollout while the next is collected.

A thread computes the gradients of one minibatch after the other while the main thread acts. The main thread
takes each of them at a fixed step of the rollout, contributes it, and starts the next one when it has become
an update. Alone, the order of everything is fixed, so that a run with the same seed repeats number for
number. With peers, whose updates come at any time, a gradient is computed when the group wants it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from agent.algorithms import objective
from agent.algorithms.loss import LossFunction
from agent.algorithms.rollout import Minibatch, Rollout
from agent.config import Config
from agent.logs.timer import Timer
from agent.training.learner import Learner
from agent.training.threads import learner_threads

Gradient = tuple[tuple[Tensor, ...], Tensor]
"""The gradients of the parameters, in order, and `objective.METRICS`."""


class Lessons:
    """The minibatches of one rollout at a time, handed to the group as it wants them.

    Attributes:
        generator: Orders the minibatches.
        minibatch: The last one that a gradient was computed of.
    """

    def __init__(
        self, config: Config, learner: Learner, loss: LossFunction, clock: Timer, generator: torch.Generator
    ) -> None:
        self.config, self.learner, self.loss, self.clock = config, learner, loss, clock
        self.generator = generator
        self.minibatch: Minibatch | None = None
        self._worker = ThreadPoolExecutor(1, "lessons", torch.set_num_threads, (learner_threads(config),))
        self._total = config.algorithm.epochs * config.sequences // config.batch_size
        self._left = 0
        self._minibatches: Iterator[Minibatch] = iter(())
        self._gradient: Future[Gradient] | None = None
        self._of_parameters = 0  # learner.parameter_changes when it was started

    def begin(self, rollout: Rollout) -> None:
        """Takes up a rollout, which must stay as it is until the lessons are over."""
        self._left = self._total
        self._start(lambda: self._first_gradient(rollout))

    def keep_up(self, share: float) -> None:
        """Contributes until `share` (0 to 1) of the minibatches are done, as far as the group wants them."""
        while self._left > round((1 - share) * self._total):
            self.learner.poll()
            if not self.learner.accumulator.wants_gradients():
                return
            self._contribute()

    def finish(self) -> None:
        """Learns the rest, waiting for the group where that is needed; gives up when the learner does."""
        while self._left and self.learner.wait_until_wanted():
            self._contribute()
        self._left = 0
        self.learner.wait_until_wanted()  # our last contribution has become an update

    def close(self) -> None:
        """Waits for a gradient in flight and ends the thread."""
        self._worker.shutdown()

    def _contribute(self) -> None:
        """Contributes the next gradient. Alone, waits for the update that it becomes, and starts another.

        With peers, an update may come at any moment; a gradient of parameters that have changed since is
        computed again, so that no update is made of old ones.
        """
        if self._gradient is None:
            self._start(self._next_gradient)
        self._wait()
        if self._of_parameters != self.learner.parameter_changes:
            self._start(self._compute)
            self._wait()
        assert self._gradient is not None
        gradients, metrics = self._gradient.result()
        self._gradient = None
        self.learner.sums.add("metrics", metrics.cpu().numpy())
        self.learner.contribute(gradients, self.config.batch_size)
        self._left -= 1
        if self.learner.alone:
            self.learner.wait_until_wanted()
            if self._left:
                self._start(self._next_gradient)

    def _start(self, compute: Callable[[], Gradient]) -> None:
        self._of_parameters = self.learner.parameter_changes
        self._gradient = self._worker.submit(self._timed, compute)

    def _wait(self) -> None:
        assert self._gradient is not None
        with self.clock("waiting"):
            self._gradient.exception()

    def _timed(self, compute: Callable[[], Gradient]) -> Gradient:
        """In the thread: computes with the parameters held still."""
        began = time.perf_counter()
        with self.learner.parameters_in_use:
            gradient = compute()
        self.clock.add("learning", time.perf_counter() - began)
        return gradient

    def _first_gradient(self, rollout: Rollout) -> Gradient:
        config = self.config.algorithm
        batch = objective.prepare(self.learner.policy, rollout, config)
        self._minibatches = objective.minibatches(
            batch, self.config.batch_size, config.epochs, self.generator
        )
        return self._next_gradient()

    def _next_gradient(self) -> Gradient:
        self.minibatch = next(self._minibatches)
        return self._compute()

    def _compute(self) -> Gradient:
        assert self.minibatch is not None
        value, metrics = self.loss(self.minibatch)
        return torch.autograd.grad(value, self.learner.parameters, materialize_grads=True), metrics
