"""Pictures, films and the web page; what needs OpenGL or an optional package is skipped without it."""

import math
import time

import mujoco
import numpy as np
import pytest

from agent import play
from agent.errors import ConfigError
from agent.policies.rendering import Camera, Film, RenderError, backend
from agent.policies.scene import Troop
from envs.go2.robot import constants, mjcf, visual
from rigs import untrained_policies as policies
from rigs.browser import opened


@pytest.fixture(scope="module")
def opengl():
    try:
        Camera(visual.stage(1), 64, 64).close()
    except RenderError as error:
        pytest.skip(str(error))


def posed(robots, height=0.31):
    stage = visual.stage(robots)
    data = mujoco.MjData(stage)
    poses = data.qpos.reshape(robots, 19)
    poses[:, :2], poses[:, 2], poses[:, 3] = visual.grid(robots, 0.8), height, 1.0
    poses[:, 7:] = constants.DEFAULT_JOINT_POS
    mujoco.mj_kinematics(stage, data)
    mujoco.mj_comPos(stage, data)
    mujoco.mj_camlight(stage, data)
    return stage, data


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
    _, data = posed(3)
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


def test_a_picture_shows_the_robot(opengl):
    """Robot and shadow change a good part of the picture; the shell is brighter than the floor."""
    (stage, here), (_, gone) = posed(1), posed(1, height=-5.0)
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
    stage, data = posed(1)
    camera = Camera(stage, 64, 64)
    camera.view.lookat[:], camera.view.distance, camera.view.elevation = (0, 0, 0.2), 3, -3
    picture = camera.picture(data).astype(int)
    camera.close()
    blueness = picture[..., 2] - picture[..., 0]
    assert blueness[:8].mean() > blueness[-8:].mean() + 10


@pytest.mark.parametrize("suffix", ["mp4", "gif"])
def test_the_command_films(opengl, tmp_path, capsys, suffix):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="needs the package imageio-ffmpeg")
    path, out = policies.save(tmp_path / "policy.safetensors", 0.0), tmp_path / f"out.{suffix}"
    key = {"mp4": "video", "gif": "gif"}[suffix]
    arguments = [
        f"checkpoint={path}",
        f"--{key}",
        str(out),
        "seconds=0.6",
        "width=96",
        "height=64",
        "robots=2",
    ]
    assert play.main(arguments) == 0
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(out))
    assert frames == {"mp4": 15, "gif": 10}[suffix]
    assert seconds == pytest.approx(0.6, abs=0.05)
    assert str(out) in capsys.readouterr().out


def test_films_say_what_is_wrong_with_their_names(tmp_path):
    with pytest.raises(ConfigError, match=r"out\.avi: must end in \.mp4 or \.gif"):
        Film(tmp_path / "out.avi", 25.0)


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


def test_the_tour_begins_and_ends_standing():
    assert play.on_tour(0.0) == play.on_tour(11.9) == (0.0, 0.0, 0.0)
    assert play.on_tour(2.1) == (1.0, 0.0, 0.0)


def test_a_troop_stands_in_its_places():
    troop = Troop(policies.trained(0.0), 4, "train", seed=0, spacing=2.0)
    for _ in range(25):
        troop.step(np.array([0.5, 0.0, 0.0], np.float32))
    places = troop.data.qpos.reshape(4, 19)
    np.testing.assert_allclose(places[:, :2], visual.grid(4, 2.0), atol=0.15)
    np.testing.assert_allclose(troop.middle(), places[:, :3].mean(axis=0))
    assert np.abs(troop.velocity).max() < 0.2
    troop.close()


def test_circles_are_small():
    pytest.importorskip("mjviser", reason="needs the packages viser and mjviser (extra: play)")
    from agent.policies import viewer

    commands = viewer.circles(50, seed=1)
    radii = commands[:, 0] / np.abs(commands[:, 2])
    assert radii.max() < 2.0 and (commands[:, 2] > 0).any() and (commands[:, 2] < 0).any()


def test_the_page_steers_the_first_robot(monkeypatch):
    pytest.importorskip("mjviser", reason="needs the packages viser and mjviser (extra: play)")
    import urllib.request

    from agent.policies import viewer

    served = viewer.Page(policies.trained(0.0), 3, "train", 0, "127.0.0.1", 0)
    try:
        with urllib.request.urlopen(served.address, timeout=20) as answer:
            assert b"<html" in answer.read()
        given = []
        step = served.troop.step
        monkeypatch.setattr(served.troop, "step", lambda commands: (given.append(commands), step(commands)))
        for slider, value in zip(served.sliders, (0.25, -0.5, 0.75), strict=True):
            slider.value = value
        served.step()
        served.together.value = True
        served.step()
        served.show()
        served.tell()
        np.testing.assert_array_equal(given[0][0], np.float32([0.25, -0.5, 0.75]))
        np.testing.assert_array_equal(given[0][1:], viewer.circles(3, 0)[1:])
        np.testing.assert_array_equal(given[1], np.tile(np.float32([0.25, -0.5, 0.75]), (3, 1)))
        assert "m/s" in served.measured.content
        before = served.troop
        served.reset_wanted = True
        served.step()
        assert served.troop is not before
        assert math.isfinite(served.troop.data.qpos.sum())
    finally:
        served.close()


def test_keys_steer_in_a_browser():
    pytest.importorskip("mjviser", reason="needs the packages viser and mjviser (extra: play)")
    from agent.policies import viewer

    served = viewer.Page(policies.trained(0.0), 2, "train", 0, "127.0.0.1", 0)
    try:
        with opened(served.address) as (browser, errors):
            browser.get_by_text("Steer the blue robot").wait_for()
            served.show()

            def press(keys, expected):
                for key in keys:
                    browser.keyboard.press(key)
                deadline = time.monotonic() + 20
                while (values := [slider.value for slider in served.sliders]) != expected:
                    assert time.monotonic() < deadline, (keys, values, expected)
                    time.sleep(0.02)

            press(["Space"], [0.0, 0.0, 0.0])
            press("iiikjuooo", [0.2, -0.2, 0.1])
            press("l" * 15, [0.2, -0.2, -1.0])  # not beyond the slider's end
            press(["Space"], [0.0, 0.0, 0.0])
            assert browser.get_by_text("Keys:").is_visible()
            assert browser.locator("canvas").count() >= 1
            assert errors == []
    finally:
        served.close()
