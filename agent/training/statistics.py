"""Statistics of the whole group, which travel inside the gradient reduction.

Counters, episode statistics, the observation moments of the normaliser and the KL divergence that steers an
adaptive learning rate must be the same on all peers at the same update. So they ride along as the "gradient"
of one more parameter, which no optimizer changes: it takes no extra round, and no peer can ever see another
value than the others.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from agent.algorithms.objective import Metrics
from envs import StepResult

Vector = TypeVar("Vector", np.ndarray, Tensor)


@dataclass
class Statistics(Generic[Vector]):
    """Sums over policy steps, episodes, sequences or contributions; each field is a view of `vector`.

    The order of the fields is their order in the vector, which checkpoints rely on.
    """

    vector: Vector  # all of the following, one after the other
    steps: Vector  # [1] policy steps
    episodes: Vector  # [1] episodes that ended; of these:
    falls: Vector  # [1] terminated by a fall
    timeouts: Vector  # [1] truncated by the time limit
    blowups: Vector  # [1] terminated because the physics diverged
    episode_return: Vector  # [1] over the episodes that ended
    episode_length: Vector  # [1] policy steps, over the episodes that ended
    lin_vel_error: Vector  # [1] m/s, over steps
    yaw_rate_error: Vector  # [1] rad/s, over steps
    policy_lag: Vector  # [1] model versions, over sequences
    reward_terms: Vector  # [R] weighted reward terms, over steps
    metrics: Vector  # [5] `Metrics`, over contributions
    obs_moments: Vector  # [1 + 2 D] as `Normalizer.moments` returns them

    @staticmethod
    def sizes(obs_dim: int, num_rewards: int) -> list[int]:
        """Return the length of each field after `vector`."""
        own = {
            "reward_terms": num_rewards,
            "metrics": len(Metrics._fields),
            "obs_moments": 1 + 2 * obs_dim,
        }
        return [own.get(field.name, 1) for field in fields(Statistics)[1:]]

    @classmethod
    def of(cls, vector: Vector, sizes: list[int]) -> Statistics[Vector]:
        """Return the named views of a vector `[sum of sizes]`."""
        ends = np.cumsum(sizes).tolist()
        views = [vector[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        return cls(vector, *views)

    def mean_metrics(self, contributions: int) -> Metrics:
        """Return the mean over contributions; NaN where there were none."""
        return Metrics(*(ratio(total, contributions) for total in self.metrics.tolist()))


def ratio(numerator: float, denominator: float) -> float:
    """Return numerator / denominator, or NaN where nothing was counted."""
    return numerator / denominator if denominator else float("nan")


class GroupStatistics:
    """What this peer has to add to the group's statistics, and the parameter in which it travels.

    Attributes:
        parameter: Its `grad` is what a reduction returns.
        pending: Sums since the last contribution, of this peer alone.
    """

    def __init__(self, obs_dim: int, num_rewards: int) -> None:
        self._sizes = Statistics.sizes(obs_dim, num_rewards)
        self.parameter = nn.Parameter(torch.zeros(sum(self._sizes)))
        self.pending = Statistics.of(np.zeros(sum(self._sizes)), self._sizes)

    def zeros(self) -> Statistics[Tensor]:
        """Return empty statistics, to add reduced ones to."""
        return Statistics.of(torch.zeros(sum(self._sizes), dtype=torch.float64), self._sizes)

    def add_step(self, result: StepResult) -> None:
        """Add one policy step of one actor batch."""
        done, pending = result.terminated | result.truncated, self.pending
        pending.steps += len(done)
        pending.reward_terms += result.reward_terms * len(done)
        pending.lin_vel_error += float(result.lin_vel_error.sum())
        pending.yaw_rate_error += float(result.yaw_rate_error.sum())
        if done.any():
            pending.episodes += int(done.sum())
            pending.falls += int((result.terminated & ~result.diverged).sum())
            pending.timeouts += int(result.truncated.sum())
            pending.blowups += int(result.diverged.sum())
            pending.episode_return += float(result.episode_return[done].sum())
            pending.episode_length += float(result.episode_length[done].sum())

    def flush(self) -> None:
        """Do nothing: `pending` is up to date after each step."""

    def take(self) -> Tensor:
        """Return the pending sums as the gradient of `parameter`, float32, and start from zero."""
        gradient = torch.from_numpy(self.pending.vector.astype(np.float32))
        self.pending.vector[:] = 0.0
        return gradient

    def reduced(self, contributions: int) -> Statistics[Tensor]:
        """Return the sums over the group, after a reduction that averaged over so many contributions."""
        assert self.parameter.grad is not None
        return Statistics.of(self.parameter.grad * contributions, self._sizes)

    def state_dict(self) -> dict[str, np.ndarray]:
        return {"pending": self.pending.vector.copy()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        self.pending.vector[:] = state["pending"]


class DeviceStatistics:
    """The same for robots that live on a device: sums stay there until the end of a rollout.

    On a device, reading a number means waiting for all work that was queued before it.
    """

    def __init__(self, group: GroupStatistics, num_rewards: int, device: torch.device) -> None:
        self._group, self._steps = group, 0
        self._scalars = torch.zeros(8, dtype=torch.float64, device=device)
        self._reward_terms = torch.zeros(num_rewards, dtype=torch.float64, device=device)

    def add_step(self, result: StepResult) -> None:
        """Add one policy step of one actor batch, without reading anything from the device."""
        done, bad = result.terminated | result.truncated, result.diverged
        rows = (
            done, result.terminated & ~bad, result.truncated, bad, result.episode_return * done,
            result.episode_length * done, result.lin_vel_error, result.yaw_rate_error,
        )  # fmt: skip
        self._scalars += torch.stack([row.float() for row in rows]).sum(1)
        self._reward_terms += result.reward_terms * len(done)
        self._steps += len(done)

    def flush(self) -> None:
        """Add everything to the group's pending sums; waits for the device."""
        pending = self._group.pending
        pending.steps += self._steps
        (
            episodes, falls, timeouts, blowups, episode_return, episode_length, lin_vel_error, yaw_rate_error,
        ) = self._scalars.tolist()  # fmt: skip
        pending.episodes += episodes
        pending.falls += falls
        pending.timeouts += timeouts
        pending.blowups += blowups
        pending.episode_return += episode_return
        pending.episode_length += episode_length
        pending.lin_vel_error += lin_vel_error
        pending.yaw_rate_error += yaw_rate_error
        pending.reward_terms += self._reward_terms.cpu().numpy()
        self._scalars.zero_()
        self._reward_terms.zero_()
        self._steps = 0
