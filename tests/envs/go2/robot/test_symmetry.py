"""Mirrored robots move as mirror images, in the physics itself."""

import numpy as np
import pytest

from envs import EnvConfig, make_pool
from envs.go2.robot.symmetry import mirror
from rigs.go2_tasks import preset


def test_twice_is_the_identity():
    pool = make_pool(EnvConfig.preset("go2"), 1, 1, seed=0)
    m = pool.mirror
    x = np.arange(pool.obs_dim, dtype=np.float32)
    np.testing.assert_array_equal((x[m.obs_index] * m.obs_sign)[m.obs_index] * m.obs_sign, x)
    pool.close()


def test_a_mirrored_robot_sees_the_mirror_image_of_what_the_other_sees():
    values = preset("go2")
    values["episode"]["stagger"] = values["gait"]["random_phase"] = False
    values["resets"]["joint_noise"] = 0.0
    values["randomization"]["friction"] = values["randomization"]["joint_damping"] = None
    pool = make_pool(EnvConfig.from_dict(values), 2, 1, seed=0)
    m = pool.mirror
    pool.reset(0)
    command = np.array([0.5, 0.3, -0.4])
    obs = pool.set_commands(0, np.stack([command, command * [1, -1, -1]]))
    phase = (
        obs.shape[1] - 2
    )  # both clocks start at 0, half a period apart from a mirror image: compare the rest
    rng = np.random.default_rng(0)
    for _ in range(6):  # the base's inertia is not quite symmetric, so the two drift apart slowly
        action = rng.normal(0, 0.3, 12).astype(np.float32)
        result = pool.step(0, np.stack([action, action[m.action_index] * m.action_sign])).result()
        first, second = result.obs
        np.testing.assert_allclose(
            (first[m.obs_index] * m.obs_sign)[:phase], second[:phase], rtol=5e-3, atol=5e-3
        )
    assert np.abs(first - second)[:phase].max() > 0.1
    pool.close()


def test_an_unknown_term_is_an_error():
    with pytest.raises(ValueError, match="warmth"):
        mirror([("warmth", 1, 1.0)])
