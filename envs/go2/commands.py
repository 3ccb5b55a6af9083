"""Velocity commands: how they are drawn, when the next one comes, and how a heading steers the yaw rate."""

import numpy as np

from envs.config import CommandConfig


def draw(rng: np.random.Generator, n: int, config: CommandConfig) -> tuple[np.ndarray, np.ndarray]:
    """Draws ``n`` commands.

    Returns:
        Commands [n, 3] float32 (vx m/s, vy m/s, yaw rate rad/s) and headings [n] float32, rad.
    """
    low, high = np.array([config.vx, config.vy, config.yaw_rate]).T
    commands = rng.uniform(low, high, (n, 3))
    commands *= rng.random((n, 3)) < np.array(config.on_probability)
    commands *= rng.random((n, 1)) >= config.stand_probability
    commands[:, :2] *= np.hypot(commands[:, :1], commands[:, 1:2]) > config.min_speed
    return commands.astype(np.float32), rng.uniform(*config.heading_range, n).astype(np.float32)


def draw_wait(rng: np.random.Generator, n: int, config: CommandConfig, dt: float) -> np.ndarray:
    """Policy steps of ``dt`` s until the next command [n] int32, at least 1."""
    waits = np.full(n, config.resample_time)
    if config.resample == "exponential":
        waits = rng.exponential(config.resample_time, n)
    return np.maximum(np.round(waits / dt), 1).astype(np.int32)


def steer(heading: np.ndarray, yaw: np.ndarray, config: CommandConfig) -> np.ndarray:
    """Yaw rate towards a heading [B], rad/s: clip(gain * wrapped error, yaw-rate range)."""
    error = np.mod(heading - yaw + np.pi, 2 * np.pi) - np.pi
    return np.clip(config.heading_gain * error, *config.yaw_rate)
