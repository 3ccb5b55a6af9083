"""Reward terms: pure functions of the state, each [B], unweighted.

The terms of unitree_rl_gym keep their names and formulas (``legged_robot.py``, BSD-3-Clause); ``gait``,
``pose`` and ``touchdown_speed`` are ours, and with them a trot emerges quickly.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from envs.arrays import Array, Numbers, constant, namespace, zeros
from envs.config import EnvConfig, RewardConfig
from envs.go2.mdp.observations import walking
from envs.go2.mdp.state import State
from envs.go2.robot.constants import JOINT_RANGE

COLLISION_FORCE = 0.1  # N on a thigh or calf from which it counts as colliding (unitree_rl_gym)
TROT = (1.0, -1.0, -1.0, 1.0)  # sign of the clock's sine per leg: FL with RR, FR with RL
STANCE_FORCE = 10.0  # N, load that spoils a swing by a factor e
SWING_SPREAD = 0.035  # m, error of the swing height that costs a factor e
STANCE_SLIP = 0.05  # (m/s)^2, squared slip of a standing foot that costs a factor e
POSE_WEIGHTS = (1.0, 1.0, 0.1) * 4  # 1/rad^2 for hips, thighs, calves

Term = Callable[[State[Any], RewardConfig], Any]


def tracking_lin_vel(state: State[Array], config: RewardConfig) -> Array:
    """Return exp(-|v_xy - command_xy|^2 / sigma)."""
    error = state.command[:, :2] - state.base_lin_vel[:, :2]
    return namespace(error).exp(_sum_squares(error) / -config.tracking_sigma)


def tracking_ang_vel(state: State[Array], config: RewardConfig) -> Array:
    """Return exp(-(w_z - command yaw rate)^2 / sigma)."""
    error = state.command[:, 2] - state.base_ang_vel[:, 2]
    return namespace(error).exp(error * error / -config.tracking_sigma)


def lin_vel_z(state: State[Array], config: RewardConfig) -> Array:
    """Return the squared vertical velocity in the base frame, (m/s)^2."""
    return state.base_lin_vel[:, 2] ** 2


def ang_vel_xy(state: State[Array], config: RewardConfig) -> Array:
    """Return the squared roll and pitch rates, (rad/s)^2."""
    return _sum_squares(state.base_ang_vel[:, :2])


def orientation(state: State[Array], config: RewardConfig) -> Array:
    """Return the squared horizontal part of the gravity direction; 0 when level."""
    return _sum_squares(state.projected_gravity[:, :2])


def torques(state: State[Array], config: RewardConfig) -> Array:
    """Return the sum of squared joint torques, (N m)^2."""
    return _sum_squares(state.torque)


def dof_acc(state: State[Array], config: RewardConfig) -> Array:
    """Return the sum of squared changes of joint speed in a policy step, (rad/s)^2; divided by dt^2 later."""
    return _sum_squares(state.last_joint_vel - state.joint_vel)


def action_rate(state: State[Array], config: RewardConfig) -> Array:
    """Return the sum of squared changes of the action."""
    return _sum_squares(state.last_action - state.action)


def dof_pos_limits(state: State[Array], config: RewardConfig) -> Array:
    """Return the sum of the joint angles' excess over the soft limits, rad."""
    angles = state.qpos[:, 7:19]
    low, high = (constant(limit, angles) for limit in soft_limits(config.soft_limit))
    return namespace(angles).einsum("bi->b", abs(angles - angles.clip(low, high)))


def feet_air_time(state: State[Array], config: RewardConfig) -> Array:
    """Return the sum over touchdowns of swing time minus the desired one, s; 0 for xy commands <= 0.1 m/s."""
    excess = (state.air_time - config.air_time) * state.touchdown
    return excess.sum(1) * (_sum_squares(state.command[:, :2]) > 0.1**2)


def collision(state: State[Array], config: RewardConfig) -> Array:
    """Return the number of thighs and calves that touch something."""
    xp, force = namespace(state.link_force), state.link_force[:, 1:9]
    return (xp.einsum("bli,bli->bl", force, force) > COLLISION_FORCE**2).sum(1, dtype=xp.float32)


