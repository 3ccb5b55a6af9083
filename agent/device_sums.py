"""Statistics of steps whose results are on a device: added up there and read once for each rollout."""

from __future__ import annotations

import torch

from agent.group_sums import GroupSums
from envs import StepResult

NAMES = (
    "lin_vel_error", "yaw_rate_error", "episodes", "falls", "timeouts", "blowups", "episode_return",
    "episode_length",
)  # fmt: skip


class DeviceSums:
    """What `Actors` adds to the group's sums, without waiting for the device at every step."""

    def __init__(self, sums: GroupSums, num_rewards: int, device: torch.device) -> None:
        self._sums, self._steps = sums, 0
        self._scalars = torch.zeros(len(NAMES), dtype=torch.float64, device=device)
        self._reward_terms = torch.zeros(num_rewards, dtype=torch.float64, device=device)

    def add(self, result: StepResult) -> None:
        """Adds one step of one actor batch."""
        done, bad = result.terminated | result.truncated, result.diverged
        rows = (
            result.lin_vel_error, result.yaw_rate_error, done, result.terminated & ~bad, result.truncated,
            bad, result.episode_return * done, result.episode_length * done,
        )  # fmt: skip
        self._scalars += torch.stack([row.float() for row in rows]).sum(1)
        self._reward_terms += result.reward_terms * len(done)
        self._steps += len(done)

    def flush(self) -> None:
        """Hands everything over to the group's sums; waits for the device."""
        for name, value in zip(NAMES, self._scalars.tolist(), strict=True):
            self._sums.add(name, value)
        self._sums.add("reward_terms", self._reward_terms.cpu().numpy())
        self._sums.add("steps", self._steps)
        self._scalars.zero_()
        self._reward_terms.zero_()
        self._steps = 0
