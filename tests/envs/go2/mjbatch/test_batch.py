"""The CPU backend against the readable reference, ``VecEnv``."""

import mujoco
import numpy as np
import pytest

from envs.go2.mjbatch.batch import Go2Batch
from envs.go2.robot import constants
from envs.vecenv import VecEnv
from rigs.go2_tasks import task


@pytest.mark.parametrize("name", ["go2", "go2_unitree"])
def test_the_fast_environment_is_the_reference(name):
    """The fast environment's robots, controls included, against VecEnv until one of them ends an episode."""
    config = task(name, randomization__friction=None, randomization__push_interval=None)
    env = Go2Batch(config, 6, seed=0, num_threads=2)
    starts = iter(env.state_dict()["rows"])

    def reset(m: mujoco.MjModel, d: mujoco.MjData, rng: np.random.Generator) -> None:
        mujoco.mj_setState(m, d, next(starts), mujoco.mjtState.mjSTATE_INTEGRATION)

    # Limits so wide that the reference never resets: the comparison ends with the first episode instead.
    wide = dict(max_roll=9.0, max_pitch=9.0, min_height=-9.0)
    reference = VecEnv(env.mj_model, 6, reset, np.random.default_rng(0), config.physics.decimation, **wide)
    reference.reset()
    rng = np.random.default_rng(1)
    compared = 0
    for _ in range(100):
        actions = rng.normal(0, 0.3, (6, 12)).astype(np.float32)
        result = env.step(actions)
        targets = constants.DEFAULT_JOINT_POS + config.control.action_scale * actions.astype(np.float64)
        obs, _, _ = reference.step(targets)
        if (result.terminated | result.truncated).any():
            break
        qpos = env.state_dict()["rows"][:, 1:20]  # after the time, see mjSTATE_INTEGRATION
        assert np.abs(qpos - np.array([d.qpos for d in reference.datas])).max() == 0.0
        np.testing.assert_allclose(env.state.projected_gravity, obs[:, 1:4], atol=1e-6)
        np.testing.assert_allclose(env.state.joint_vel, obs[:, 22:34], rtol=1e-6)
        compared += 1
    assert compared > 10
