"""Gradients of one rollout after the other, computed in a thread while the main thread acts.

The worker hands out one gradient at a time (`take`) and computes the next one meanwhile (`prefetch`). It
decides nothing: when a gradient is contributed is up to the loop in `agent.training.peer`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from agent.algorithms.objective import AlgorithmConfig, LossFunction, Metrics, compute_targets
from agent.algorithms.rollout import Minibatch, Rollout, minibatches
from agent.logs.timer import Timer
from agent.models.policy import Policy


class GuardedParameters:
    """Parameters that one thread reads while it computes a gradient and another thread updates.

    Attributes:
        tensors: The trainable parameters, in order.
        changes: How often they have been updated or replaced.
    """

    def __init__(self, tensors: Sequence[nn.Parameter]) -> None:
        self.tensors = list(tensors)
        self.changes = 0
        self._lock = threading.Lock()

    @contextmanager
    def held_still(self) -> Iterator[None]:
        """Keep `changing()` waiting."""
        with self._lock:
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Wait for a gradient in flight, and count a change."""
        with self._lock:
            self.changes += 1
            yield


@dataclass(frozen=True)
class Gradient:
    """The gradient of one minibatch."""

    tensors: tuple[Tensor, ...]  # of the parameters, in order
    metrics: Metrics
    sequences: int  # in the minibatch


class GradientWorker:
    """The minibatches of one rollout at a time, and a thread that computes their gradients.

    Attributes:
        generator: Orders the minibatches.
        minibatch: The last one that a gradient was computed of.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        batch_size: int,
        policy: Policy,
        loss: LossFunction,
        parameters: GuardedParameters,
        generator: torch.Generator,
        timer: Timer,
        threads: int = 1,
    ) -> None:
        """Start the thread.

        Args:
            config: The algorithm's settings.
            batch_size: Sequences of a minibatch.
            policy: The policy whose values the targets need.
            loss: The objective of a minibatch.
            parameters: What the gradients are taken of.
            generator: Orders the minibatches.
            timer: Counts the thread's time as "learning", and waiting for it as "waiting".
            threads: Torch threads of the gradients.
        """
        self.config, self.batch_size, self.policy, self.loss = config, batch_size, policy, loss
        self.parameters, self.generator, self.timer = parameters, generator, timer
        self.minibatch: Minibatch | None = None
        self._thread = ThreadPoolExecutor(1, "gradients", torch.set_num_threads, (threads,))
        self._total = self._left = 0
        self._minibatches: Iterator[Minibatch] = iter(())
        self._gradient: Future[Gradient] | None = None
        self._changes = 0  # of the parameters, when the gradient was started

    def begin(self, rollout: Rollout) -> None:
        """Start on a rollout, which must stay as it is until all its gradients are taken."""
        sequences = rollout.reward.shape[1]
        self._left = self._total = self.config.epochs * sequences // self.batch_size
        self._start(lambda: self._first(rollout))

    def due(self, share: float) -> bool:
        """Return whether fewer than `share` (0 to 1) of the rollout's gradients have been taken."""
        return self._left > round((1 - share) * self._total)

    def take(self) -> Gradient:
        """Return the next gradient, of the parameters as they are now.

        With peers, an update may come at any moment. A gradient of parameters that have changed since it was
        started is computed again, so that no update is made of stale ones.
        """
        if self._gradient is None:
            self._start(self._next)
        self._wait()
        if self._changes != self.parameters.changes:
            self._start(self._compute)
            self._wait()
        assert self._gradient is not None
        gradient, self._gradient = self._gradient.result(), None
        self._left -= 1
        return gradient

    def prefetch(self) -> None:
        """Start computing the next gradient, if one is left."""
        if self._left:
            self._start(self._next)

    def drop(self) -> None:
        """Give up the gradients that are left."""
        self._left = 0

    def close(self) -> None:
        """Wait for a gradient in flight and end the thread."""
        self._thread.shutdown()

    def _start(self, compute: Callable[[], Gradient]) -> None:
        self._changes = self.parameters.changes
        self._gradient = self._thread.submit(self._run, compute)

    def _wait(self) -> None:
        assert self._gradient is not None
        with self.timer("waiting"):
            self._gradient.exception()

    # The rest runs in the thread.

    def _run(self, compute: Callable[[], Gradient]) -> Gradient:
        began = time.perf_counter()
        with self.parameters.held_still():
            gradient = compute()
        self.timer.add("learning", time.perf_counter() - began)
        return gradient

    def _first(self, rollout: Rollout) -> Gradient:
        batch = compute_targets(self.policy, rollout, self.config)
        self._minibatches = minibatches(batch, self.batch_size, self.config.epochs, self.generator)
        return self._next()

    def _next(self) -> Gradient:
        self.minibatch = next(self._minibatches)
        return self._compute()

    def _compute(self) -> Gradient:
        assert self.minibatch is not None
        loss, metrics = self.loss(self.minibatch)
        tensors = torch.autograd.grad(loss, self.parameters.tensors, materialize_grads=True)
        return Gradient(tensors, Metrics(*metrics.tolist()), self.minibatch.advantage.shape[1])
