"""Velocity commands: drawing them, the time until the next one, and steering towards a heading."""

import math

from envs.arrays import Array, Random, constant, namespace
from envs.config import CommandConfig


def draw(rng: Random[Array], n: int, config: CommandConfig) -> tuple[Array, Array]:
    """Draw ``n`` commands.

    Returns:
        Commands [n, 3] float32 (vx m/s, vy m/s, yaw rate rad/s) and headings [n] float32, rad.
    """
    low, high = zip(config.vx, config.vy, config.yaw_rate, strict=True)
    commands = rng.uniform(low, high, (n, 3))
    xp = namespace(commands)
    commands *= rng.random((n, 3)) < constant(config.on_probability, commands)
    commands *= rng.random((n, 1)) >= config.stand_probability
    commands[:, :2] *= xp.hypot(commands[:, :1], commands[:, 1:2]) > config.min_speed
    headings = rng.uniform(*config.heading_range, n)
    return xp.asarray(commands, dtype=xp.float32), xp.asarray(headings, dtype=xp.float32)


def draw_wait(rng: Random[Array], n: int, config: CommandConfig, dt: float) -> Array | int:
    """Draw the policy steps of ``dt`` s until the next command.

    Returns:
        Steps [n] int32, at least 1; a single number if all robots wait equally long.
    """
    if config.resample == "periodic":
        return max(round(config.resample_time / dt), 1)
    waits = (rng.exponential(config.resample_time, n) / dt).round().clip(1)
    xp = namespace(waits)
    return xp.asarray(waits, dtype=xp.int32)


def steer(heading: Array, yaw: Array, config: CommandConfig) -> Array:
    """Return the yaw rate towards a heading [B], rad/s: clip(gain * wrapped error, yaw-rate range)."""
    error = (heading - yaw + math.pi) % (2 * math.pi) - math.pi
    return (config.heading_gain * error).clip(*config.yaw_rate)
