"""The Go2 task for programs that speak Gymnasium: one robot, or a vector of them.

``Go2Env`` is a plain environment: the step that ends an episode returns its final observation.
``Go2VectorEnv`` resets robots in the same step (Gymnasium's ``AutoresetMode.SAME_STEP``): its observation is
the new episode's and ``infos["final_obs"]`` holds the final ones.
"""

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from envs.config import EnvConfig
from envs.go2.batch import Go2Batch
from envs.go2.model import JOINT_NAMES


def _spaces(config: EnvConfig, batch: Go2Batch) -> tuple[Box, Box]:
    """Observation and action space of one robot."""
    observation = Box(-config.observations.clip, config.observations.clip, (batch.observer.dim,), np.float32)
    action = Box(-config.control.clip_actions, config.control.clip_actions, (len(JOINT_NAMES),), np.float32)
    return observation, action


class Go2Env(gymnasium.Env[np.ndarray, np.ndarray]):
    """One robot; ``info`` has the tracking errors (m/s, rad/s) and whether the physics went bad."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, config: EnvConfig, seed: int = 0):
        """``seed`` draws the robot's own friction and whatever else the task randomises."""
        config = replace(config, episode=replace(config.episode, stagger=False))
        self._batch = Go2Batch(config, 1, seed, num_threads=1)
        self.observation_space, self.action_space = _spaces(config, self._batch)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode; returns the first observation [D] float32 and an empty info."""
        super().reset(seed=seed)
        if seed is not None:
            self._batch.rng = np.random.default_rng(seed)
        return self._batch.reset()[0].copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Advances by one policy step; ``action`` is [12]."""
        result = self._batch.step(np.asarray(action, np.float32)[None])
        terminated, truncated = bool(result.terminated[0]), bool(result.truncated[0])
        obs = result.final_obs[0] if terminated or truncated else result.obs[0]
        info = {
            "lin_vel_error": float(result.lin_vel_error[0]),
            "yaw_rate_error": float(result.yaw_rate_error[0]),
            "bad": bool(result.bad[0]),
        }
        return obs.copy(), float(result.reward[0]), terminated, truncated, info


class Go2VectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """A batch of robots that are reset in the same step."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, config: EnvConfig, num_envs: int, seed: int = 0, num_threads: int = 0):
        """``num_envs`` robots; ``seed`` draws what differs between them, ``num_threads`` 0 is every CPU."""
        self.num_envs = num_envs
        self._batch = Go2Batch(config, num_envs, seed, num_threads)
        self.single_observation_space, self.single_action_space = _spaces(config, self._batch)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts episodes everywhere; returns observations [N, D] float32 and an empty info."""
        if seed is not None:
            self._batch.rng = np.random.default_rng(seed)
        return self._batch.reset().copy(), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Advances every robot by one policy step; ``actions`` are [N, 12]."""
        result = self._batch.step(np.asarray(actions, np.float32))
        infos: dict[str, Any] = {}
        ended = result.terminated | result.truncated
        if ended.any():
            final = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(ended):
                final[i] = result.final_obs[i].copy()
            infos = {"final_obs": final, "_final_obs": ended}
        flags = result.terminated.copy(), result.truncated.copy()
        return result.obs.copy(), result.reward.copy(), *flags, infos
