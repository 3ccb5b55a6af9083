"""Commands: their distribution, and steering towards a heading."""

import math

import numpy as np
import pytest

from envs.go2.mdp import commands
from rigs.go2_tasks import task


def test_steering_wraps_around():
    config = task("go2_unitree").commands
    heading, yaw = np.array([3.0, -3.0, 0.2], np.float32), np.array([-3.0, 3.0, 0.0], np.float32)
    gap = 2 * math.pi - 6.0  # rad, the short way from -3 to 3
    np.testing.assert_allclose(commands.steer(heading, yaw, config), [-gap / 2, gap / 2, 0.1], atol=1e-6)
    np.testing.assert_allclose(commands.steer(np.array([2.5]), np.zeros(1), config), [1.0])


def test_drawn_commands_of_the_default_task():
    config = task("go2").commands
    drawn, _ = commands.draw(np.random.default_rng(0), 20_000, config)
    np.testing.assert_allclose((drawn != 0).mean(axis=0), [0.9, 0.4, 0.6], atol=0.02)
    np.testing.assert_allclose(np.abs(drawn).max(axis=0), [1.0, 0.6, 1.0], atol=0.01)
    waits = commands.draw_wait(np.random.default_rng(0), 20_000, config, 0.02)
    assert waits.min() >= 1 and waits.mean() * 0.02 == pytest.approx(5.0, rel=0.03)
