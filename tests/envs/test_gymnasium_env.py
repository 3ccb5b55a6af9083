"""The Gymnasium faces: Gymnasium's own checker, and the same numbers as the batch they wrap."""

import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from envs.go2.batch import Go2Batch
from envs.gymnasium_env import Go2Env, Go2VectorEnv
from tests.envs.helpers import task


@pytest.mark.parametrize("name", ["go2", "go2_unitree"])
def test_gymnasiums_checker_is_content(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(spec|action space).*")  # unregistered; wide actions
        check_env(Go2Env(task(name)), skip_render_check=True)


def test_an_episode_ends_with_its_final_observation():
    config = task("go2", episode__length=0.1, episode__stagger=False)
    env, batch = Go2Env(config, seed=3), Go2Batch(config, 1, seed=3, num_threads=1)
    obs, _ = env.reset(seed=1)
    batch.rng = np.random.default_rng(1)
    np.testing.assert_array_equal(obs, batch.reset()[0])
    for step in range(5):
        action = np.full(12, 0.1 * step, np.float32)
        obs, reward, terminated, truncated, info = env.step(action)
        result = batch.step(action[None])
        expected = result.final_obs if step == 4 else result.obs
        np.testing.assert_array_equal(obs, expected[0])
        assert (reward, terminated, truncated) == (result.reward[0], False, step == 4)
        assert info == {
            "lin_vel_error": result.lin_vel_error[0],
            "yaw_rate_error": result.yaw_rate_error[0],
            "bad": False,
        }


def test_the_vector_resets_in_the_same_step():
    config = task("go2", episode__length=0.1)
    env, batch = Go2VectorEnv(config, 20, seed=2, num_threads=1), Go2Batch(config, 20, seed=2, num_threads=1)
    obs, infos = env.reset(seed=5)
    batch.rng = np.random.default_rng(5)
    np.testing.assert_array_equal(obs, batch.reset())
    assert infos == {} and env.observation_space.contains(obs)
    rng = np.random.default_rng(0)
    for _ in range(12):
        actions = rng.normal(size=(20, 12)).astype(np.float32)
        obs, reward, terminated, truncated, infos = env.step(actions)
        result = batch.step(actions)
        np.testing.assert_array_equal(obs, result.obs)
        np.testing.assert_array_equal(reward, result.reward)
        ended = terminated | truncated
        assert ended.any(), "staggered episodes of five steps"
        np.testing.assert_array_equal(infos["_final_obs"], ended)
        for i in range(20):
            if ended[i]:
                np.testing.assert_array_equal(infos["final_obs"][i], result.final_obs[i])
            else:
                assert infos["final_obs"][i] is None
