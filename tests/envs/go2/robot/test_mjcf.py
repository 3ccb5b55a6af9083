"""The Go2's facts: sizes and masses, how it stands, and the sensors against MuJoCo's raw contacts."""

import mujoco
import numpy as np
import pytest

from envs.go2.mdp.state import State
from envs.go2.robot import constants, mjcf
from envs.go2.robot.physics import PHYSICS, torque_limits
from rigs.go2_tasks import net_forces


@pytest.mark.parametrize("physics", PHYSICS)
def test_sizes_and_mass(physics):
    m = mjcf.build_model(physics)
    assert (m.nq, m.nv, m.nu) == (19, 18, 12)
    assert m.body_mass.sum() == pytest.approx(15.206, abs=5e-4)
    assert [m.joint(i).name for i in range(1, 13)] == list(constants.JOINT_NAMES)
    assert m.opt.timestep == PHYSICS[physics].timestep
    np.testing.assert_array_equal(m.jnt_range[1:], constants.JOINT_RANGE)
    np.testing.assert_array_equal(m.actuator_forcerange[:, 1], torque_limits(physics))


def test_legs_mirror_each_other():
    """Left and right centres of mass, and inertias seen in the world, are mirror images."""
    m = mjcf.build_model("menagerie")
    d = mujoco.MjData(m)
    mujoco.mj_forward(m, d)
    mirror = np.array([1, -1, 1])
    for left, right in (("FL", "FR"), ("RL", "RR")):
        for part in ("hip", "thigh", "calf"):
            a, b = (m.body(f"{leg}_{part}").id for leg in (left, right))
            np.testing.assert_allclose(d.xipos[a] * mirror, d.xipos[b], atol=1e-12)
            inertia = [
                d.ximat[i].reshape(3, 3) @ np.diag(m.body_inertia[i]) @ d.ximat[i].reshape(3, 3).T
                for i in (a, b)
            ]
            np.testing.assert_allclose(inertia[0] * np.outer(mirror, mirror), inertia[1], atol=1e-8)


def test_standing_for_two_seconds():
    m = mjcf.build_model("menagerie")
    d = mujoco.MjData(m)
    mujoco.mj_resetDataKeyframe(m, d, 0)
    mujoco.mj_step(m, d, nstep=1000)
    mujoco.mj_forward(m, d)
    assert 0.255 < d.qpos[2] < 0.265
    names = [{m.geom(g).name for g in c.geom} for c in d.contact]
    assert names == [{"floor", f"{leg}_foot"} for leg in ("FL", "FR", "RL", "RR")]
    force, normal = np.zeros(6), 0.0
    for i in range(d.ncon):
        mujoco.mj_contactForce(m, d, i, force)
        normal += force[0]
    assert normal == pytest.approx(149.2, abs=0.1)
    assert m.body_mass.sum() * 9.81 == pytest.approx(149.2, abs=0.05)


def test_pd_lives_in_the_actuators():
    m = mjcf.build_model("fast", kp=35.0, kd=0.5)
    d = mujoco.MjData(m)
    rng = np.random.default_rng(0)
    d.qpos[7:], d.qvel[6:], d.ctrl[:] = rng.normal(size=12), rng.normal(size=12), rng.normal(size=12)
    mujoco.mj_forward(m, d)
    expected = 35.0 * (d.ctrl - d.qpos[7:]) - 0.5 * d.qvel[6:]
    np.testing.assert_allclose(
        d.actuator_force, np.clip(expected, -torque_limits("fast"), torque_limits("fast"))
    )
    assert (np.abs(expected) > 23.7).any(), "some torques must be clipped for this test to mean something"


@pytest.mark.parametrize("physics", ["unitree", "menagerie"])
def test_sensors_are_the_sums_of_the_raw_contacts(physics):
    """A robot dropped on its side: feet, thighs, calves and base touch the floor at some time."""
    m = mjcf.build_model(physics)
    d = mujoco.MjData(m)
    state = State.zeros(1)
    touched = np.zeros(13, bool)
    for roll in (0.0, 1.5, 3.0):
        mujoco.mj_resetDataKeyframe(m, d, 0)
        d.qpos[2], d.qpos[3:5] = 0.5, (np.cos(roll / 2), np.sin(roll / 2))
        for _ in range(300):
            mujoco.mj_step(m, d)
            state.set_sensors(d.sensordata[None].astype(np.float32))
            net = np.concatenate([state.foot_force[0], state.link_force[0]])
            expected = net_forces(m, d)
            np.testing.assert_allclose(net, expected, atol=1e-3 + 1e-5 * np.abs(expected).max())
            touched |= np.linalg.norm(expected, axis=1) > 0.1
    assert touched[:5].all() and touched[5:9].any() and touched[9:].any()
