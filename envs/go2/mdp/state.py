"""The state that the terms read: one row per robot, float32, SI units.

Everything in the base frame follows from the current ``qpos`` and ``qvel``. Sensor readings (feet, forces)
and torques are MuJoCo's as of the start of the last physics step: after ``mj_step``, derived quantities are
one physics step older than positions, and consistent with one another. Only rewards and terminations read
them, never observations.
"""

from dataclasses import dataclass, fields
from typing import Any, Generic

import numpy as np

from envs.arrays import Array, constant, namespace, zeros
from envs.go2.robot.constants import DEFAULT_JOINTS, FOOT_RADIUS

CONTACT_FORCE = 1.0  # N of vertical force from which a foot counts as touching (unitree_rl_gym)
NUMBERS: dict[str, tuple[int, ...]] = {
    "qpos": (19,),
    "qvel": (18,),
    "base_lin_vel": (3,),
    "projected_gravity": (3,),
    "joint_offset": (12,),
    "last_joint_vel": (12,),
    "action": (12,),
    "last_action": (12,),
    "command": (3,),
    "heading": (),
    "clock": (),
    "torque": (12,),
    "foot_pos": (4, 3),
    "foot_vel": (4, 3),
    "foot_force": (4, 3),
    "link_force": (9, 3),
    "air_time": (4,),
}  # shapes of one robot's float32 arrays
FLAGS = ("contact", "grounded", "touchdown")  # [4] bool


@dataclass
class State(Generic[Array]):
    """Arrays over a batch of B robots, of NumPy or torch; legs are FL FR RL RR, joints hip thigh calf."""

    qpos: Array  # [B, 19] world position m, quaternion (w, x, y, z), joint angles rad
    qvel: Array  # [B, 18] world linear velocity m/s, base-frame angular velocity rad/s, joint speeds rad/s
    base_lin_vel: Array  # [B, 3] m/s, of the base frame's origin, base frame
    projected_gravity: Array  # [B, 3] unit vector of gravity in the base frame, (0, 0, -1) when upright
    joint_offset: Array  # [B, 12] rad, joint angles minus the default ones
    last_joint_vel: Array  # [B, 12] rad/s, one policy step ago
    action: Array  # [B, 12] the newest action as the policy gave it, clipped
    last_action: Array  # [B, 12] the action before
    command: Array  # [B, 3] vx m/s, vy m/s, yaw rate rad/s, base frame
    heading: Array  # [B] rad, the heading towards which the yaw rate steers, if the task has headings
    clock: Array  # [B] gait clock in cycles, in [0, 1)
    torque: Array  # [B, 12] N m
    foot_pos: Array  # [B, 4, 3] m, world frame
    foot_vel: Array  # [B, 4, 3] m/s, world frame
    foot_force: Array  # [B, 4, 3] N on the feet, world frame
    link_force: Array  # [B, 9, 3] N on base, thighs, calves without feet; zeros without these contacts
    contact: Array  # [B, 4] bool, the foot touches the floor now
    grounded: Array  # [B, 4] bool, it touches now or did one policy step ago
    touchdown: Array  # [B, 4] bool, first grounded step after a swing
    air_time: Array  # [B, 4] s, of the swing in progress or just ended

    @staticmethod
    def zeros(n: int) -> "State[np.ndarray]":
        """Make a state of ``n`` robots, all zero, in NumPy arrays."""
        return State(**_zeros(n))

    def rows(self, index: Any) -> "State[Array]":
        """Return the rows of some robots; a copy, if ``index`` is an array of their indices."""
        return State(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    @property
    def base_ang_vel(self) -> Array:
        """Angular velocity of the base [B, 3], rad/s, base frame."""
        return self.qvel[:, 3:6]

    @property
    def joint_vel(self) -> Array:
        """Joint speeds [B, 12], rad/s."""
        return self.qvel[:, 6:18]

    @property
    def foot_clearance(self) -> Array:
        """Height of the lowest point of each foot above the floor [B, 4], m."""
        return self.foot_pos[:, :, 2] - FOOT_RADIUS

    @property
    def roll_pitch(self) -> tuple[Array, Array]:
        """Roll [B] and pitch [B] in rad, of R = Rz(yaw) Ry(pitch) Rx(roll)."""
        g, xp = self.projected_gravity, namespace(self.projected_gravity)
        return xp.arctan2(-g[:, 1], -g[:, 2]), xp.arcsin(g[:, 0].clip(-1.0, 1.0))

    @property
    def yaw(self) -> Array:
        """Heading of the base's x axis [B], rad."""
        w, x, y, z = self.qpos[:, 3:7].T
        return namespace(x).arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z))

    def set_motion(self, qpos: Array, qvel: Array, rows: Any = slice(None)) -> None:
        """Set positions and velocities of some robots, and all quantities derived from them.

        Args:
            qpos: Positions of these robots [n, 19].
            qvel: Velocities of these robots [n, 18].
            rows: Index of these robots.
        """
        self.qpos[rows] = qpos
        self.qvel[rows] = qvel
        self.derive(rows)

    def derive(self, rows: Any = slice(None)) -> None:
        """Compute the quantities derived from ``qpos`` and ``qvel``, for some robots."""
        quat = self.qpos[rows, 3:7]
        self.projected_gravity[rows] = gravity_in_base(quat)
        self.base_lin_vel[rows] = rotate_inverse(quat, self.qvel[rows, 0:3])
        self.joint_offset[rows] = self.qpos[rows, 7:19] - constant(DEFAULT_JOINTS, self.qpos)

    def set_sensors(self, sensordata: Array) -> None:
        """Set feet and forces from MuJoCo's ``sensordata`` [B, 36 or 63]; its layout is in ``robot.mjcf``."""
        n, negative = len(sensordata), namespace(sensordata).negative
        self.foot_pos[...] = sensordata[:, 0:12].reshape(n, 4, 3)
        self.foot_vel[...] = sensordata[:, 12:24].reshape(n, 4, 3)
        negative(sensordata[:, 24:36].reshape(n, 4, 3), out=self.foot_force)
        if sensordata.shape[1] > 36:
            negative(sensordata[:, 36:63].reshape(n, 9, 3), out=self.link_force)
            self.link_force[:, 5:9] -= self.foot_force  # in MuJoCo the foot belongs to the calf's body

    def update_contacts(self, dt: float) -> None:
        """Advance the feet's contact records by a policy step of ``dt`` s, filtered as in unitree_rl_gym."""
        xp = namespace(self.air_time)
        self.air_time *= ~self.grounded
        contact = self.foot_force[:, :, 2] > CONTACT_FORCE
        xp.logical_or(contact, self.contact, out=self.grounded)
        xp.logical_and(self.air_time > 0.0, self.grounded, out=self.touchdown)
        self.contact[...] = contact
        self.air_time += dt


