"""The replica of the shared model: contributes gradients, applies the group's updates, and hands the model
over to joiners.

Replicas stay equal bit for bit because `_apply_update` computes everything that it changes (parameters,
learning rate, normaliser, counters) from quantities that the group has reduced, in the same order on every
peer.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

import moolib
from agent.algorithms.optimizer import clip_gradients, make_optimizer, next_learning_rate
from agent.config import Config, check_shared_settings, shared_settings
from agent.errors import TrainingError
from agent.logs.timer import Timer
from agent.models.policy import Policy
from agent.training.gradient_worker import Gradient, GuardedParameters
from agent.training.statistics import GroupStatistics, Statistics

CHECKSUM_INTERVAL = 10  # updates between two checksums of the parameters
MAX_DROPPED_IN_A_ROW = 20  # updates; more in a row are no accident of one batch: the model is at fault
PATIENCE = 0.05  # s between two looks at the stop signal while waiting for the group


@dataclass
class Progress:
    """Counters of the group; part of every checkpoint and of what joiners receive.

    Attributes:
        step: Policy steps of all peers.
        updates: Optimizer steps.
        transitions: Policy steps that went into updates, each counted once whatever the number of epochs.
        seconds: Training time, over all restarts.
        dropped: Updates left out because their gradient was not finite.
        dropped_in_a_row: How many of the latest updates were dropped.
        learning_rate: Of the last update.
        checksum: Of the parameters as they were after `checksum_updates` updates.
        checksum_updates: A multiple of `CHECKSUM_INTERVAL`.
    """

    step: int = 0
    updates: int = 0
    transitions: float = 0.0
    seconds: float = 0.0
    dropped: int = 0
    dropped_in_a_row: int = 0
    learning_rate: float = 0.0
    checksum: str = ""
    checksum_updates: int = 0


@dataclass
class Update:
    """The ingredients of one optimizer step: the group's statistics and the reduction's own counts."""

    statistics: Statistics[Tensor]
    batch_size: int
    num_gradients: int
    num_skipped: int
    grad_norm: float


class Learner:
    """The model, its optimizer, and the accumulator that shares them with the group.

    Attributes:
        parameters: The trainable parameters; no update changes them while a gradient is computed.
        progress: The group's counters.
        updates: Since the last `take_updates()`.
    """

    def __init__(
        self,
        config: Config,
        policy: Policy,
        group: moolib.Group,
        statistics: GroupStatistics,
        timer: Timer,
        give_up: Callable[[], bool] = lambda: False,
    ) -> None:
        """Join nothing yet: `poll()` does.

        Args:
            config: The peer's settings.
            policy: The replica.
            group: The peers that share the model.
            statistics: Travel with each contribution.
            timer: Counts the time spent on updates ("learning") and on waiting for the group ("reducing").
            give_up: Ends waiting for the group when it returns True.
        """
        self.config, self.policy, self.group, self.statistics = config, policy, group, statistics
        self.timer, self.give_up = timer, give_up
        self.parameters = GuardedParameters([p for p in policy.parameters() if p.requires_grad])
        self.optimizer = make_optimizer(config.algorithm.optimizer, self.parameters.tensors)
        saved = policy.state_dict(keep_vars=True)  # without the buffers that never change
        buffers = [buffer for name, buffer in policy.named_buffers() if name in saved]
        shared = [*self.parameters.tensors, statistics.parameter]
        self.accumulator = moolib.Accumulator("model", shared, buffers, group=group)
        self.accumulator.set_virtual_batch_size(config.virtual_batch_size)
        self.progress = Progress(learning_rate=config.algorithm.optimizer.learning_rate)
        self.updates: list[Update] = []

    # ------------------------------------------------------------------ the group

    def poll(self) -> None:
        """Keep up with the group: members, a state asked for or received, and an update that is ready.

        Raises:
            ConfigError: The group trains with other settings.
            TrainingError: Too many gradients in a row were not finite.
        """
        self.group.update()
        self.accumulator.update()
        if self.accumulator.wants_state():
            self.accumulator.set_state(self.state_dict())
        if self.accumulator.has_new_state():
            self._adopt(self.accumulator.state())
        if self.accumulator.has_gradients():
            with self.parameters.changing(), self.timer("learning"):
                self._apply_update()

    @property
    def alone(self) -> bool:
        """Whether the group has no other members."""
        return len(self.group.members()) <= 1

    @property
    def connected(self) -> bool:
        """Whether this peer is a member and has the group's model."""
        return self.accumulator.connected()

    @property
    def is_leader(self) -> bool:
        """Whether joiners receive the model from this peer, which also writes the checkpoints."""
        return self.accumulator.is_leader()

    @property
    def finished(self) -> bool:
        """Whether the group has taken all the policy steps that were asked for."""
        return self.progress.step >= self.config.total_steps

    def model_version(self) -> int:
        """Return the number of reductions that made the model what it is."""
        return self.accumulator.model_version()

    def wants_gradients(self) -> bool:
        """Return whether the group takes a contribution now."""
        return self.accumulator.wants_gradients()

    def contribute(self, gradient: Gradient) -> None:
        """Add a gradient and the pending statistics to the group's next update."""
        self.statistics.pending.metrics += gradient.metrics
        self.accumulator.reduce_gradients(gradient.sequences, [*gradient.tensors, self.statistics.take()])

    def skip(self) -> None:
        """Let the others go on without a gradient from this peer."""
        self.accumulator.skip_gradients()

    def wait_until_wanted(self) -> bool:
        """Wait until the group takes a contribution; return False if we give up."""
        while not self.give_up():
            self.poll()
            if self.wants_gradients():
                return True
            with self.timer("reducing"):
                self.accumulator.wait(PATIENCE)
        return False

    def take_updates(self) -> list[Update]:
        """Return the updates since the last call, for the log."""
        updates, self.updates = self.updates, []
        return updates

    # ------------------------------------------------------------------ learning

    def _apply_update(self) -> None:
        """Take one optimizer step with the reduced gradient: the same, bit for bit, on every peer.

        Raises:
            TrainingError: `MAX_DROPPED_IN_A_ROW` gradients were not finite; on all peers at the same update.
        """
        counts = self.accumulator.get_gradient_stats()
        statistics = self.statistics.reduced(counts["num_gradients"])
        config, progress = self.config.algorithm, self.progress
        norm = clip_gradients(self.parameters.tensors, config.grad_norm_clipping)
        progress.updates += 1
        if math.isfinite(norm):
            kl = statistics.mean_metrics(counts["num_gradients"]).kl
            progress.learning_rate = next_learning_rate(
                config.optimizer, progress.learning_rate, progress.updates, kl
            )
            for param_group in self.optimizer.param_groups:
                param_group["lr"] = progress.learning_rate
            self.optimizer.step()
            progress.dropped_in_a_row = 0
        else:
            progress.dropped += 1
            progress.dropped_in_a_row += 1
        self._update_normalizer(statistics.obs_moments)
        progress.step += round(float(statistics.steps))
        progress.transitions += counts["batch_size"] * self.config.unroll_length / config.epochs
        self.updates.append(
            Update(statistics, counts["batch_size"], counts["num_gradients"], counts["num_skipped"], norm)
        )
        self.accumulator.zero_gradients()
        if progress.updates % CHECKSUM_INTERVAL == 0:
            progress.checksum = checksum(self.parameters.tensors)
            progress.checksum_updates = progress.updates
        if progress.dropped_in_a_row >= MAX_DROPPED_IN_A_ROW:
            raise TrainingError(f"the gradients of the last {MAX_DROPPED_IN_A_ROW} updates were not finite")

    def _update_normalizer(self, moments: Tensor) -> None:
        model = self.config.model
        if model.normalize_observations and torch.isfinite(moments).all():
            self.policy.normalizer.add_moments(moments)
            if self.progress.updates % model.normalizer_interval == 0:
                self.policy.normalizer.apply_moments()

    # ------------------------------------------------------------------ state

    def _adopt(self, state: dict[str, Any]) -> None:
        """Continue with the leader's optimizer and counters; its parameters are loaded already."""
        self.parameters.changes += 1
        check_shared_settings(self.config, state["settings"], f"the group {self.config.train_id}")
        seconds = self.progress.seconds
        self.load_state_dict(state)
        self.progress.seconds = max(seconds, self.progress.seconds)  # ours may be ahead by part of a rollout

    def state_dict(self) -> dict[str, Any]:
        """Return what a joiner needs beside parameters and buffers."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "progress": asdict(self.progress),
            "settings": shared_settings(self.config),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict()`."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.progress = Progress(**state["progress"])


def checksum(parameters: Iterable[Tensor]) -> str:
    """Return the CRC-32 of the bytes of the parameters, in hexadecimal digits."""
    crc = 0
    for parameter in parameters:
        crc = zlib.crc32(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().data, crc)
    return f"{crc:08x}"
