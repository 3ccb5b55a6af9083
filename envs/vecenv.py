"""The readable reference: one ``MjModel``, one ``MjData`` per robot and a Python loop.

It is slow and plain on purpose: the tests compare the fast environment with it. The robots of one batch share
the model and never interact. A robot whose episode ends is reset in the same step, so that the observation
returned for it is already that of the new episode; falls and time-outs are reported separately.
"""

from collections.abc import Callable

import mujoco
import numpy as np

ResetFn = Callable[[mujoco.MjModel, mujoco.MjData, np.random.Generator], None]


class VecEnv:
    """``n`` robots with a free base (7 positions, 6 velocities) and hinge joints.

    Attributes:
        m: The shared model.
        datas: One ``MjData`` per robot.
        t: Policy steps of the current episode per robot [n].
        policy_steps, physics_steps, episodes: Totals over all robots.
    """

    def __init__(
        self,
        m: mujoco.MjModel,
        n: int,
        reset_fn: ResetFn,
        rng: np.random.Generator,
        decimation: int = 4,
        max_steps: int = 1000,
        max_roll: float = 0.8,
        max_pitch: float = 1.0,
        min_height: float = 0.15,
    ):
        """Make the robots; ``reset`` puts them into their start states.

        Args:
            m: The model.
            n: Number of robots.
            reset_fn: ``reset_fn(m, d, rng)`` puts one ``MjData`` into a start state.
            rng: Passed to ``reset_fn``.
            decimation: Physics steps per policy step.
            max_steps: Policy steps until the time-out.
            max_roll: rad; more than this is a fall.
            max_pitch: rad; more than this is a fall.
            min_height: m, of the base; less than this is a fall.
        """
        self.m, self.n, self.reset_fn, self.rng = m, n, reset_fn, rng
        self.decimation, self.max_steps = decimation, max_steps
        self.max_roll, self.max_pitch, self.min_height = max_roll, max_pitch, min_height
        self.datas = [mujoco.MjData(m) for _ in range(n)]
        self.t = np.zeros(n, dtype=int)
        self.policy_steps = self.physics_steps = self.episodes = 0

    def reset(self) -> np.ndarray:
        """Reset every robot; return observations [n, 34]."""
        for data in self.datas:
            self.reset_fn(self.m, data, self.rng)
        self.t[:] = 0
        return self._observe()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Advance every robot by one policy step.

        Args:
            actions: Controls, held for ``decimation`` physics steps [n, 12].

        Returns:
            Observations [n, 34], fell [n] bool and timed_out [n] bool.
        """
        for data, action in zip(self.datas, actions, strict=True):
            data.ctrl[:] = action
            mujoco.mj_step(self.m, data, nstep=self.decimation)
        self.t += 1
        self.policy_steps += self.n
        self.physics_steps += self.n * self.decimation
        fell = np.array([self._fallen(data) for data in self.datas])
        timed_out = self.t >= self.max_steps
        for i in np.flatnonzero(fell | timed_out):
            self.reset_fn(self.m, self.datas[i], self.rng)
            self.t[i] = 0
            self.episodes += 1
        return self._observe(), fell, timed_out

    def _fallen(self, data: mujoco.MjData) -> bool:
        roll, pitch = roll_pitch(data.qpos[3:7])
        height = float(data.qpos[2])
        return abs(roll) > self.max_roll or abs(pitch) > self.max_pitch or height < self.min_height

    def _observe(self) -> np.ndarray:
        """Return height 1, projected gravity 3, base velocity 6, joint angles 12, joint speeds 12 [n, 34]."""
        rows = []
        for data in self.datas:
            height, gravity = data.qpos[2:3], projected_gravity(data.qpos[3:7])
            rows.append(np.concatenate([height, gravity, data.qvel[:6], data.qpos[7:], data.qvel[6:]]))
        return np.array(rows)


def rotation_matrix(quat: np.ndarray) -> np.ndarray:
    """Return the rotation [3, 3] of a unit quaternion (w, x, y, z): columns are body axes in the world."""
    w, x, y, z = quat
    return np.array(
        [
            [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
        ]
    )


def projected_gravity(quat: np.ndarray) -> np.ndarray:
    """Return gravity's direction in the base frame, R^T (0, 0, -1) [3], for a quaternion (w, x, y, z)."""
    down = np.array([0.0, 0.0, -1.0])
    return np.asarray(rotation_matrix(quat).T @ down)


def roll_pitch(quat: np.ndarray) -> tuple[float, float]:
    """Return roll and pitch of the base in rad, from R = Rz(yaw) Ry(pitch) Rx(roll)."""
    rotation = rotation_matrix(quat)
    roll = np.arctan2(rotation[2, 1], rotation[2, 2])
    return float(roll), float(np.arcsin(np.clip(-rotation[2, 0], -1.0, 1.0)))


def samples_per_update(n_envs: int, steps_per_env: int) -> int:
    """Return the transitions of one on-policy update, to which every robot contributes ``steps_per_env``."""
    return n_envs * steps_per_env
