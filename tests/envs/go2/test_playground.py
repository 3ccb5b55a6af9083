"""The Go2 for MuJoCo Playground: its names, our physics, and observations converted both ways."""

import mujoco
import numpy as np
import pytest

from envs import EnvConfig
from envs.go2.mjbatch.batch import Go2Batch
from envs.go2.playground import from_playground, to_mjcf, to_playground
from envs.go2.robot import constants, mjcf
from rigs.go2_tasks import preset, task

FEET = ("FR", "FL", "RR", "RL")  # Playground's order


@pytest.mark.parametrize("name", ["go2", "go2_unitree"])
def test_the_exported_robot_is_ours(name):
    """Every name that the joystick task asks for, and the same motion as our model with the same solver."""
    config = task(name)
    theirs = mujoco.MjModel.from_xml_string(to_mjcf(config))
    for kind, names in (
        ("geom", ("floor", *FEET)),
        ("site", ("imu", *FEET)),
        ("body", ("trunk",)),
        ("key", ("home",)),
        ("sensor", [f"{foot}_{what}" for foot in FEET for what in ("global_linvel", "floor_found")]),
    ):
        for wanted in names:
            getattr(theirs, kind)(wanted)  # a KeyError names what is missing
    ours = mjcf.build_task_model(config)
    ours.opt.solver = theirs.opt.solver
    np.testing.assert_allclose(theirs.key("home").qpos[7:], constants.DEFAULT_JOINT_POS, atol=1e-6)
    pair = [(m, mujoco.MjData(m)) for m in (ours, theirs)]
    rng, touched = np.random.default_rng(0), 0
    for m, d in pair:
        mujoco.mj_resetDataKeyframe(m, d, 0)
        d.qpos[2] = 0.36
    for _ in range(60):
        target = constants.DEFAULT_JOINT_POS + 0.2 * rng.normal(size=12)
        for m, d in pair:
            d.ctrl[:] = target
            mujoco.mj_step(m, d)
        np.testing.assert_allclose(pair[1][1].qpos, pair[0][1].qpos, atol=1e-4)
        mine, other = pair[0][1], pair[1][1]
        touching = {pair[0][0].geom(geom).name for geom in mine.contact.geom.ravel()} - {"floor"}
        found = {foot for foot in FEET if other.sensor(f"{foot}_floor_found").data[0] > 0}
        assert found == {name.removesuffix("_foot") for name in touching if name.endswith("_foot")}
        touched += len(found)
    assert touched > 20


def test_observations_go_there_and_back():
    """`state` from Playground's own sensors gives the observation of our task, and the other way."""
    config = task("go2", randomization__friction=None, episode__stagger=False)
    env, rng = Go2Batch(config, 4, seed=0, num_threads=1), np.random.default_rng(0)
    theirs = mujoco.MjModel.from_xml_string(to_mjcf(config))
    d = mujoco.MjData(theirs)
    for _ in range(5):
        env.step((0.3 * rng.normal(size=(4, 12))).astype(np.float32))
    rows, states = env.state_dict()["rows"], []
    for i in range(4):
        d.qpos[:], d.qvel[:] = rows[i, 1:20], rows[i, 20:38]
        mujoco.mj_forward(theirs, d)
        up = d.site("imu").xmat.reshape(3, 3).T @ [0, 0, -1]  # their get_gravity
        velocity, gyro = d.sensor("local_linvel").data, d.sensor("gyro").data
        offset = d.qpos[7:] - theirs.key("home").qpos[7:]
        last, command = env.state.action[i], env.state.command[i]
        states.append(np.concatenate([velocity, gyro, up, offset, d.qvel[6:], last, command]))
    ours = from_playground(np.array(states), env.state.clock, config)
    np.testing.assert_allclose(ours, env.result.obs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(to_playground(env.result.obs, config), states, rtol=1e-4, atol=1e-5)
    blind = preset("go2")
    del blind["observations"]["terms"]["base_lin_vel"]
    with pytest.raises(ValueError, match="must have base_lin_vel"):
        to_playground(np.zeros((1, 47), np.float32), EnvConfig.from_dict(blind))
