"""MuJoCo models of the Unitree Go2, built with ``mujoco.MjSpec`` from one readable table.

The numbers are those of MuJoCo Menagerie's ``unitree_go2`` (BSD-3-Clause): lengths in m, masses in kg,
inertias in kg m^2, angles in rad, quaternions as (w, x, y, z).
"""

from collections.abc import Sequence

import mujoco
import numpy as np

from envs.config import BASE_MASS, EnvConfig
from envs.go2.robot.constants import (
    DEFAULT_JOINT_POS,
    FOOT_RADIUS,
    FOOT_X,
    HIP_X,
    HIP_Y,
    JOINT_NAMES,
    JOINT_RANGE,
    KEYFRAME_HEIGHT,
    LEGS,
    LINK,
    THIGH_Y,
)
from envs.go2.robot.physics import PHYSICS, Physics, torque_limits

DARK, GREY, LIGHT, BLACK = (
    (0.15, 0.15, 0.17, 1),
    (0.45, 0.46, 0.5, 1),
    (0.85, 0.86, 0.88, 1),
    (0.05, 0.05, 0.05, 1),
)


def build_model(
    physics: str, kp: float = 20.0, kd: float = 0.5, timestep: float | None = None
) -> mujoco.MjModel:
    """Build the Go2 on a flat floor; see ``make_spec``."""
    return make_spec(physics, kp, kd, timestep).compile()


def build_task_model(config: EnvConfig) -> mujoco.MjModel:
    """Build the Go2 on a flat floor with the physics and the PD gains of a task."""
    physics, control = config.physics, config.control
    return build_model(physics.variant, control.kp, control.kd, physics.timestep)


def make_spec(
    physics: str, kp: float = 20.0, kd: float = 0.5, timestep: float | None = None
) -> mujoco.MjSpec:
    """Describe the Go2 on a flat floor.

    The PD controller lives in the actuators: ``force = clip(kp (ctrl - q) - kd qdot, +-torque limit)`` with
    the targets ``ctrl`` in rad.

    Args:
        physics: A key of ``PHYSICS``.
        kp: Proportional gain, N m/rad.
        kd: Derivative gain, N m s/rad.
        timestep: Seconds per physics step; None for the physics' own.

    Raises:
        ValueError: For an unknown ``physics``.
    """
    if physics not in PHYSICS:
        raise ValueError(f"physics={physics!r}: must be one of {', '.join(PHYSICS)}")
    p = PHYSICS[physics]
    spec = mujoco.MjSpec()
    spec.modelname = f"go2_{physics}"
    spec.compiler.degree = False
    spec.option.timestep = timestep or p.timestep
    spec.option.cone, spec.option.impratio = p.cone, p.impratio
    spec.option.solver, spec.option.iterations = p.solver, p.iterations
    spec.option.integrator = p.integrator
    spec.visual.global_.bvactive = 0  # no bounding-volume bookkeeping for pictures in the hot path
    _add_floor(spec)
    base = _add_base(spec, p)
    for leg, name in enumerate(LEGS):
        _add_leg(spec, base, p, leg, name)
    for name, limit in zip(JOINT_NAMES, torque_limits(physics), strict=True):
        _add_pd_actuator(spec, name, kp, kd, limit)
    _add_sensors(spec, p)
    standing = np.concatenate([[0, 0, KEYFRAME_HEIGHT, 1, 0, 0, 0], DEFAULT_JOINT_POS])
    spec.add_key(name="home", qpos=standing, ctrl=DEFAULT_JOINT_POS)
    return spec


def _add_floor(spec: mujoco.MjSpec) -> None:
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.5, 0.65, 0.85],
        rgb2=[0.95, 0.95, 1.0],
        width=256,
        height=256,
    )
    spec.add_texture(
        name="checker",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.35, 0.42, 0.5],
        rgb2=[0.28, 0.34, 0.42],
        width=256,
        height=256,
    )
    floor = spec.add_material(name="floor", texrepeat=[1, 1], texuniform=True, reflectance=0.1)
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "checker"
    spec.worldbody.add_light(pos=[0, 0, 5], dir=[0, 0.3, -1], type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
    spec.worldbody.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[0, 0, 0.05],
        material="floor",
        contype=0,
        conaffinity=2,
    )


