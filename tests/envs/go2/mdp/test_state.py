"""The state: rotations against SciPy, and the contact records by hand."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from envs.go2.mdp.state import gravity_in_base, rotate_inverse
from envs.go2.robot.constants import DEFAULT_JOINT_POS


def test_rotations_are_scipys():
    rng = np.random.default_rng(0)
    quats, vectors = rng.normal(size=(50, 4)), rng.normal(size=(50, 3))
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    inverse = Rotation.from_quat(quats, scalar_first=True).inv()
    np.testing.assert_allclose(rotate_inverse(quats, vectors), inverse.apply(vectors), atol=1e-14)
    np.testing.assert_allclose(gravity_in_base(quats), inverse.apply([0, 0, -1]), atol=1e-14)


def test_roll_pitch_and_yaw_are_scipys(state):
    yaw, pitch, roll = 2.5, -0.4, 0.7
    quat = Rotation.from_euler("ZYX", [yaw, pitch, roll]).as_quat(scalar_first=True)
    qpos = np.concatenate([[0, 0, 0.3], quat, DEFAULT_JOINT_POS])
    state.set_motion(qpos[None], np.zeros((1, 18)), np.array([1]))
    np.testing.assert_allclose([r[1] for r in state.roll_pitch], [roll, pitch], atol=1e-6)
    assert state.yaw[1] == pytest.approx(yaw, abs=1e-6)
    assert state.yaw[0] == 0.0


def test_touchdown_and_air_time_records(state):
    """Down in the second and third step, up for three, down again."""
    # After each step: does the foot land, and how long has it been (or was it) in the air? The filter takes a
    # foot as down for one more step after it has lifted.
    expected = [
        (False, 0.02),
        (True, 0.04),
        (False, 0.02),
        (False, 0.02),
        (False, 0.02),
        (False, 0.04),
        (True, 0.06),
    ]
    record, touching = [], [0, 1, 1, 0, 0, 0, 1]
    for step, touches in enumerate(touching):
        state.foot_force[:, 0, 2] = 5.0 * touches
        state.update_contacts(0.02)
        record.append((bool(state.touchdown[0, 0]), round(float(state.air_time[0, 0]), 3)))
        assert state.contact[0, 0] == bool(touches), step
    assert record == expected
