"""The viewer, over HTTP and in a real browser."""

import math
import time
import urllib.request

import numpy as np
import pytest

from rigs import untrained_policies as policies
from rigs.browser import opened

pytest.importorskip("mjviser", reason="needs the packages viser and mjviser (extra: play)")
from agent.policies import viewer


def test_circles_are_small():
    commands = viewer.circles(50, seed=1)
    radii = commands[:, 0] / np.abs(commands[:, 2])
    assert radii.max() < 2.0 and (commands[:, 2] > 0).any() and (commands[:, 2] < 0).any()


def test_the_sliders_steer_the_first_robot(monkeypatch):
    served = viewer.Viewer(policies.trained(0.0), 3, "train", 0, "127.0.0.1", 0)
    try:
        with urllib.request.urlopen(served.address, timeout=20) as answer:
            assert b"<html" in answer.read()
        given = []
        step = served.scene.step
        monkeypatch.setattr(served.scene, "step", lambda commands: (given.append(commands), step(commands)))
        for slider, value in zip(served.sliders, (0.25, -0.5, 0.75), strict=True):
            slider.value = value
        served.step()
        served.together.value = True
        served.step()
        served.show()
        served.show_velocity()
        np.testing.assert_array_equal(given[0][0], np.float32([0.25, -0.5, 0.75]))
        np.testing.assert_array_equal(given[0][1:], viewer.circles(3, 0)[1:])
        np.testing.assert_array_equal(given[1], np.tile(np.float32([0.25, -0.5, 0.75]), (3, 1)))
        assert "m/s" in served.measured.content
        before = served.scene
        served.reset_wanted = True
        served.step()
        assert served.scene is not before
        assert math.isfinite(served.scene.data.qpos.sum())
    finally:
        served.close()


def test_keys_steer_in_a_browser():
    served = viewer.Viewer(policies.trained(0.0), 2, "train", 0, "127.0.0.1", 0)
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
