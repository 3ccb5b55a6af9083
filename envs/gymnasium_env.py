"""The Go2 task as a Gymnasium environment: one robot, or a vector of robots on one batch.

    import envs  # registers herd/Go2-v0; without it: gymnasium.make("envs:herd/Go2-v0")
    env = gymnasium.make("herd/Go2-v0", task="go2")
    vector = gymnasium.make_vec("herd/Go2-v0", num_envs=64, autoreset_mode="NextStep", num_threads=2)

Episodes begin at age 0, even if the task staggers them. A seed passed to ``reset`` determines everything
random, including the randomised models of the robots.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from envs.config import EnvConfig
from envs.go2.mjbatch.batch import Go2Batch
from envs.go2.robot.constants import JOINT_NAMES
from envs.results import StepResult


def _configure(task: str | EnvConfig) -> EnvConfig:
    """Return a task, given by a preset's name or a configuration, with episodes that begin at age 0."""
    config = EnvConfig.preset(task) if isinstance(task, str) else task
    return replace(config, episode=replace(config.episode, stagger=False))


def _spaces(config: EnvConfig, batch: Go2Batch, action_bound: float | None) -> tuple[Box, Box]:
    """Return observation and action space of one robot.

    Raises:
        ValueError: If the bound is not positive, or greater than what the task lets through.
    """
    clip = config.control.clip_actions
    bound = clip if action_bound is None else action_bound
    if not 0 < bound <= clip:
        raise ValueError(f"action_bound={action_bound}: must be greater than 0 and at most {clip:g}")
    observation = Box(-config.observations.clip, config.observations.clip, (batch.observer.dim,), np.float32)
    action = Box(-bound, bound, (len(JOINT_NAMES),), np.float32)
    return observation, action


def _checked(actions: Any, shape: tuple[int, ...], ignored: Any = False) -> np.ndarray:
    """Return actions as float32, with 0 in the `ignored` rows.

    Raises:
        ValueError: If they have another shape, or are not all finite.
    """
    array = np.asarray(actions)
    if array.shape != shape:
        raise ValueError(f"actions: of shape {array.shape}; must be of shape {shape}")
    with np.errstate(over="ignore"):  # to infinity, which is refused
        array = np.where(ignored, np.float32(0), array.astype(np.float32))
    if not np.isfinite(array).all():
        raise ValueError("actions: must be finite")
    return array


