"""Learning from one rollout while the next is collected.

A thread computes the gradients of one minibatch after the other while the main thread acts. The main thread
takes each of them at a fixed step of the rollout, contributes it, and starts the next one when it has become
an update. Alone, the order of everything is fixed, so that a run with the same seed repeats number for
number. With peers, an update may come while a gradient is being computed; it is applied right after that
(`Learner.parameters_in_use`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from agent import algorithms
from agent.clock import Clock
from agent.config import Config
from agent.learner import Learner
from agent.loss import LossFunction
from agent.rollout import Minibatch, Rollout
from agent.threads import learner_threads

Gradient = tuple[tuple[Tensor, ...], Tensor]
"""The gradients of the parameters, in order, and `algorithms.METRICS`."""


class Lessons:
    """The minibatches of one rollout at a time, handed to the group as it wants them.

    Attributes:
        generator: Orders the minibatches.
        minibatch: The last one that a gradient was computed of.
    """

    def __init__(
        self, config: Config, learner: Learner, loss: LossFunction, clock: Clock, generator: torch.Generator
    ) -> None:
        self.config, self.learner, self.loss, self.clock = config, learner, loss, clock
        self.generator = generator
        self.minibatch: Minibatch | None = None
        self._worker = ThreadPoolExecutor(1, "lessons", torch.set_num_threads, (learner_threads(config),))
        self._total = config.algorithm.epochs * config.sequences // config.batch_size
        self._left = 0
        self._minibatches: Iterator[Minibatch] = iter(())
        self._gradient: Future[Gradient] | None = None
        self._model_of_gradient = 0  # learner.models_taken when it was started

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
        """Contributes the gradient in flight and starts the next one, if there is one."""
        assert self._gradient is not None
        with self.clock("waiting"):
            error = self._gradient.exception()
        if self._model_of_gradient == self.learner.models_taken:
            gradients, metrics = self._gradient.result()
            self.learner.sums.add("metrics", metrics.cpu().numpy())
            self.learner.contribute(gradients, self.config.batch_size)
        elif error is not None and not isinstance(error, RuntimeError):
            raise error  # it has nothing to do with the parameters that changed meanwhile
        self._left -= 1
        if self.learner.alone:
            self.learner.wait_until_wanted()
        if self._left:
            self._start(self._next_gradient)

    def _start(self, compute: Callable[[], Gradient]) -> None:
        self._model_of_gradient = self.learner.models_taken
        self._gradient = self._worker.submit(compute)

    def _first_gradient(self, rollout: Rollout) -> Gradient:
        began, config = time.perf_counter(), self.config.algorithm
        with self.learner.parameters_in_use:
            batch = algorithms.prepare(self.learner.policy, rollout, config)
        self._minibatches = algorithms.minibatches(
            batch, self.config.batch_size, config.epochs, self.generator
        )
        self.clock.add("learning", time.perf_counter() - began)
        return self._next_gradient()

    def _next_gradient(self) -> Gradient:
        began, self.minibatch = time.perf_counter(), next(self._minibatches)
        with self.learner.parameters_in_use:
            value, metrics = self.loss(self.minibatch)
            gradients = torch.autograd.grad(value, self.learner.parameters, materialize_grads=True)
        self.clock.add("learning", time.perf_counter() - began)
        return gradients, metrics
