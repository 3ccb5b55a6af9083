"""Start states of episodes."""

import mujoco
import numpy as np

from envs.go2.mdp import resets
from envs.go2.robot import constants, mjcf


def test_standing_height_touches_the_floor():
    m = mjcf.build_model("menagerie")
    d = mujoco.MjData(m)
    joints = constants.DEFAULT_JOINT_POS + np.random.default_rng(0).normal(0, 0.3, (50, 12))
    for angles, height in zip(joints, resets.standing_height(joints), strict=True):
        d.qpos[:] = [0, 0, height, 1, 0, 0, 0, *angles]
        mujoco.mj_kinematics(m, d)
        lowest = min(d.geom(f"{leg}_foot").xpos[2] for leg in constants.LEGS) - constants.FOOT_RADIUS
        assert abs(lowest) < 1e-12