def _add_base(spec: mujoco.MjSpec, p: Physics) -> mujoco.MjsBody:
    base = spec.worldbody.add_body(
        name="base",
        pos=[0, 0, KEYFRAME_HEIGHT],
        mass=BASE_MASS,
        ipos=[0.021112, 0, -0.005366],
        iquat=[-0.000543471, 0.713435, -0.00173769, 0.700719],
        inertia=[0.107027, 0.0980771, 0.0244531],
        explicitinertial=True,
    )
    base.add_freejoint()
    if not p.feet_only:
        _add_geom(base, p, "BOX", [0.1881, 0.04675, 0.057], [0, 0, 0], LIGHT)
        _add_geom(base, p, "CYLINDER", [0.05, 0.045, 0], [0.285, 0, 0.01], DARK)
        _add_geom(base, p, "SPHERE", [0.047, 0, 0], [0.293, 0, -0.06], DARK)
    return base


def _add_leg(spec: mujoco.MjSpec, base: mujoco.MjsBody, p: Physics, leg: int, name: str) -> None:
    front, left = leg < 2, leg % 2 == 0
    x, y = 1 if front else -1, 1 if left else -1
    # A mirrored inertia frame permutes the components of its quaternion.
    hip_quat = (
        (0.497014, 0.499245, 0.505462, 0.498237),
        (0.498237, 0.505462, 0.499245, 0.497014),
        (0.505462, 0.498237, 0.497014, 0.499245),
        (0.499245, 0.497014, 0.498237, 0.505462),
    )[leg]
    thigh_quat = (0.829533, 0.0847635, -0.0200632, 0.551623)
    calf_quat = (0.710672, 0.00154099, -0.00450087, 0.703508)
    if not left:
        thigh_quat = (0.551623, -0.0200632, 0.0847635, 0.829533)
        calf_quat = (0.703508, -0.00450087, 0.00154099, 0.710672)
    hip = base.add_body(
        name=f"{name}_hip",
        pos=[HIP_X * x, HIP_Y * y, 0],
        mass=0.678,
        ipos=[-0.0054 * x, 0.00194 * y, -0.000105],
        iquat=hip_quat,
        inertia=[0.00088403, 0.000596003, 0.000479967],
        explicitinertial=True,
    )
    thigh = hip.add_body(
        name=f"{name}_thigh",
        pos=[0, THIGH_Y * y, 0],
        mass=1.152,
        ipos=[-0.00374, -0.0223 * y, -0.0327],
        iquat=thigh_quat,
        inertia=[0.00594973, 0.00584149, 0.000878787],
        explicitinertial=True,
    )
    calf = thigh.add_body(
        name=f"{name}_calf",
        pos=[0, 0, -LINK],
        mass=0.241352,
        ipos=[0.00629595, -0.000622121 * y, -0.141417],
        iquat=calf_quat,
        inertia=[0.0014901, 0.00146356, 5.31397e-05],
        explicitinertial=True,
    )
    for body, joint in zip((hip, thigh, calf), range(3), strict=True):
        body.add_joint(
            name=JOINT_NAMES[3 * leg + joint],
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=[1, 0, 0] if joint == 0 else [0, 1, 0],
            range=JOINT_RANGE[3 * leg + joint],
            limited=mujoco.mjtLimited.mjLIMITED_TRUE,
            armature=0.01,
            damping=[p.damping, 0, 0],
            frictionloss=p.frictionloss,
        )
    if not p.feet_only:
        fl = leg == 0
        tilt = (0.9945, 0, -0.1048, 0) if fl else (0.995, 0, -0.0998, 0)
        _add_geom(hip, p, "CYLINDER", [0.046, 0.02, 0], [0, 0.08 * y, 0], DARK, quat=(1, 1, 0, 0))
        _add_geom(
            thigh, p, "BOX", [0.1065, 0.01225, 0.017], [0, 0, -0.1065], GREY, quat=(0.7071, 0, 0.7071, 0)
        )
        upper = [0.008 if fl else 0.01, 0, -0.06]
        _add_geom(calf, p, "CYLINDER", [0.012 if fl else 0.013, 0.06, 0], upper, DARK, quat=tilt)
        _add_geom(
            calf, p, "CYLINDER", [0.011, 0.0325, 0], [0.02, 0, -0.148], DARK, quat=(0.9997, 0, 0.025, 0)
        )
    _add_foot(calf, p, name)