def gait(state: State[Array], config: RewardConfig) -> Array:
    """Return how well the feet follow the trot's clock: 0 to 1, the mean over the feet.

    A leg's phase is phi = +-sin(2 pi clock), its share of swing b = clip(1/2 + phi, 0, 1), 0 when standing.
    Swinging feet should be unloaded and as high as the clock says; the others should touch the floor without
    slipping.
    """
    xp = namespace(state.clock)
    phase = xp.sin(2 * math.pi * state.clock)[:, None] * constant(TROT, state.clock)
    swing = (phase + 0.5).clip(0, 1) * walking(state.command)[:, None]
    force = xp.sqrt(xp.einsum("bfi,bfi->bf", state.foot_force, state.foot_force))
    low, high = config.swing_height
    height = state.foot_clearance
    miss = height - xp.maximum(height, low * phase).clip(None, high)
    unloaded = xp.exp(force / -STANCE_FORCE - (miss / SWING_SPREAD) ** 2)
    slip = xp.einsum("bfi,bfi->bf", state.foot_vel[:, :, :2], state.foot_vel[:, :, :2])
    planted = state.contact * xp.exp(slip / -STANCE_SLIP)
    return xp.einsum("bf->b", swing * unloaded + (1 - swing) * planted) * 0.25


def pose(state: State[Array], config: RewardConfig) -> Array:
    """Return exp(-sum w (q - q_default)^2)."""
    offset = state.joint_offset
    return namespace(offset).exp(-(offset**2 @ constant(POSE_WEIGHTS, offset)))


def touchdown_speed(state: State[Array], config: RewardConfig) -> Array:
    """Return the sum over touchdowns of the foot's squared speed, (m/s)^2."""
    xp = namespace(state.foot_vel)
    speed = xp.einsum("bfi,bfi->bf", state.foot_vel, state.foot_vel)
    return xp.einsum("bf,bf->b", speed, xp.asarray(state.touchdown, dtype=speed.dtype))


TERMS: dict[str, Term] = {
    term.__name__: term
    for term in (
        tracking_lin_vel,
        tracking_ang_vel,
        lin_vel_z,
        ang_vel_xy,
        orientation,
        torques,
        dof_acc,
        action_rate,
        dof_pos_limits,
        feet_air_time,
        collision,
        gait,
        pose,
        touchdown_speed,
    )
}


class Rewarder:
    """The weighted sum of the configured terms.

    Attributes:
        names: The terms' names, in order.
    """

    def __init__(self, config: EnvConfig):
        """Look up the terms.

        Raises:
            ValueError: On an unknown term; one line.
        """
        self._config = config.rewards
        weights = dict(config.rewards.weights)
        for name in weights:
            if name not in TERMS:
                raise ValueError(f"env.rewards.weights.{name}: unknown term; allowed are {', '.join(TERMS)}")
        self.names = tuple(weights)
        dt = config.control_dt
        factor = {"dof_acc": 1 / dt**2}
        scale = dt if config.rewards.times_dt else 1.0
        self._weights = [weights[n] * factor.get(n, 1.0) * scale for n in self.names]

    def terms(self, state: State[Array]) -> Array:
        """Return the weighted terms [num_terms, B] float32."""
        values = zeros((len(self.names), len(state.qpos)), state.qpos)
        multiply = namespace(values).multiply
        for row, name, weight in zip(values, self.names, self._weights, strict=True):
            multiply(TERMS[name](state, self._config), weight, out=row)
        return values

    def total(self, terms: Array) -> Array:
        """Return the reward [B] float32 of weighted terms [num_terms, B]."""
        total = terms.sum(0)
        return total.clip(0) if self._config.only_positive else total


@lru_cache
def soft_limits(share: float) -> tuple[Numbers, Numbers]:
    """Return lower and upper joint limits [12], rad, around the middle of the range and ``share`` as wide."""
    middle, half = JOINT_RANGE.mean(axis=1), 0.5 * share * np.ptp(JOINT_RANGE, axis=1)
    return tuple((middle - half).tolist()), tuple((middle + half).tolist())


def _sum_squares(values: Array) -> Array:
    return namespace(values).einsum("bi,bi->b", values, values)
