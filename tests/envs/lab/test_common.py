"""Samples of work, and the layout of integration states."""

import mujoco
import numpy as np

from envs.go2.robot import mjcf
from envs.lab import common
from envs.lab.common import Work


def test_samples_keep_state_and_target_together():
    numbers = np.arange(12.0).reshape(3, 4, 1)
    sample = Work(numbers, numbers.astype(np.float32), numbers).sample(5, 2)
    assert sample.states.shape == (5, 2, 1)
    np.testing.assert_array_equal(sample.states, sample.targets)
    np.testing.assert_array_equal(sample.states, sample.actions)


def test_columns_find_the_numbers_in_a_state():
    m = mjcf.build_model("fast")
    data = common.keyframe(m)
    data.qacc_warmstart[:] = np.arange(18)
    values = common.state(m, data)
    np.testing.assert_array_equal(values[common.columns(m, mujoco.mjtState.mjSTATE_QPOS)], m.key_qpos[0])
    np.testing.assert_array_equal(values[common.columns(m, mujoco.mjtState.mjSTATE_WARMSTART)], np.arange(18))
