"""Section D: how much more a step costs while robots land, stumble or fall than while they stand.

512 robots take 25 physics steps under constant targets, from one of three starts:

* settled: the stance after 2 s of standing, with small joint velocities;
* released: the keyframe pose with the joints off by up to 0.1 rad, so that their feet find the floor;
* training: states that robots with random targets visit, falls and resets included.
"""

from typing import Any

import mujoco
import numpy as np
from mjbatch import Batch
from rich.console import Console
from rich.table import Table

from envs.config import EnvConfig
from envs.go2.robot.mjcf import build_task_model
from envs.lab.common import (
    TRAINING_TARGETS,
    TRAINING_WARMUP,
    Lab,
    clocks,
    collect,
    columns,
    keyframe,
    simulations,
    standing_robot,
    state,
)
from envs.machine import cores

ROBOTS, PHYSICS_STEPS = 512, 25
ROUNDS = 5
JOINT_SPEED = 0.05  # rad/s, half-width of the settled robots' uniform joint velocities
JOINT_OFFSET = 0.1  # rad, half-width of the released robots' uniform joint offsets


def measure(lab: Lab) -> list[dict[str, Any]]:
    """Return steps per second, solver iterations per step and contacts, per simulation and start."""
    robots = 8 if lab.quick else ROBOTS
    rows = []
    for name, config in simulations(lab.config).items():
        m = build_task_model(config)
        for start, states, targets in starts(config, m, robots):
            lab.progress(f"disturbance, {name}, {start}")
            row: dict[str, Any] = {"simulation": name, "start": start}
            row["per_second"] = None if lab.quick else steps_per_second(m, states, targets)
            rows.append(row | solver_work(m, states, targets))
    return rows


def starts(config: EnvConfig, m: mujoco.MjModel, n: int) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return name, integration states [N, nstate] and joint targets [N, 12] of the three starts."""
    rng = np.random.default_rng(0)
    settled, released = np.tile(state(m, standing_robot(m)), (n, 1)), np.tile(state(m, keyframe(m)), (n, 1))
    joints, speeds = (
        columns(m, mujoco.mjtState.mjSTATE_QPOS)[7:],
        columns(m, mujoco.mjtState.mjSTATE_QVEL)[6:],
    )
    settled[:, speeds] = rng.uniform(-JOINT_SPEED, JOINT_SPEED, (n, m.nu))
    released[:, joints] += rng.uniform(-JOINT_OFFSET, JOINT_OFFSET, (n, m.nu))
    still = np.tile(m.key_ctrl[0], (n, 1))
    warmup = round(TRAINING_WARMUP / config.control_dt)
    visited = collect(config, TRAINING_TARGETS, warmup, robots=n // 8, steps=8)
    training = visited.states.reshape(n, -1), visited.targets.reshape(n, -1)
    return [("settled", settled, still), ("released", released, still), ("training", *training)]


def steps_per_second(m: mujoco.MjModel, states: np.ndarray, targets: np.ndarray) -> float:
    """Measure physics steps per second on all cores; the best of five rounds."""
    batch = Batch(m, len(states), num_threads=cores())
    rows, controls, best = batch.bind("state"), batch.bind("ctrl"), 0.0
    for _ in range(ROUNDS):
        rows[:] = states
        controls[:] = targets
        began = clocks()
        batch.step(nstep=PHYSICS_STEPS)
        best = max(best, len(states) * PHYSICS_STEPS / float((clocks() - began)[0]))
    return best


def solver_work(m: mujoco.MjModel, states: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Return means over all steps: iterations of the constraint solver, contacts."""
    data, iterations, contacts = mujoco.MjData(m), 0, 0
    for start, target in zip(states, targets, strict=True):
        mujoco.mj_setState(m, data, start, mujoco.mjtState.mjSTATE_INTEGRATION)
        data.ctrl[:] = target
        for _ in range(PHYSICS_STEPS):
            mujoco.mj_step(m, data)
            iterations += int(data.solver_niter[: max(1, data.nisland)].sum())
            contacts += data.ncon
    steps = len(states) * PHYSICS_STEPS
    return {"solver_iterations": iterations / steps, "contacts": contacts / steps}


def show(console: Console, result: list[dict[str, Any]]) -> None:
    """Print the section."""
    table = Table("simulation", "start", box=None, pad_edge=False)
    for title in ("steps/s", "solver iterations", "contacts"):
        table.add_column(title, justify="right")
    for row in result:
        speed = "-" if row["per_second"] is None else f"{row['per_second']:,.0f}"
        work = f"{row['solver_iterations']:.1f}", f"{row['contacts']:.1f}"
        table.add_row(row["simulation"], row["start"], speed, *work)
    console.print(table)
