"""A state that the tests of terms share."""

import numpy as np
import pytest

from envs.go2.mdp.state import State
from envs.go2.robot.constants import DEFAULT_JOINT_POS


@pytest.fixture
def state() -> State[np.ndarray]:
    """Two upright robots in the default pose."""
    s = State.zeros(2)
    s.projected_gravity[:, 2] = -1.0
    s.qpos[:, 3] = 1.0
    s.qpos[:, 7:] = DEFAULT_JOINT_POS
    return s
