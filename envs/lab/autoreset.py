"""Section F: kicked robots fall and are reset in the same step; others reach their time-out.

16 robots stand in the lesson's simulation, 8 ms per policy step, and are kicked every 25 steps: roll and
pitch rates jump to random values of up to 18 rad/s. Episodes last at most 150 steps; the run takes 300.
"""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
from rich.console import Console

from envs.config import TerminationConfig
from envs.go2.mjbatch.batch import Go2Batch
from envs.go2.robot.constants import KEYFRAME_HEIGHT
from envs.lab.common import Lab, simulations

ROBOTS, STEPS, LENGTH = 16, 300, 150  # robots, policy steps, policy steps until the time-out
KICK, KICK_INTERVAL = 18.0, 25  # rad/s, policy steps
FALLS = TerminationConfig(min_upright=None, max_roll=0.8, max_pitch=1.0, base_contact=None)  # rad
ROLL_PITCH = slice(1 + 19 + 3, 1 + 19 + 5)  # of roll and pitch rates in an integration state


def measure(lab: Lab) -> dict[str, Any]:
    """Return the counters, and the base heights at which ended episodes restarted."""
    config = simulations(lab.config)["lesson"]
    config = replace(
        config,
        episode=replace(config.episode, length=LENGTH * config.control_dt, stagger=False),
        resets=replace(
            config.resets, joint_scale=(1.0, 1.0), joint_noise=0.0, height=KEYFRAME_HEIGHT, base_velocity=0.0
        ),
        terminations=FALLS,
    )
    batch, rng = Go2Batch(config, ROBOTS, seed=0), np.random.default_rng(0)
    heights: list[float] = []
    first_fall = None
    for step in range(STEPS):
        if step % KICK_INTERVAL == 0:
            saved = batch.state_dict()
            saved["rows"][:, ROLL_PITCH] = rng.uniform(-KICK, KICK, (ROBOTS, 2))
            batch.load_state_dict(saved)
        result = batch.step(np.zeros((ROBOTS, 12), np.float32))
        ended = result.terminated | result.truncated
        heights += batch.state.qpos[ended, 2].tolist()
        if first_fall is None and result.terminated.any():
            first_fall = step + 1
    return {
        "counters": asdict(batch.counters),
        "first_fall": first_fall,
        "lowest_restart": min(heights),
        "highest_restart": max(heights),
        "ages": batch.state_dict()["record_steps"].tolist(),
    }


def show(console: Console, result: dict[str, Any]) -> None:
    """Print the section."""
    counters = result["counters"]
    console.print(
        f"{counters['policy_steps']:,} policy and {counters['physics_steps']:,} physics steps, "
        f"{counters['simulated_seconds']:.1f} robot-seconds: {counters['falls']} falls, "
        f"{counters['timeouts']} time-outs; first fall after {result['first_fall']} steps"
    )
    low, high = 100 * result["lowest_restart"], 100 * result["highest_restart"]
    console.print(f"every episode that ended restarted in the same step, base at {low:.1f} to {high:.1f} cm")
    console.print(f"policy steps since the reset, per robot: {' '.join(map(str, result['ages']))}")
