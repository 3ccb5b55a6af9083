"""What a batch of robots reports: the result of one step, and counters of what has been simulated."""

import math
from dataclasses import dataclass, fields

import numpy as np


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
    """What one step of a batch of B robots gave; the arrays are valid until the batch's next step."""

    obs: np.ndarray  # [B, D] float32, of the new episode where one ended
    reward: np.ndarray  # [B] float32
    terminated: np.ndarray  # [B] bool, fell or blew up
    truncated: np.ndarray  # [B] bool, the time is over; never together with terminated
    final_obs: np.ndarray  # [B, D] float32, before the reset; valid where an episode ended
    episode_return: np.ndarray  # [B] float32, including this step
    episode_length: np.ndarray  # [B] int32 policy steps, including this one
    lin_vel_error: np.ndarray  # [B] float32, |v_xy - command_xy|, m/s, base frame
    yaw_rate_error: np.ndarray  # [B] float32, |w_z - command|, rad/s
    reward_terms: np.ndarray  # [num_terms] float64, means over the batch of the weighted terms
    bad: np.ndarray  # [B] bool, blew up
    stamps: tuple[float, float, float] = (
        math.nan,
    ) * 3  # s of time.perf_counter: physics began, ended, terms ended
