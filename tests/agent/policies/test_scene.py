"""Several robots on one stage."""

import numpy as np

from agent.policies.scene import Scene
from envs.go2.robot import visual
from rigs import untrained_policies as policies


def test_robots_stand_in_their_places():
    scene = Scene(policies.trained(0.0), 4, "train", seed=0, spacing=2.0)
    for _ in range(25):
        scene.step(np.array([0.5, 0.0, 0.0], np.float32))
    places = scene.data.qpos.reshape(4, 19)
    np.testing.assert_allclose(places[:, :2], visual.grid(4, 2.0), atol=0.15)
    np.testing.assert_allclose(scene.middle(), places[:, :3].mean(axis=0))
    assert np.abs(scene.velocity).max() < 0.2
    scene.close()
