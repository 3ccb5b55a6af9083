"""Section A: a robot stands for 2 s; its contacts with the floor must carry its weight."""

from typing import Any

import mujoco
import numpy as np
from rich.console import Console
from rich.table import Table

from envs.config import EnvConfig
from envs.go2.robot.mjcf import build_task_model
from envs.lab.common import Lab, simulations, standing_robot


def measure(lab: Lab) -> list[dict[str, Any]]:
    """Return height and contacts of a standing robot, per simulation."""
    return [{"simulation": name} | stand(config) for name, config in simulations(lab.config).items()]


def stand(config: EnvConfig) -> dict[str, Any]:
    """Let a robot stand for 2 s from the keyframe; return base height (m), contacts and forces (N)."""
    m = build_task_model(config)
    d = standing_robot(m)
    mujoco.mj_forward(m, d)
    force = np.zeros(6)
    forces: dict[str, float] = {}
    for i in range(d.ncon):
        mujoco.mj_contactForce(m, d, i, force)
        names = [m.geom(geom).name or m.body(m.geom_bodyid[geom]).name for geom in d.contact[i].geom]
        name = next(name for name in names if name != "floor").removesuffix("_foot")
        forces[name] = forces.get(name, 0.0) + float(force[0])
    weight = float(m.body_mass.sum() * -m.opt.gravity[2])
    total = sum(forces.values())
    height = float(d.qpos[2])
    return {"height": height, "normal_forces": forces, "total_force": total, "weight": weight}


def show(console: Console, result: list[dict[str, Any]]) -> None:
    """Print the section."""
    table = Table("simulation", box=None, pad_edge=False)
    for title in ("height cm", "touching", "normal forces N", "sum N", "m g N"):
        table.add_column(title, justify="right")
    for row in result:
        forces = row["normal_forces"]
        table.add_row(
            row["simulation"],
            f"{100 * row['height']:.1f}",
            " ".join(forces),
            " ".join(f"{force:.1f}" for force in forces.values()),
            f"{row['total_force']:.1f}",
            f"{row['weight']:.1f}",
        )
    console.print(table)
