"""Several robots that a trained policy drives, shown together on one stage."""

from __future__ import annotations

import mujoco
import numpy as np

from agent.policies.evaluation import evaluation_task
from agent.policies.loading import Controller, LoadedPolicy
from envs import make_pool
from envs.go2.robot import menagerie, visual

FOREVER = 1e6  # s, an episode that ends by falls alone


class Scene:
    """Robots that are simulated apart, without touching one another, and shown in one model.

    Attributes:
        robots: How many they are.
        model, data: The stage, posed as the robots stand.
        velocity: Measured vx, vy (m/s) and yaw rate (rad/s) of every robot [B, 3], base frame.
        dt: Seconds per step.
    """

    def __init__(
        self, policy: LoadedPolicy, robots: int, physics: str, seed: int, spacing: float, meshes: bool = True
    ) -> None:
        """Put the robots in their places, `spacing` m apart.

        Args:
            policy: The policy that drives them.
            robots: How many.
            physics: "train" or "menagerie".
            seed: Of the robots.
            spacing: m between their places.
            meshes: Show them as Menagerie's Go2 where its files are installed.
        """
        env = evaluation_task(policy.env, physics, episode=FOREVER)
        self.robots, self.dt = robots, env.control_dt
        self.pool = make_pool(env, robots, 1, seed)
        self.controller = Controller(policy.policy, robots)
        self.model = visual.stage(robots, menagerie.load() if meshes else None)
        self.data = mujoco.MjData(self.model)
        self.velocity = np.zeros((robots, 3), np.float32)
        self._places, self._is_first = visual.grid(robots, spacing), np.ones(robots, bool)
        self.pool.reset(0)
        self._pose()

    def step(self, commands: np.ndarray) -> None:
        """Take one policy step with commands [B, 3] or [3]: vx m/s, vy m/s, yaw rate rad/s."""
        obs = self.pool.set_commands(0, commands)
        result = self.pool.step(0, self.controller.act(obs, self._is_first)).result()
        self._is_first = result.terminated | result.truncated
        state = self.pool.state(0)
        self.velocity[:, :2], self.velocity[:, 2] = state.base_lin_vel[:, :2], state.base_ang_vel[:, 2]
        self._pose()

    def _pose(self) -> None:
        poses = self.data.qpos.reshape(len(self._places), -1)
        poses[:] = self.pool.state(0).qpos
        poses[:, :2] += self._places
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)

    def middle(self) -> np.ndarray:
        """Return the mean of the robots' positions [3], m."""
        middle: np.ndarray = self.data.qpos.reshape(len(self._places), -1)[:, :3].mean(axis=0)
        return middle

    def close(self) -> None:
        """End the simulation."""
        self.pool.close()
