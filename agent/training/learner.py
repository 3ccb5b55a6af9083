"""A peer's half of the shared model: contributes gradients, applies the group's updates, hands its state to
joiners.

The replicas stay bit for bit equal because `_apply_update` computes everything that it changes (parameters,
learning rate, normaliser, counters) from quantities that the group has reduced, and in the same order on
every peer.
"""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

import moolib
from agent.config import Config, ConfigError
from agent.errors import TrainingError
from agent.logs.timer import Timer
from agent.models.policy import Policy
from agent.training.schedule import next_learning_rate
from agent.training.statistics import GroupSums

MAX_DROPPED_IN_A_ROW = 20  # updates; more in a row are no accident of one batch, and the model is at fault


@dataclass
class Progress:
    """Counters of the group; part of every checkpoint and of what joiners receive.

    step: policy steps of all peers; updates: optimizer steps; transitions: those that went into updates,
    each counted once whatever the number of epochs; seconds: of training, over all restarts; dropped:
    updates left out for a gradient that was not finite; dropped_in_a_row: the last so many of them;
    learning_rate: of the last update; checksum: of the parameters as they were after checksum_updates.
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
    """What one optimizer step was made of: the group's sums and the reduction's own counts."""

    sums: dict[str, Tensor]
    batch_size: int
    num_gradients: int
    num_skipped: int
    grad_norm: float


def shared_settings(config: Config) -> dict[str, Any]:
    """The settings that change the model, so that all peers of a group must agree on them."""
    return {
        "algorithm": asdict(config.algorithm),
        "model": asdict(config.model),
        "virtual_batch_size": config.virtual_batch_size,
        "unroll_length": config.unroll_length,
        "env.name": config.env.name,
    }


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """`key=ours (theirs)` for each leaf that differs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = sorted(ours.keys() | theirs.keys())
        return [
            line
            for key in keys
            for line in differences(ours.get(key), theirs.get(key), f"{path}.{key}" if path else key)
        ]
    return [] if ours == theirs else [f"{path}={ours} (there: {theirs})"]


