"""Conversions to and from MuJoCo Playground: the robot's MJCF and observations.

The Go1 joystick task of Playground (github.com/google-deepmind/mujoco_playground, Apache-2.0; looked up on
2026-11-30) finds everything by name: the floor and the feet as geoms, the feet and `imu` as sites, sensors
such as `gyro` and `FR_global_linvel`, and the standing pose as the keyframe `home`. `to_mjcf` gives the Go2
these names, so that Playground's code for the Go1 runs on it. Playground's observation `state` [48] holds
velocity, gyro and gravity in the base frame, joint angles minus those of `home`, joint speeds, the last
action and the command: the same quantities as ours, unscaled, with the joints in the order of the model.
"""

from dataclasses import replace

import mujoco
import numpy as np

from envs.config import EnvConfig
from envs.go2.mdp.observations import Observer
from envs.go2.mdp.state import State
from envs.go2.robot.constants import LEGS
from envs.go2.robot.mjcf import make_spec

BASE_SENSORS = (  # name, type, of the site `imu`
    ("gyro", mujoco.mjtSensor.mjSENS_GYRO),
    ("local_linvel", mujoco.mjtSensor.mjSENS_VELOCIMETER),
    ("accelerometer", mujoco.mjtSensor.mjSENS_ACCELEROMETER),
    ("position", mujoco.mjtSensor.mjSENS_FRAMEPOS),
    ("upvector", mujoco.mjtSensor.mjSENS_FRAMEZAXIS),
    ("forwardvector", mujoco.mjtSensor.mjSENS_FRAMEXAXIS),
    ("global_linvel", mujoco.mjtSensor.mjSENS_FRAMELINVEL),
    ("global_angvel", mujoco.mjtSensor.mjSENS_FRAMEANGVEL),
    ("orientation", mujoco.mjtSensor.mjSENS_FRAMEQUAT),
)
STATE = (  # Playground's observation: our terms and their lengths, in order
    ("base_lin_vel", 3),
    ("base_ang_vel", 3),
    ("projected_gravity", 3),
    ("joint_pos", 12),
    ("joint_vel", 12),
    ("last_action", 12),
    ("command", 3),
)


def to_mjcf(config: EnvConfig) -> str:
    """Return the task's robot on its floor as MJCF with Playground's names and the same physics.

    Its legs are in our order, FL FR RL RR. MJX and MuJoCo Warp have no PGS solver; Newton's takes its place.

    Args:
        config: The task: its physics and PD gains.
    """
    physics, control = config.physics, config.control
    spec = make_spec(physics.variant, control.kp, control.kd, physics.timestep)
    if spec.option.solver == mujoco.mjtSolver.mjSOL_PGS:
        spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    for sensor in list(spec.sensors):
        spec.delete(sensor)
    base = spec.body("base")
    base.name = "trunk"
    base.add_site(name="imu", size=[0.01, 0.01, 0.01], rgba=[0, 0, 0, 0])
    for leg in LEGS:
        spec.geom(f"{leg}_foot").name = leg
        spec.site(f"{leg}_foot").name = leg
    site, geom = mujoco.mjtObj.mjOBJ_SITE, mujoco.mjtObj.mjOBJ_GEOM
    for name, kind in BASE_SENSORS:
        spec.add_sensor(name=name, type=kind, objtype=site, objname="imu")
    for leg in LEGS:
        velocity = mujoco.mjtSensor.mjSENS_FRAMELINVEL
        spec.add_sensor(name=f"{leg}_global_linvel", type=velocity, objtype=site, objname=leg)
    found, reduction, slots = 1 << int(mujoco.mjtConDataField.mjCONDATA_FOUND), 1, 1  # 1: nearest contact
    for leg in LEGS:
        spec.add_sensor(
            name=f"{leg}_floor_found",
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            objtype=geom,
            objname=leg,
            reftype=geom,
            refname="floor",
            intprm=[found, reduction, slots],
        )
    spec.compile()
    xml: str = spec.to_xml()
    return xml


def from_playground(states: np.ndarray, clock: np.ndarray, config: EnvConfig) -> np.ndarray:
    """Convert Playground's observations to those of a task, to run our policies there.

    Args:
        states: Playground's `state` [B, 48], without noise.
        clock: Cycles of the gait [B], in [0, 1): frequency times the time since the reset, modulo 1.
        config: The task that the policy was trained on; its default pose is Playground's `home`.

    Returns:
        Observations [B, D] float32.
    """
    state = State.zeros(len(states))
    parts = dict(zip([name for name, _ in STATE], np.split(states, _cuts(), axis=1), strict=True))
    state.base_lin_vel[:], state.qvel[:, 3:6] = parts["base_lin_vel"], parts["base_ang_vel"]
    state.projected_gravity[:], state.joint_offset[:] = parts["projected_gravity"], parts["joint_pos"]
    state.qvel[:, 6:], state.action[:] = parts["joint_vel"], parts["last_action"]
    state.command[:], state.clock[:] = parts["command"], clock
    return Observer(replace(config.observations, noise=False)).observe(state, None)


def to_playground(observations: np.ndarray, config: EnvConfig) -> np.ndarray:
    """Convert our observations [B, D] to Playground's `state` [B, 48], to run its policies here.

    Raises:
        ValueError: If the task does not observe a quantity of `state`.
    """
    columns, start = {}, 0
    for name, dim, scale in Observer(config.observations).terms:
        columns[name] = observations[:, start : start + dim] / np.asarray(scale, np.float32)
        start += dim
    missing = [name for name, _ in STATE if name not in columns]
    if missing:
        raise ValueError(f"env.observations.terms: must have {', '.join(missing)} for Playground's state")
    return np.concatenate([columns[name] for name, _ in STATE], axis=1)


def _cuts() -> np.ndarray:
    return np.cumsum([dim for _, dim in STATE])[:-1]
