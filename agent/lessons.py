"""Learning from one rollout while the next is collected.

A thread computes the gradient of one minibatch after the other while the main thread acts. The main thread
takes each gradient at a fixed step of the rollout, contributes it, and applies the update before it starts
the next one, so the parameters never change under a gradient that is being computed. Alone, the order of
everything is fixed: a run with the same seed repeats number for number.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from agent import algorithms
from agent.clock import Clock
from agent.config import Config
from agent.learner import Learner
from agent.loss import LossFunction
from agent.rollout import Minibatch, Rollout

Gradient = tuple[tuple[Tensor, ...], Tensor]
"""The gradients of the parameters, in order, and `algorithms.METRICS`."""


class Lessons:
    """The minibatches of one rollout at a time, handed to the group as it wants them.

    Attributes:
        rollout: What is being learned from; None when all of it has been.
    """

    def __init__(
        self, config: Config, learner: Learner, loss: LossFunction, clock: Clock, generator: torch.Generator
    ) -> None:
        self.config, self.learner, self.loss, self.clock = config, learner, loss, clock
        self.generator = generator
        self.rollout: Rollout | None = None
        self._minibatches: Iterator[Minibatch] = iter(())
        self._done, self._total = 0, config.algorithm.epochs * config.sequences // config.batch_size
        self._gradient: Future[Gradient] | None = None
        threads = config.learner_threads or default_threads()
        self._worker = ThreadPoolExecutor(1, "lessons", torch.set_num_threads, (threads,))
        learner.before_update = self.wait

    def begin(self, rollout: Rollout) -> None:
        """Takes up a rollout, which must stay as it is until the lessons are over."""
        self.rollout, self._done = rollout, 0
        self._start()

    def keep_up(self, share: float) -> None:
        """Contributes until `share` (0 to 1) of the minibatches are done, if the group wants them now."""
        while self.rollout is not None and self._done < round(share * self._total):
            self.learner.poll()
            if not self.learner.accumulator.wants_gradients():
                return
            self._contribute()

    def finish(self) -> None:
        """Learns the rest, waiting for the group where that is needed; gives up when the learner does."""
        while self.rollout is not None and self.learner.wait_until_wanted():
            self._contribute()
        self.learner.wait_until_wanted()  # our last contribution has become an update

    def wait(self) -> None:
        """Waits until no gradient is being computed."""
        if self._gradient is not None:
            with self.clock("waiting"):
                self._gradient.result()

    def close(self) -> None:
        self._worker.shutdown()

    def _contribute(self) -> None:
        """Contributes the gradient that was started, and starts the next one, if there is one."""
        assert self._gradient is not None
        self.wait()
        gradients, metrics = self._gradient.result()
        self._gradient = None
        self.learner.sums.add("metrics", metrics.cpu().numpy())
        self.learner.contribute(gradients, self.config.batch_size)
        self._done += 1
        if self.learner.alone:
            self.learner.wait_until_wanted()
        if self._done < self._total:
            self._start()
        else:
            self.rollout = None

    def _start(self) -> None:
        self._gradient = self._worker.submit(self._next_gradient)

    def _next_gradient(self) -> Gradient:
        began = time.perf_counter()
        if self._done == 0:
            assert self.rollout is not None
            config = self.config.algorithm
            batch = algorithms.prepare(self.learner.policy, self.rollout, config)
            self._minibatches = algorithms.minibatches(
                batch, self.config.batch_size, config.epochs, self.generator
            )
        value, metrics = self.loss(next(self._minibatches))
        gradients = torch.autograd.grad(value, self.learner.parameters, materialize_grads=True)
        self.clock.add("learning", time.perf_counter() - began)
        return gradients, metrics


def default_threads() -> int:
    """Torch threads for gradients: more than four do not pay for small models, and the robots want cores."""
    return max(1, min(4, torch.get_num_threads() // 2))