def gravity_in_base(quat: Array) -> Array:
    """Return the direction of gravity in the base frame, R^T (0, 0, -1).

    Args:
        quat: Unit quaternions (w, x, y, z) of the base in the world [B, 4].

    Returns:
        Unit vectors [B, 3].
    """
    w, x, y, z = quat.T
    gravity = zeros((len(quat), 3), quat)
    gravity[:, 0] = 2 * (w * y - x * z)
    gravity[:, 1] = -2 * (y * z + w * x)
    gravity[:, 2] = 2 * (x * x + y * y) - 1
    return gravity


def rotate_inverse(quat: Array, vector: Array) -> Array:
    """Rotate vectors of the world into the base frame: R^T v = v - w t + u x t with t = 2 u x v.

    Args:
        quat: Unit quaternions (w, u) of the base in the world [B, 4].
        vector: World vectors [B, 3].

    Returns:
        Base-frame vectors [B, 3].
    """
    w, x, y, z = quat.T
    a, b, c = vector.T
    tx, ty, tz = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
    rotated = zeros((len(quat), 3), vector)
    rotated[:, 0] = a - w * tx + y * tz - z * ty
    rotated[:, 1] = b - w * ty + z * tx - x * tz
    rotated[:, 2] = c - w * tz + x * ty - y * tx
    return rotated


def _zeros(n: int) -> dict[str, np.ndarray]:
    numbers = {name: np.zeros((n, *shape), np.float32) for name, shape in NUMBERS.items()}
    return numbers | {name: np.zeros((n, 4), bool) for name in FLAGS}
