"""What a batch of robots reports: the result of one step, and counters of what has been simulated."""

import math
from dataclasses import dataclass, fields

from envs.go2.arrays import Array


@dataclass
class Counters:
    """What has been simulated so far."""

    policy_steps: int = 0
    physics_steps: int = 0
    episodes: int = 0
    falls: int = 0
    timeouts: int = 0
    blowups: int = 0
    simulated_seconds: float = 0.0

    def __add__(self, other: "Counters") -> "Counters":
        return Counters(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass
class StepResult:
    """What one step of a batch of B robots gave, in NumPy arrays or torch tensors, valid until its next."""

    obs: Array  # [B, D] float32, of the new episode where one ended
    reward: Array  # [B] float32
    terminated: Array  # [B] bool, fell or blew up
    truncated: Array  # [B] bool, the time is over; never together with terminated
    final_obs: Array  # [B, D] float32, before the reset; valid where an episode ended
    episode_return: Array  # [B] float32, including this step
    episode_length: Array  # [B] int32 policy steps, including this one
    lin_vel_error: Array  # [B] float32, |v_xy - command_xy|, m/s, base frame
    yaw_rate_error: Array  # [B] float32, |w_z - command|, rad/s
    reward_terms: Array  # [num_terms] float64, means over the batch of the weighted terms
    bad: Array  # [B] bool, blew up
    stamps: tuple[float, float, float] = (
        math.nan,
    ) * 3  # s of time.perf_counter: physics began, ended, terms ended
