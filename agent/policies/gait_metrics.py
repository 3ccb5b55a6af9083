"""Measures of how well a robot walks, from its states: tracking, feet, posture and effort.

`GaitMetrics` watches a batch of robots step by step and keeps sums for each; `summarize` turns any group of
robots into a `GaitSummary`. Nothing here depends on the reward.

Definitions:

- velocity and yaw-rate error: root mean square over time of |v_xy - command_xy| and |w_z - command|, both in
  the base frame.
- contact: a vertical force of more than 1 N. duty: share of time in contact. trot: share of time in which the
  feet FL and RR are both in contact and FR and RL both not, or the other way round.
- swing: at least 40 ms without contact. clearance: mean over swings of the peak height of the foot's lowest
  point. A foot that is dragged has a low clearance, one that never leaves the ground has none.
- slip: mean horizontal speed of the feet in contact (of their centre, which also moves when a foot rolls).
- torque: mean |tau| of the twelve joints. power: mean of the sum of |tau qdot|: braking costs, too.
- cost of transport: energy / (m g distance), over robots that are told to go somewhere.
- action rate: root mean square of the change of a joint's target from one policy step to the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from envs.go2.mdp.state import State
from envs.results import StepResult

GRAVITY = 9.81  # m/s^2, MuJoCo's default
MIN_SWING = 0.04  # s without contact from which it is a swing: two steps at 50 Hz; one may be a rattling foot
BELLY = 0.08  # m, height of the base at which its belly is on the floor: half its thickness and some tilt
LINK_FORCE = 1.0  # N on a link from which it counts as touching (unitree_rl_gym's for the base)


@dataclass(frozen=True)
class GaitSummary:
    """The gait of a group of robots; None where there was nothing to measure. Feet: FL FR RL RR."""

    falls: int  # ends of episodes and sinkings onto the belly, also in the first seconds
    seconds: float  # measured, of all robots together
    velocity_error: float | None  # m/s, RMS
    yaw_rate_error: float | None  # rad/s, RMS
    velocity: list[float | None]  # mean vx m/s, vy m/s and yaw rate rad/s, base frame
    height: float | None  # m, mean of the base above the floor
    clearance: list[float | None]  # m, mean peak height of swings
    steps_per_second: float | None  # swings of one foot per second
    duty: list[float | None]  # share of time in contact
    trot: float | None  # share of time in which one diagonal pair of feet stands and the other swings
    slip: float | None  # m/s
    torque: float | None  # N m
    power: float | None  # W
    cost_of_transport: float | None  # without unit
    action_rate: float | None  # rad per policy step
    base_contact: float | None  # share of time; None also where nothing but the feet can touch the floor
    leg_contact: float | None  # the same for any thigh or calf


class GaitMetrics:
    """Sums over time for each robot of a batch."""

    def __init__(self, n: int, dt: float, action_scale: float, links_touch: bool) -> None:
        """Start at zero.

        Args:
            n: Robots.
            dt: Policy step, s.
            action_scale: Joint target per unit of action, rad.
            links_touch: The physics lets more than the feet touch the floor.
        """
        self.n, self.dt, self.action_scale, self.links_touch = n, dt, action_scale, links_touch
        self.sums: dict[str, np.ndarray] = {}
        self.falls = np.zeros(n, np.int64)
        self._sunk = np.zeros(n, bool)
        self._air = np.zeros((n, 4), np.int64)  # policy steps of the swing in progress
        self._peak = np.zeros((n, 4))  # m, its greatest height so far

    def add(self, state: State, result: StepResult, counted: np.ndarray) -> None:
        """Add one policy step.

        Args:
            state: The state reached [B rows].
            result: The result of the step.
            counted: The robots to measure [B] bool; none whose episode has just ended.
        """
        sunk = state.qpos[:, 2] < BELLY
        self.falls += result.terminated | (sunk & ~self._sunk)
        self._sunk = sunk
        contact, foot_speed = state.contact, np.hypot(state.foot_vel[..., 0], state.foot_vel[..., 1])
        diagonals, opposite = contact[:, :2] == contact[:, :1:-1], contact[:, 0] != contact[:, 1]
        quantities = {
            "steps": np.ones(self.n),
            "velocity_error2": result.lin_vel_error.astype(float) ** 2,
            "yaw_rate_error2": result.yaw_rate_error.astype(float) ** 2,
            "velocity": np.column_stack([state.base_lin_vel[:, :2], state.base_ang_vel[:, 2]]),
            "distance": np.hypot(state.base_lin_vel[:, 0], state.base_lin_vel[:, 1]) * self.dt,
            "height": state.qpos[:, 2],
            "contact": contact,
            "trot": diagonals.all(axis=1) & opposite,
            "slip": (foot_speed * contact).sum(axis=1),
            "torque": np.abs(state.torque).mean(axis=1),
            "power": np.abs(state.torque * state.joint_vel).sum(axis=1),
            "action_change2": ((state.action - state.last_action) ** 2).mean(axis=1),
        }
        touching = np.linalg.norm(state.link_force, axis=2) > LINK_FORCE
        quantities |= {"base_contact": touching[:, 0], "leg_contact": touching[:, 1:].any(axis=1)}
        quantities |= self._swings(contact, state.foot_clearance, result.terminated | result.truncated)
        for name, values in quantities.items():
            total = self.sums.setdefault(name, np.zeros(values.shape))
            total[counted] += values[counted]

    def _swings(self, contact: np.ndarray, height: np.ndarray, ended: np.ndarray) -> dict[str, np.ndarray]:
        """Return the swings that end in this step and their peak heights (m), `[B, 4]` each.

        The end of an episode ends no swing.
        """
        landed = contact & (self._air * self.dt >= MIN_SWING - 1e-9)
        peaks = {"swings": landed, "peaks": np.where(landed, self._peak, 0.0)}
        flying = ~contact & ~ended[:, None]
        self._peak = np.where(flying, np.maximum(self._peak, height), 0.0)
        self._air = np.where(flying, self._air + 1, 0)
        return peaks

    def summarize(self, rows: np.ndarray, commands: np.ndarray, mass: float) -> GaitSummary:
        """Summarize the gait of some robots.

        Args:
            rows: The robots: indices or a mask [B] bool.
            commands: Commands [B, 3] of all robots.
            mass: Of a robot, kg.
        """
        total = {name: values[rows].sum(axis=0) for name, values in self.sums.items()}
        steps = total["steps"]
        mean = {name: _ratio(values, steps) for name, values in total.items()}
        moving = np.zeros(self.n, bool)
        moving[rows] = True
        moving &= np.hypot(commands[:, 0], commands[:, 1]) > 0
        energy = self.sums["power"][moving].sum() * self.dt
        weight_times_distance = mass * GRAVITY * self.sums["distance"][moving].sum()
        return GaitSummary(
            falls=int(self.falls[rows].sum()),
            seconds=float(steps * self.dt),
            velocity_error=_root(mean["velocity_error2"]),
            yaw_rate_error=_root(mean["yaw_rate_error2"]),
            velocity=_list(mean["velocity"]),
            height=_number(mean["height"]),
            clearance=_list(_ratio(total["peaks"], total["swings"])),
            steps_per_second=_number(mean["swings"].mean() / self.dt),
            duty=_list(mean["contact"]),
            trot=_number(mean["trot"]),
            slip=_number(_ratio(total["slip"], total["contact"].sum())),
            torque=_number(mean["torque"]),
            power=_number(mean["power"]),
            cost_of_transport=_number(_ratio(energy, weight_times_distance)),
            action_rate=_root(mean["action_change2"] * self.action_scale**2),
            base_contact=_number(mean["base_contact"]) if self.links_touch else None,
            leg_contact=_number(mean["leg_contact"]) if self.links_touch else None,
        )


def _ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return total / count, NaN where the count is 0."""
    total, count = np.broadcast_arrays(np.asarray(total, float), np.asarray(count, float))
    ratio: np.ndarray = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return ratio


def _number(value: np.ndarray) -> float | None:
    return float(value) if np.isfinite(value) else None


def _root(value: np.ndarray) -> float | None:
    return _number(np.sqrt(value))


def _list(values: np.ndarray) -> list[float | None]:
    return [_number(value) for value in values]
