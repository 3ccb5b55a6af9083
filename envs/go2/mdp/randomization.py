"""Domain randomisation: model fields and delays, drawn once per robot. Null switches a draw off.

* friction: sliding friction of all robot geometry against the floor (unitree_rl_gym: U(0.5, 1.25)).
* base mass: added to the base, and its inertia scaled in proportion; base centre of mass: moved per axis.
* gains: factors on kp and kd, the same for all joints of a robot.
* joint damping: of all joints of a robot, instead of that of the physics variant.
* action delay: joint targets arrive late by a whole number of physics steps.
* pushes: sudden changes of the base's velocity during an episode.
"""

from typing import Protocol

import mujoco
import numpy as np

from envs.arrays import Array, Array_co, Random, namespace
from envs.config import RandomizationConfig


class PerRobotModel(Protocol[Array_co]):
    """B robots whose model fields may differ.

    Attributes:
        num_sims: B.
    """

    num_sims: int

    def expand(self, name: str) -> Array_co:
        """Return a live model field [B, ...] that may differ between the robots from now on."""

    def set_const(self) -> None:
        """Recompute the constants that MuJoCo derives from masses."""


def randomize_model(
    robots: PerRobotModel[Array], model: mujoco.MjModel, config: RandomizationConfig, rng: Random[Array]
) -> dict[str, Array]:
    """Draw every robot's own model fields and write them.

    Args:
        robots: The robots.
        model: The model that they all start from.
        config: The ranges.
        rng: The source of the draws.

    Returns:
        The live per-robot fields [B, ...] by their name in ``mjModel``.
    """
    n, base = robots.num_sims, model.body("base").id
    fields: dict[str, Array] = {}
    if config.friction is not None:
        fields["geom_friction"] = robots.expand("geom_friction")
        robot = np.flatnonzero(model.geom_bodyid > 0).tolist()
        fields["geom_friction"][:, robot, 0] = rng.uniform(*config.friction, (n, 1))
    if config.base_mass is not None:
        added = rng.uniform(*config.base_mass, (n, 1))
        fields |= {"body_mass": robots.expand("body_mass"), "body_inertia": robots.expand("body_inertia")}
        fields["body_mass"][:, base] += added[:, 0]
        fields["body_inertia"][:, base] *= 1 + added / model.body_mass[base]
    if config.base_com is not None:
        fields["body_ipos"] = robots.expand("body_ipos")
        fields["body_ipos"][:, base] += rng.uniform(-config.base_com, config.base_com, (n, 3))
    if config.gain_scale is not None:
        fields["actuator_gainprm"] = robots.expand("actuator_gainprm")
        fields["actuator_biasprm"] = robots.expand("actuator_biasprm")
        kp_scale, kd_scale = rng.uniform(*config.gain_scale, (2, n, 1))
        fields["actuator_gainprm"][:, :, 0] *= kp_scale
        fields["actuator_biasprm"][:, :, 1] *= kp_scale
        fields["actuator_biasprm"][:, :, 2] *= kd_scale
    if config.joint_damping is not None:
        fields["dof_damping"] = robots.expand("dof_damping")
        fields["dof_damping"][:, 6:] = rng.uniform(*config.joint_damping, (n, 1))
    update_constants(robots, fields)
    return fields


def update_constants(robots: PerRobotModel[Array], fields: dict[str, Array]) -> None:
    """Recompute the constants that MuJoCo derives from masses, where these differ between the robots."""
    if "body_mass" in fields or "body_ipos" in fields:
        robots.set_const()


def draw_delay(config: RandomizationConfig, n: int, timestep: float, rng: Random[Array]) -> Array | int:
    """Draw every robot's delay.

    Returns:
        Physics steps of ``timestep`` s by which its targets arrive late [n] int32; 0 if the draw is off.
    """
    if config.action_delay is None:
        return 0
    delays = (rng.uniform(*config.action_delay, n) / timestep).round()
    xp = namespace(delays)
    return xp.asarray(delays, dtype=xp.int32)


def draw_push(rng: Random[Array], n: int, config: RandomizationConfig) -> Array:
    """Draw the world xy velocities [n, 2] that pushed robots take on, m/s."""
    return rng.uniform(-config.push_velocity, config.push_velocity, (n, 2))