def _add_geom(
    body: mujoco.MjsBody,
    p: Physics,
    kind: str,
    size: Sequence[float],
    pos: Sequence[float],
    rgba: Sequence[float],
    quat: Sequence[float] = (1, 0, 0, 0),
) -> None:
    """Add a geometry of a link. Bit 1 of the collision masks stands for links and bit 2 for the floor."""
    touches = not p.feet_only
    body.add_geom(
        type=getattr(mujoco.mjtGeom, f"mjGEOM_{kind}"),
        size=size,
        pos=pos,
        quat=quat,
        rgba=rgba,
        friction=[0.6, 0.005, 0.0001],
        margin=0.001,
        condim=1 if p.self_collision else 3,
        priority=0 if p.self_collision else 1,  # 1: the robot's own friction counts, not the floor's
        contype=2 | p.self_collision if touches else 0,
        conaffinity=int(p.self_collision and touches),
    )


def _add_foot(calf: mujoco.MjsBody, p: Physics, name: str) -> None:
    pos = [FOOT_X, 0, -LINK]
    rigid = not p.self_collision
    calf.add_geom(
        name=f"{name}_foot",
        type=mujoco.mjtGeom.mjGEOM_SPHERE,
        size=[FOOT_RADIUS, 0, 0],
        pos=pos,
        rgba=BLACK,
        friction=[0.8, 0.02, 0.01],
        priority=1,
        condim=3 if rigid else 6,
        solimp=[0.9, 0.95, 0.001, 0.5, 2] if rigid else [0.015, 1, 0.031, 0.5, 2],
        margin=0.0 if rigid else 0.001,
        contype=2 | p.self_collision,
        conaffinity=int(p.self_collision),
    )
    calf.add_site(name=f"{name}_foot", pos=pos, size=[0.01, 0.01, 0.01], rgba=[0, 0, 0, 0])


def _add_pd_actuator(spec: mujoco.MjSpec, joint: str, kp: float, kd: float, limit: float) -> None:
    spec.add_actuator(
        name=joint,
        target=joint,
        trntype=mujoco.mjtTrn.mjTRN_JOINT,
        gaintype=mujoco.mjtGain.mjGAIN_FIXED,
        gainprm=[kp] + [0] * 9,
        biastype=mujoco.mjtBias.mjBIAS_AFFINE,
        biasprm=[0, -kp, -kd] + [0] * 7,
        forcelimited=mujoco.mjtLimited.mjLIMITED_TRUE,
        forcerange=[-limit, limit],
    )


def _add_sensors(spec: mujoco.MjSpec, p: Physics) -> None:
    """Add sensors of foot positions, velocities and net contact forces, and of links that can touch anything.

    ``sensordata`` is [foot position 4x3, foot velocity 4x3, foot force 4x3, (base, thighs 4, calves 4) force
    9x3], in the world frame, m, m/s and N. A contact sensor reports the force that the body exerts on others.
    The forces on the calves include those on the feet.
    """
    for kind in (mujoco.mjtSensor.mjSENS_FRAMEPOS, mujoco.mjtSensor.mjSENS_FRAMELINVEL):
        for leg in LEGS:
            spec.add_sensor(type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=f"{leg}_foot")
    touched = [(mujoco.mjtObj.mjOBJ_GEOM, f"{leg}_foot") for leg in LEGS]
    if not p.feet_only:
        links = ["base"] + [f"{leg}_{link}" for link in ("thigh", "calf") for leg in LEGS]
        touched += [(mujoco.mjtObj.mjOBJ_BODY, link) for link in links]
    force = 1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE)
    net_force, slots = 3, 1  # MuJoCo's reduction that sums forces in the world frame, and one row of results
    for objtype, name in touched:
        kind = mujoco.mjtSensor.mjSENS_CONTACT
        spec.add_sensor(type=kind, objtype=objtype, objname=name, intprm=[force, net_force, slots])
