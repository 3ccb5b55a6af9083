"""Pictures, and the choice of the OpenGL backend."""

import mujoco
import numpy as np
import pytest

from agent.errors import RenderError
from agent.policies.rendering import Camera, backend
from envs.go2.robot import constants, visual


def posed(height=0.31):
    """A stage with one robot on it, or below it."""
    stage = visual.stage(1)
    data = mujoco.MjData(stage)
    data.qpos[:] = [0, 0, height, 1, 0, 0, 0, *constants.DEFAULT_JOINT_POS]
    mujoco.mj_kinematics(stage, data)
    mujoco.mj_comPos(stage, data)
    mujoco.mj_camlight(stage, data)
    return stage, data


def test_a_picture_shows_the_robot(opengl):
    """Robot and shadow change a good part of the picture; the shell is brighter than the floor."""
    (stage, here), (_, gone) = posed(), posed(height=-5.0)
    camera = Camera(stage, 160, 96)
    camera.view.lookat[:], camera.view.distance = (0, 0, 0.2), 1.3
    camera.view.azimuth, camera.view.elevation = 215, -20
    with_robot, without = (camera.picture(data).astype(int) for data in (here, gone))
    camera.close()
    assert with_robot.shape == (96, 160, 3)
    changed = np.abs(with_robot - without).max(axis=2) > 20
    assert 0.05 < changed.mean() < 0.6
    rows, columns = np.nonzero(changed)
    assert abs(columns.mean() - 80) < 25 and abs(rows.mean() - 48) < 25  # in the middle
    assert with_robot[changed].max() > 190 > without.max(axis=2)[40:].max()


def test_pictures_are_upright(opengl):
    """The sky is above the floor."""
    stage, data = posed()
    camera = Camera(stage, 64, 64)
    camera.view.lookat[:], camera.view.distance, camera.view.elevation = (0, 0, 0.2), 3, -3
    picture = camera.picture(data).astype(int)
    camera.close()
    blueness = picture[..., 2] - picture[..., 0]
    assert blueness[:8].mean() > blueness[-8:].mean() + 10


def test_without_any_opengl_one_line_says_what_to_install(monkeypatch):
    for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("ctypes.util.find_library", lambda name: name if name == "EGL" else None)
    assert backend() == "egl"
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    with pytest.raises(RenderError, match="apt-get install libosmesa6"):
        backend()
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert backend() == "osmesa"
    monkeypatch.setenv("MUJOCO_GL", "vulkan")
    with pytest.raises(RenderError, match="MUJOCO_GL=vulkan: must be one of glfw, egl, osmesa"):
        backend()
