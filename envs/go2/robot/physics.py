"""The variants of physics in which one Go2 can be simulated, and the check for robots that diverge.

* ``menagerie``: that of the published model, for evaluation; nothing is trained in it.
* ``unitree``: 5 ms steps, every collision geometry, no self-collisions; for unitree_rl_gym's task, which ends
  episodes on base contact and penalises thigh and calf contact.
* ``fast``: 5 ms steps, and nothing but the feet touches the floor; several times faster on a CPU.
"""

from dataclasses import dataclass

import mujoco
import numpy as np

from envs.arrays import Array, namespace
from envs.config import EnvConfig

# Largest possible norm of all 18 velocities, m/s and rad/s: a calf that swings through its whole range at
# full torque reaches about 110 rad/s.
MAX_SPEED = 1000.0
HEIGHTS = (-1.0, 5.0)  # m, possible heights of the base


@dataclass(frozen=True)
class Physics:
    """One variant of the physics.

    Attributes:
        timestep: Seconds per physics step.
        cone: Friction cone.
        impratio: Ratio of frictional to normal constraint impedance.
        solver, iterations: Constraint solver and its maximum number of iterations.
        integrator: Time integrator.
        damping: Joint damping, N m s/rad.
        frictionloss: Dry joint friction, N m.
        calf_torque: Torque limit of the calf joints, N m (hips and thighs: 23.7).
        feet_only: Whether nothing but the feet touches the floor.
        self_collision: Whether the robot's links collide with one another.
    """

    timestep: float
    cone: mujoco.mjtCone
    impratio: float
    solver: mujoco.mjtSolver
    iterations: int
    integrator: mujoco.mjtIntegrator
    damping: float
    frictionloss: float
    calf_torque: float
    feet_only: bool
    self_collision: bool


PHYSICS = {
    "menagerie": Physics(
        timestep=0.002,
        cone=mujoco.mjtCone.mjCONE_ELLIPTIC,
        impratio=100.0,
        solver=mujoco.mjtSolver.mjSOL_NEWTON,
        iterations=100,
        integrator=mujoco.mjtIntegrator.mjINT_EULER,
        damping=2.0,
        frictionloss=0.2,
        calf_torque=45.43,
        feet_only=False,
        self_collision=True,
    ),
    "unitree": Physics(
        timestep=0.005,
        cone=mujoco.mjtCone.mjCONE_PYRAMIDAL,
        impratio=1.0,
        solver=mujoco.mjtSolver.mjSOL_NEWTON,
        iterations=100,
        integrator=mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
        damping=0.0,
        frictionloss=0.0,
        calf_torque=35.55,  # unitree_rl_gym's URDF
        feet_only=False,
        self_collision=False,
    ),
    "fast": Physics(
        timestep=0.005,
        cone=mujoco.mjtCone.mjCONE_PYRAMIDAL,
        impratio=1.0,
        solver=mujoco.mjtSolver.mjSOL_PGS,
        iterations=10,
        integrator=mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
        damping=0.0,
        frictionloss=0.0,
        calf_torque=45.43,
        feet_only=True,
        self_collision=False,
    ),
}


def torque_limits(physics: str) -> np.ndarray:
    """Return the torque limits of the twelve joints [12], N m."""
    return np.tile([23.7, 23.7, PHYSICS[physics].calf_torque], 4)


def check_contacts(config: EnvConfig) -> None:
    """Check that the physics has every contact that the task counts.

    Raises:
        ValueError: If it does not; one line.
    """
    counts_links = config.terminations.base_contact is not None or "collision" in config.rewards.weights
    if counts_links and PHYSICS[config.physics.variant].feet_only:
        allowed = "unitree or menagerie where base contact or collisions count"
        raise ValueError(f"env.physics.variant={config.physics.variant!r}: must be {allowed}")


def has_diverged(positions: Array, velocities: Array, sensors: Array, torque: Array) -> Array:
    """Find robots whose physics blew up: impossible speeds or heights, or numbers that are not finite.

    Args:
        positions: Positions [B, 19].
        velocities: Velocities [B, 18].
        sensors: Sensor readings [B, nsensordata].
        torque: Joint torques [B, 12], N m.

    Returns:
        The robots that diverged [B] bool.
    """
    xp, height = namespace(positions), positions[:, 2]
    speed = xp.sqrt(xp.einsum("bi,bi->b", velocities, velocities))
    sums = [xp.einsum("bi->b", numbers) for numbers in (positions, sensors, torque)]
    # Asked this way round, because every comparison with a NaN is false.
    possible = (speed < MAX_SPEED) & (height > HEIGHTS[0]) & (height < HEIGHTS[1])
    return ~(possible & xp.isfinite(sums[0] + sums[1] + sums[2]))
