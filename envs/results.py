"""Results of a batch of robots: one step's, and counters of everything simulated so far."""

import math
from dataclasses import dataclass, fields
from typing import Generic

from envs.arrays import Array, zeros


@dataclass
class Counters:
    """Totals over all robots since the batch was made."""

    policy_steps: int = 0
    physics_steps: int = 0
    episodes: int = 0  # that ended: falls + timeouts + blowups
    falls: int = 0
    timeouts: int = 0
    blowups: int = 0  # robots whose physics diverged
    simulated_seconds: float = 0.0

    def __add__(self, other: "Counters") -> "Counters":
        return Counters(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass
class StepResult(Generic[Array]):
    """One policy step of B robots, in NumPy arrays or torch tensors that are valid until their next step."""

    obs: Array  # [B, D] float32, of the new episode where one ended
    reward: Array  # [B] float32
    terminated: Array  # [B] bool, the robot fell or diverged
    truncated: Array  # [B] bool, the time is over; never together with terminated
    final_obs: Array  # [B, D] float32, before the reset; valid where an episode ended
    episode_return: Array  # [B] float32, including this step
    episode_length: Array  # [B] int32 policy steps, including this one
    lin_vel_error: Array  # [B] float32, |v_xy - command_xy|, m/s, base frame
    yaw_rate_error: Array  # [B] float32, |w_z - command|, rad/s
    reward_terms: Array  # [num_terms] means over the batch of the weighted terms; float64 on mjbatch
    diverged: Array  # [B] bool, the physics blew up
    stamps: tuple[float, float, float] = (math.nan,) * 3
    """Seconds of ``time.perf_counter`` when the physics began, when it ended, and when the step was done."""

    @staticmethod
    def zeros(n: int, dim: int, num_terms: int, single: Array, precise: Array) -> "StepResult[Array]":
        """Make an empty result of ``n`` robots.

        Args:
            n: Number of robots, B.
            dim: Length of an observation, D.
            num_terms: Number of reward terms.
            single: Any float32 array of the backend.
            precise: Any array in the precision of the physics.
        """
        return StepResult(
            obs=zeros((n, dim), single),
            reward=zeros((n,), single),
            terminated=zeros((n,), single, "bool"),
            truncated=zeros((n,), single, "bool"),
            final_obs=zeros((n, dim), single),
            episode_return=zeros((n,), single),
            episode_length=zeros((n,), single, "int32"),
            lin_vel_error=zeros((n,), single),
            yaw_rate_error=zeros((n,), single),
            reward_terms=zeros((num_terms,), precise),
            diverged=zeros((n,), single, "bool"),
        )