class Go2Env(gymnasium.Env[np.ndarray, np.ndarray]):
    """One robot; ``info`` holds tracking errors (m/s, rad/s) and whether the physics diverged (``bad``)."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, task: str | EnvConfig = "go2", action_bound: float | None = None):
        """Make the robot.

        Args:
            task: A preset of ``conf/env`` or a configuration.
            action_bound: Bound of the action space; None for the task's ``control.clip_actions``, which is
                far wider than a robot that walks needs. Algorithms that scale their actions to the space,
                such as SAC, need a bound such as 4. Actions beyond it are not clipped.

        Raises:
            ValueError: If there is no such preset, or the bound is not in (0, ``control.clip_actions``].
        """
        self._config = _configure(task)
        self._make_robot()
        self.observation_space, self.action_space = _spaces(self._config, self._batch, action_bound)

    def _make_robot(self) -> None:
        self._batch = Go2Batch(self._config, 1, self.np_random, num_threads=1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode, with a new robot if a seed is given; return the observation [D] and no info."""
        super().reset(seed=seed)
        if seed is not None:
            self._make_robot()
        return self._batch.reset()[0].copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Advance by one policy step; ``action`` is [12].

        The step that ends an episode returns its final observation.

        Raises:
            ValueError: If the action has another shape or is not finite.
        """
        result = self._batch.step(_checked(action, (len(JOINT_NAMES),))[None])
        terminated, truncated = bool(result.terminated[0]), bool(result.truncated[0])
        obs = result.final_obs[0] if terminated or truncated else result.obs[0]
        info = {
            "lin_vel_error": float(result.lin_vel_error[0]),
            "yaw_rate_error": float(result.yaw_rate_error[0]),
            "bad": bool(result.diverged[0]),
        }
        return obs.copy(), float(result.reward[0]), terminated, truncated, info


class Go2VectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """A batch of robots that behaves like Gymnasium's ``SyncVectorEnv`` of ``Go2Env``.

    The autoreset mode decides what the step that ends an episode returns, and when the next one begins:

    * ``NextStep``: the final observation; the next step resets, ignores the action and gives the reward 0.
    * ``SameStep``: the first observation of the next episode; the final one is in ``infos["final_obs"]``, its
      infos are in ``infos["final_info"]``.
    * ``Disabled``: the final observation; call ``reset(options={"reset_mask": ended})`` before the next step.
    """

    def __init__(
        self,
        num_envs: int,
        task: str | EnvConfig = "go2",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        num_threads: int = 0,
        action_bound: float | None = None,
    ):
        """Make the robots.

        Args:
            num_envs: Number of robots, N.
            task: A preset of ``conf/env`` or a configuration.
            autoreset_mode: ``NextStep`` (Gymnasium's default), ``SameStep`` or ``Disabled``.
            num_threads: Physics threads, 0 for one per logical CPU; results do not depend on it.
            action_bound: As for ``Go2Env``.

        Raises:
            ValueError: If there is no such preset or mode, or the bound is not in (0, clip_actions].
        """
        self._config, self._threads, self.num_envs = _configure(task), num_threads, num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self._make_robots()
        spaces = _spaces(self._config, self._batch, action_bound)
        self.single_observation_space, self.single_action_space = spaces
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._obs: np.ndarray = np.zeros_like(self._batch.result.obs)  # as last returned
        self._ended = np.zeros(num_envs, bool)  # rows whose episode ended in the last step

    def _make_robots(self) -> None:
        self._batch = Go2Batch(self._config, self.num_envs, self.np_random, self._threads)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start new episodes of all robots, or of those in ``options["reset_mask"]`` [N] bool.

        As in ``SyncVectorEnv``, a seed may be a sequence of N, ``s`` stands for ``[s, s + 1, ...]``, and None
        in a sequence for a number that depends on the seed before. All robots draw from one generator,
        though, so each of the seeds affects all of them.

        Returns:
            Observations [N, D] float32, unchanged for the other robots, and no infos.

        Raises:
            TypeError: If the mask is not an array of bool.
            ValueError: If it has another shape or selects no robot, or there are not N seeds.
        """
        if seed is not None and not isinstance(seed, int):
            seed = self._seed_with(list(seed))
        super().reset(seed=seed if isinstance(seed, int) else None)
        mask = (options or {}).get("reset_mask")
        if mask is not None:
            self._check_mask(mask)
            self._batch.rng = self.np_random
        elif seed is not None:
            self._make_robots()
        mask = np.ones(self.num_envs, bool) if mask is None else mask
        self._obs[mask] = self._batch.reset(mask)[mask]
        self._ended[mask] = False
        return self._obs.copy(), {}

    def _seed_with(self, seeds: list[int | None]) -> int | list[int] | None:
        """Seed the generator with all numbers; return the one seed that they amount to, if any."""
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed={seeds}: must be one seed for each of the {self.num_envs} robots")
        if all(seed is None for seed in seeds):
            return None
        numbers = [int(self.np_random.integers(2**31)) if seed is None else int(seed) for seed in seeds]
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return numbers[0]
        self.np_random = np.random.default_rng(numbers)
        return numbers

    def _check_mask(self, mask: Any) -> None:
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            raise TypeError(f"options['reset_mask']={mask!r}: must be a NumPy array of bool")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(f"options['reset_mask']={mask}: must have shape ({self.num_envs},) and a True")

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Advance every robot by one policy step; ``actions`` are [N, 12].

        Raises:
            RuntimeError: If autoreset is disabled and an episode that ended has not been reset.
            ValueError: If the actions have another shape, or those of a robot that steps are not finite.
        """
        restart = self._ended  # never set in SameStep mode
        if self.autoreset_mode is AutoresetMode.DISABLED and restart.any():
            over = np.flatnonzero(restart).tolist()
            raise RuntimeError(f"episodes {over} have ended: reset them with options={{'reset_mask': mask}}")
        result = self._batch.step(_checked(actions, (self.num_envs, len(JOINT_NAMES)), restart[:, None]))
        terminated, truncated = result.terminated & ~restart, result.truncated & ~restart
        ended = terminated | truncated
        reward = np.where(restart, 0.0, result.reward.astype(np.float64))
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            self._obs[:] = result.obs
            infos = _infos(result, ~ended)
            if ended.any():
                infos |= self._final_infos(result, ended)
        else:
            infos = _infos(result, ~restart)
            self._ended = ended
            self._obs[:] = np.where(ended[:, None], result.final_obs, result.obs)
            if restart.any():
                self._obs[restart] = self._batch.reset(restart)[restart]
        return self._obs.copy(), reward, terminated, truncated, infos

    def _final_infos(self, result: StepResult[np.ndarray], ended: np.ndarray) -> dict[str, Any]:
        """Return final observations and infos of the episodes that ended [N] bool."""
        final_obs = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(ended):
            final_obs[i] = result.final_obs[i].copy()
        final_info = _infos(result, ended)
        return {
            "final_obs": final_obs,
            "_final_obs": ended.copy(),
            "final_info": final_info,
            "_final_info": ended.copy(),
        }


def _infos(result: StepResult[np.ndarray], rows: np.ndarray) -> dict[str, Any]:
    """Return the infos of ``rows`` [N] bool, each key with the mask of its rows; empty without rows."""
    if not rows.any():
        return {}
    values = {
        "lin_vel_error": np.where(rows, result.lin_vel_error.astype(np.float64), 0.0),
        "yaw_rate_error": np.where(rows, result.yaw_rate_error.astype(np.float64), 0.0),
        "bad": rows & result.diverged,
    }
    return values | {f"_{key}": rows.copy() for key in values}
