"""Domain randomisation: model fields and delays, drawn once per robot; every draw is off at null.

* friction: sliding friction of all robot geometry against the floor (unitree_rl_gym: U(0.5, 1.25)).
* base mass: added to the base, its inertia scaled alike; base centre of mass: moved per axis.
* gains: factors on kp and kd of the whole robot.
* joint damping: of all joints of the robot, in place of the physics variant's.
* action delay: targets arrive late by a whole number of physics steps.
"""

from typing import Protocol

import mujoco
import numpy as np

from envs.config import RandomizationConfig
from envs.go2.arrays import Array, Random, namespace

Fields = dict[str, Array]


class Batch(Protocol):
    """What has robots with model fields of their own: ``mjbatch.Batch``, or the same on a device."""

    @property
    def num_sims(self) -> int:
        """How many robots."""

    def expand(self, name: str) -> Array:
        """A live model field [B, ...] that may differ between the robots from now on."""

    def set_const(self) -> None:
        """Recomputes what MuJoCo derives from masses."""


def randomize_model(batch: Batch, model: mujoco.MjModel, config: RandomizationConfig, rng: Random) -> Fields:
    """Draws every robot's own model fields and writes them into the batch.

    Returns:
        The live per-robot fields [B, ...] by their name in ``mjModel``.
    """
    n, base = batch.num_sims, model.body("base").id
    fields: Fields = {}
    if config.friction is not None:
        fields["geom_friction"] = batch.expand("geom_friction")
        robot = np.flatnonzero(model.geom_bodyid > 0).tolist()
        fields["geom_friction"][:, robot, 0] = rng.uniform(*config.friction, (n, 1))
    if config.base_mass is not None:
        added = rng.uniform(*config.base_mass, (n, 1))
        fields |= {"body_mass": batch.expand("body_mass"), "body_inertia": batch.expand("body_inertia")}
        fields["body_mass"][:, base] += added[:, 0]
        fields["body_inertia"][:, base] *= 1 + added / model.body_mass[base]
    if config.base_com is not None:
        fields["body_ipos"] = batch.expand("body_ipos")
        fields["body_ipos"][:, base] += rng.uniform(-config.base_com, config.base_com, (n, 3))
    if config.gain_scale is not None:
        fields["actuator_gainprm"] = batch.expand("actuator_gainprm")
        fields["actuator_biasprm"] = batch.expand("actuator_biasprm")
        kp_scale, kd_scale = rng.uniform(*config.gain_scale, (2, n, 1))
        fields["actuator_gainprm"][:, :, 0] *= kp_scale
        fields["actuator_biasprm"][:, :, 1] *= kp_scale
        fields["actuator_biasprm"][:, :, 2] *= kd_scale
    if config.joint_damping is not None:
        fields["dof_damping"] = batch.expand("dof_damping")
        fields["dof_damping"][:, 6:] = rng.uniform(*config.joint_damping, (n, 1))
    update_constants(batch, fields)
    return fields


def update_constants(batch: Batch, fields: Fields) -> None:
    """Recomputes what MuJoCo derives from masses, where these are per robot."""
    if "body_mass" in fields or "body_ipos" in fields:
        batch.set_const()


def draw_delay(config: RandomizationConfig, n: int, timestep: float, rng: Random) -> Array | int:
    """Physics steps of ``timestep`` s by which every robot's targets arrive late [n] int32; 0 for none."""
    if config.action_delay is None:
        return 0
    delays = (rng.uniform(*config.action_delay, n) / timestep).round()
    xp = namespace(delays)
    return xp.asarray(delays, dtype=xp.int32)


def push(rng: Random, n: int, config: RandomizationConfig) -> Array:
    """World xy velocities [n, 2] that pushed robots take on, m/s."""
    return rng.uniform(-config.push_velocity, config.push_velocity, (n, 2))