class Learner:
    """The model, its optimizer, and the accumulator that shares them with the group."""

    CHECKSUM_INTERVAL = 10  # updates between two checksums of the parameters
    PATIENCE = 0.05  # s between two looks at the stop signal while waiting for the group

    def __init__(
        self,
        config: Config,
        policy: Policy,
        group: moolib.Group,
        sums: GroupSums,
        clock: Timer,
        give_up: Callable[[], bool],
    ) -> None:
        self.config, self.policy, self.group, self.sums, self.clock = config, policy, group, sums, clock
        self.give_up = give_up
        self.parameters_in_use = threading.Lock()  # held while a gradient is computed: no update meanwhile
        self.parameter_changes = 0  # how often the parameters were updated or replaced
        optimizer = config.algorithm.optimizer
        self.parameters = [p for p in policy.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(
            self.parameters,
            lr=optimizer.learning_rate,
            betas=(optimizer.beta_1, optimizer.beta_2),
            eps=optimizer.epsilon,
            fused=True,
        )
        saved = policy.state_dict(keep_vars=True)  # without the buffers that never change
        buffers = [buffer for name, buffer in policy.named_buffers() if name in saved]
        shared = [*self.parameters, sums.parameter]
        self.accumulator = moolib.Accumulator("model", shared, buffers, group=group)
        self.accumulator.set_virtual_batch_size(config.virtual_batch_size)
        self.progress = Progress(learning_rate=optimizer.learning_rate)
        self.updates: list[Update] = []  # since somebody last took them, for the log

    # ------------------------------------------------------------------ the group

    def poll(self) -> None:
        """Keeps up with the group: membership, state asked for or received, and an update that is ready."""
        self.group.update()
        self.accumulator.update()
        if self.accumulator.wants_state():
            self.accumulator.set_state(self.state_dict())
        if self.accumulator.has_new_state():
            self._take_over(self.accumulator.state())
        if self.accumulator.has_gradients():
            with self.parameters_in_use, self.clock("learning"):
                self._apply_update()

    def poll_while_acting(self) -> None:
        """As `poll`, and lets the others go on without a gradient of ours."""
        self.poll()
        if not self.alone and self.accumulator.wants_gradients():
            self.accumulator.skip_gradients()

    @property
    def alone(self) -> bool:
        """Whether the group has no other members."""
        return len(self.group.members()) <= 1

    @property
    def finished(self) -> bool:
        return self.progress.step >= self.config.total_steps

    def _take_over(self, state: dict[str, Any]) -> None:
        self.parameter_changes += 1
        self.check_settings(state["settings"], f"the group {self.config.train_id}")
        seconds = self.progress.seconds
        self.load_state_dict(state)
        self.progress.seconds = max(seconds, self.progress.seconds)  # ours may be ahead by a part of a round

    def check_settings(self, theirs: dict[str, Any], where: str) -> None:
        """Raises ConfigError unless our settings of the model are those of a checkpoint or group."""
        different = differences(shared_settings(self.config), theirs)
        if different:
            raise ConfigError(
                f"{where} has other settings than ours: {'; '.join(different)}. Give these keys the values "
                "there, or start another run with another group"
            )

    # ------------------------------------------------------------------ learning

    def wait_until_wanted(self) -> bool:
        """Waits until the group wants a contribution from us; False if we are to give up."""
        while not self.give_up():
            self.poll()
            if self.accumulator.wants_gradients():
                return True
            with self.clock("reducing"):
                self.accumulator.wait(self.PATIENCE)
        return False

    def contribute(self, gradients: Sequence[Tensor], sequences: int) -> None:
        """Adds gradients of the parameters and the pending sums to the group's next update."""
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self.sums.attach()
        self.accumulator.reduce_gradients(sequences)

    def _apply_update(self) -> None:
        """One optimizer step with the reduced gradient: the same, bit for bit, on every peer.

        Raises:
            TrainingError: `MAX_DROPPED_IN_A_ROW` gradients were not finite; on all peers at the same update.
        """
        stats = self.accumulator.get_gradient_stats()
        sums = self.sums.read(stats["num_gradients"])
        config, progress = self.config.algorithm, self.progress
        norm = clip_gradients(self.parameters, config.grad_norm_clipping)
        progress.updates += 1
        self.parameter_changes += 1
        if math.isfinite(norm):
            kl = float(sums["metrics"][3]) / stats["num_gradients"]
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
        self._update_normalizer(sums["obs_moments"])
        progress.step += round(float(sums["steps"]))
        progress.transitions += stats["batch_size"] * self.config.unroll_length / config.epochs
        self.updates.append(
            Update(sums, stats["batch_size"], stats["num_gradients"], stats["num_skipped"], norm)
        )
        self.accumulator.zero_gradients()
        if progress.updates % self.CHECKSUM_INTERVAL == 0:
            progress.checksum, progress.checksum_updates = checksum(self.parameters), progress.updates
        if progress.dropped_in_a_row >= MAX_DROPPED_IN_A_ROW:
            raise TrainingError(f"the gradients of the last {MAX_DROPPED_IN_A_ROW} updates were not finite")

    def _update_normalizer(self, moments: Tensor) -> None:
        model = self.config.model
        if model.normalize_observations and torch.isfinite(moments).all():
            self.policy.normalizer.add(moments)
            if self.progress.updates % model.normalizer_interval == 0:
                self.policy.normalizer.fold()

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """What a joiner needs beside parameters and buffers."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "progress": asdict(self.progress),
            "settings": shared_settings(self.config),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        self.progress = Progress(**state["progress"])


def checksum(parameters: Iterable[torch.Tensor]) -> str:
    """CRC-32 over the bytes of the parameters, in hexadecimal digits."""
    crc = 0
    for parameter in parameters:
        crc = zlib.crc32(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().data, crc)
    return f"{crc:08x}"


@torch.no_grad()
def clip_gradients(parameters: list[nn.Parameter], max_norm: float) -> float:
    """Scales the gradients in place to a norm of at most `max_norm` and returns the norm they had.

    The norm is kept to six significant digits: the order of a floating-point sum depends on a machine's
    vector width and number of threads, and the replicas must agree on the scale.
    """
    squares = [p.grad.double().square().sum() for p in parameters if p.grad is not None]
    norm = float(f"{math.sqrt(float(torch.stack(squares).sum())):.6g}") if squares else 0.0
    if norm > max_norm:
        for p in parameters:
            if p.grad is not None:
                p.grad.mul_(max_norm / norm)
    return norm
