"""The readable reference against MuJoCo, SciPy, lone simulations and the accounting of its docstring."""

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from envs.go2.robot import constants, mjcf
from envs.vecenv import VecEnv, projected_gravity, roll_pitch, samples_per_update


def stand(m: mujoco.MjModel, d: mujoco.MjData, rng: np.random.Generator) -> None:
    mujoco.mj_resetDataKeyframe(m, d, 0)


def random_quats(n: int) -> np.ndarray:
    quats = np.random.default_rng(0).normal(size=(n, 4))
    return quats / np.linalg.norm(quats, axis=1, keepdims=True)


def test_projected_gravity_is_mujocos_xmat():
    m = mjcf.build_model("menagerie")
    d = mujoco.MjData(m)
    for quat in random_quats(100):
        d.qpos[3:7] = quat
        mujoco.mj_kinematics(m, d)
        expected = d.body("base").xmat.reshape(3, 3).T @ [0, 0, -1]
        np.testing.assert_allclose(projected_gravity(quat), expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(projected_gravity(np.array([1.0, 0, 0, 0])), [0, 0, -1])


def test_roll_pitch_are_scipys_euler_angles():
    for quat in random_quats(100):
        _, pitch, roll = Rotation.from_quat(quat, scalar_first=True).as_euler("ZYX")
        np.testing.assert_allclose(roll_pitch(quat), (roll, pitch), rtol=0, atol=1e-14)


def test_eight_robots_are_eight_lone_simulations():
    m = mjcf.build_model("menagerie")
    actions = constants.DEFAULT_JOINT_POS + 0.05 * np.random.default_rng(1).normal(size=(100, 8, 12))
    env = VecEnv(m, 8, stand, np.random.default_rng(0))
    env.reset()
    for action in actions:
        obs, fell, timed_out = env.step(action)
        assert not fell.any() and not timed_out.any()
    for i in range(8):
        d = mujoco.MjData(m)
        stand(m, d, env.rng)
        for action in actions[:, i]:
            d.ctrl[:] = action
            for _ in range(4):
                mujoco.mj_step(m, d)
        assert np.abs(d.qpos - env.datas[i].qpos).max() == 0.0
        assert np.abs(obs[i, 0] - d.qpos[2]) == 0.0
        np.testing.assert_array_equal(obs[i, 4:10], d.qvel[:6])
        np.testing.assert_array_equal(obs[i, 10:22], d.qpos[7:])
        np.testing.assert_array_equal(obs[i, 22:34], d.qvel[6:])
    assert np.all((obs[:, 0] > 0.25) & (obs[:, 0] < 0.27)), "all stand"


def test_auto_reset_and_its_accounting():
    m = mjcf.build_model("menagerie")
    rng = np.random.default_rng(0)
    env = VecEnv(m, 16, stand, rng, max_steps=150)
    obs = env.reset()
    assert obs.shape == (16, 34)
    falls = timeouts = 0
    for step in range(300):
        if step % 25 == 0:
            for data in env.datas:
                data.qvel[3:5] += rng.uniform(-18, 18, 2)  # rad/s, a roll and pitch kick
        obs, fell, timed_out = env.step(np.tile(constants.DEFAULT_JOINT_POS, (16, 1)))
        ended = fell | timed_out
        falls, timeouts = falls + int(fell.sum()), timeouts + int((timed_out & ~fell).sum())
        np.testing.assert_array_equal(obs[ended, 0], constants.KEYFRAME_HEIGHT)
        np.testing.assert_array_equal(obs[ended, 1:4], np.tile([0, 0, -1], (int(ended.sum()), 1)))
        assert (env.t[ended] == 0).all() and (env.t[~ended] > 0).all()
    assert falls > 0 and timeouts > 0
    assert (env.policy_steps, env.physics_steps) == (4_800, 19_200)
    assert env.episodes == falls + timeouts
    assert env.physics_steps * m.opt.timestep == 38.4  # robot-seconds


def test_samples_per_update_of_the_published_run():
    assert samples_per_update(4096, 24) == 98_304
    assert samples_per_update(4096, 24) * 1500 == 147_456_000
    assert samples_per_update(4096, 24) * 1500 * 4 == 589_824_000
