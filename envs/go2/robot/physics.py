"""The physics that one Go2 can live in.

* ``menagerie``: the published model's, for evaluation; nothing is trained in it.
* ``unitree``: 5 ms steps, every collision geometry, no self-collisions; for unitree_rl_gym's task, which ends
  episodes on base contact and charges thigh and calf contact.
* ``fast``: 5 ms steps and nothing but the feet touches the floor; several times quicker on a CPU.
"""

from dataclasses import dataclass

import mujoco
import numpy as np


@dataclass(frozen=True)
class Physics:
    """What differs between the simulations of one robot.

    Attributes:
        timestep: Seconds per physics step.
        cone: Friction cone.
        impratio: Ratio of frictional to normal constraint impedance.
        solver, iterations: Constraint solver and its greatest number of iterations.
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
    """Torque limits of the twelve joints [12], N m."""
    return np.tile([23.7, 23.7, PHYSICS[physics].calf_torque], 4)
