"""Section B: 500 physics steps of every engine, from the same start with the same controls."""

from dataclasses import replace
from typing import Any

import mujoco
import numpy as np
from rich.console import Console
from rich.table import Table

from envs.config import EnvConfig, TerminationConfig
from envs.go2.robot.mjcf import build_task_model
from envs.lab.common import Lab, Work, columns, endless, joint_targets, keyframe, simulations, state
from envs.lab.engines import ENGINES, PythonLoop

ROBOTS, PHYSICS_STEPS = 8, 500
SPREAD = 0.5  # standard deviation of the actions: random targets that make the robots stumble
NEVER = TerminationConfig(min_upright=None, max_roll=None, max_pitch=None, base_contact=None)


def measure(lab: Lab) -> list[dict[str, Any]]:
    """Return the largest differences from a Python loop of ``mj_step``, per simulation and engine."""
    results = []
    for name, config in simulations(lab.config).items():
        lab.progress(f"same physics, {name}")
        results.append({"simulation": name, "differences": compare(config)})
    return results


def compare(config: EnvConfig) -> dict[str, float]:
    """Return the largest difference of any position or velocity by engine, in m, rad, m/s or rad/s."""
    config = replace(endless(config), terminations=NEVER)  # no resets: the other engines have none
    m, rng = build_task_model(config), np.random.default_rng(0)
    start = np.tile(state(m, keyframe(m)), (ROBOTS, 1))
    start[:, columns(m, mujoco.mjtState.mjSTATE_QPOS)[7:]] += rng.uniform(
        -0.1, 0.1, (ROBOTS, 12)
    )  # joints, rad
    steps = PHYSICS_STEPS // config.physics.decimation
    actions = (SPREAD * rng.normal(size=(steps, ROBOTS, 12))).astype(np.float32)
    work = Work(start[None], actions, joint_targets(config, actions))
    expected = PythonLoop(config, ROBOTS).end(start, work)
    return {
        name: float(np.abs(engine(config, ROBOTS, 2).end(start, work) - expected).max())
        for name, engine in ENGINES.items()
    }


def show(console: Console, result: list[dict[str, Any]]) -> None:
    """Print the section."""
    table = Table("simulation", box=None, pad_edge=False)
    for name in result[0]["differences"]:
        table.add_column(name, justify="right")
    for row in result:
        table.add_row(row["simulation"], *(f"{x:.1e}" for x in row["differences"].values()))
    console.print(table)
    if any(x != 0.0 for row in result for x in row["differences"].values()):
        console.print(
            "not 0: the engine was built with other floating-point instructions, or computes in "
            "single precision; trajectories diverge exponentially after the first rounding error"
        )
