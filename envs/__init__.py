"""The Go2 task on MuJoCo: batches of robots with observations, rewards and resets, but no learning."""

import gymnasium

from envs.config import EnvConfig
from envs.pool import RobotPool, make_pool
from envs.results import Counters, StepResult

__all__ = ["Counters", "EnvConfig", "RobotPool", "StepResult", "make_pool"]

gymnasium.register(
    "herd/Go2-v0",
    entry_point="envs.gymnasium_env:Go2Env",
    vector_entry_point="envs.gymnasium_env:Go2VectorEnv",
)
