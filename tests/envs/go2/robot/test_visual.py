"""The robot as it is shown: clothes without weight, and a stage for several."""

import mujoco
import numpy as np
import pytest

from envs.go2.robot import constants, mjcf, visual


def test_clothes_weigh_nothing_and_touch_nothing():
    bare, dressed = mjcf.make_spec("menagerie"), mjcf.make_spec("menagerie")
    visual.add_visuals(dressed)
    ends = []
    for spec in (bare, dressed):
        m = spec.compile()
        d = mujoco.MjData(m)
        mujoco.mj_resetDataKeyframe(m, d, 0)
        d.qvel[:3] = 0.3, 0.2, 0.5
        for _ in range(300):
            mujoco.mj_step(m, d)
        ends.append((m.ngeom, m.body_mass.sum(), d.qpos.copy()))
    assert ends[1][0] > ends[0][0] + 40
    assert ends[0][1] == ends[1][1]
    np.testing.assert_array_equal(ends[0][2], ends[1][2])


def test_the_stage_shows_every_robot_where_it_is():
    stage = visual.stage(3)
    data = mujoco.MjData(stage)
    poses = data.qpos.reshape(3, 19)
    poses[:, :2], poses[:, 2], poses[:, 3] = visual.grid(3, 0.8), 0.31, 1.0
    poses[:, 7:] = constants.DEFAULT_JOINT_POS
    mujoco.mj_kinematics(stage, data)
    one = mjcf.build_model("fast")
    alone = mujoco.MjData(one)
    for i, (x, y) in enumerate(visual.grid(3, 0.8)):
        alone.qpos[:] = [x, y, 0.31, 1, 0, 0, 0, *constants.DEFAULT_JOINT_POS]
        mujoco.mj_kinematics(one, alone)
        for body in ("base", "FL_hip", "RR_calf"):
            np.testing.assert_allclose(data.body(f"{i}/{body}").xpos, alone.body(body).xpos, atol=1e-12)


def test_the_grid_keeps_its_distance():
    places = visual.grid(11, 0.9)
    np.testing.assert_array_equal(places[0], 0.0)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2) + 10 * np.eye(11)
    assert apart.min() == pytest.approx(0.9)
