"""Presets of the Go2 task as tests use them, and contact forces straight from MuJoCo's contacts."""

from typing import Any

import mujoco
import numpy as np
import yaml

from envs import EnvConfig
from envs.config import PRESETS
from envs.go2.robot import constants


def preset(name: str) -> dict[str, Any]:
    """Return the preset as nested plain dictionaries."""
    values: dict[str, Any] = yaml.safe_load((PRESETS / f"{name}.yaml").read_text())
    return values


def task(name: str, **changes: Any) -> EnvConfig:
    """Return the preset in fine steps and without joint damping, changed by ``section__key=value``."""
    values = preset(name)
    values["physics"] |= {"timestep": 0.005, "decimation": 4}
    values["randomization"]["joint_damping"] = None
    for path, value in changes.items():
        section, key = path.split("__")
        values[section][key] = value
    return EnvConfig.from_dict(values)


RANDOMISED = dict(
    randomization__base_mass=[-1.0, 2.0],
    randomization__base_com=0.03,
    randomization__gain_scale=[0.8, 1.2],
    randomization__joint_damping=[0.5, 1.5],
)  # beside friction, which the preset randomises


def randomised(saved: dict[str, np.ndarray], m: mujoco.MjModel) -> list[tuple[np.ndarray, float, float]]:
    """Return quantities `[B]` in the saved state of a task with RANDOMISED, each with its allowed range."""
    base = m.body("base").id
    return [
        (saved["model.geom_friction"][:, 1, 0], 0.4, 1.0),
        (saved["model.body_mass"][:, base] - m.body_mass[base], -1.0, 2.0),
        (saved["model.body_ipos"][:, base, 1] - m.body_ipos[base, 1], -0.03, 0.03),
        (saved["model.actuator_gainprm"][:, 0, 0] / 35.0, 0.8, 1.2),
        (saved["model.actuator_biasprm"][:, 0, 2] / -0.5, 0.8, 1.2),
        (saved["model.dof_damping"][:, 6], 0.5, 1.5),
    ]


def net_forces(m: mujoco.MjModel, d: mujoco.MjData) -> np.ndarray:
    """Return the forces (N, world frame) on the feet, the base, the thighs and the calves `[13, 3]`."""
    names = [f"{leg}_foot" for leg in constants.LEGS] + ["base"]
    names += [f"{leg}_{link}" for link in ("thigh", "calf") for leg in constants.LEGS]
    net, local = np.zeros((13, 3)), np.zeros(6)
    for i in range(d.ncon):
        mujoco.mj_contactForce(m, d, i, local)
        force = d.contact[i].frame.reshape(3, 3).T @ local[:3]  # on the second geom
        for geom, sign in zip(d.contact[i].geom, (-1, 1), strict=True):
            name = m.geom(geom).name or m.body(m.geom_bodyid[geom]).name
            if name in names:
                net[names.index(name)] += sign * force
    return net
