"""The Gymnasium faces: Gymnasium's own checkers, and its SyncVectorEnv as the oracle of the vector."""

import re
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from envs import EnvConfig
from envs.go2.mjbatch.batch import Go2Batch
from envs.gymnasium_env import Go2Env, Go2VectorEnv
from rigs.go2_tasks import task


def predictable(**changes) -> EnvConfig:
    """Episodes of at most ten steps without chance, so that a batch equals robots simulated one by one."""
    certain = dict(
        episode__length=0.2,
        commands__vx=[0.5, 0.5],
        commands__vy=[0.2, 0.2],
        commands__yaw_rate=[-0.3, -0.3],
        commands__on_probability=[1.0, 1.0, 1.0],
        gait__random_phase=False,
        resets__joint_noise=0.0,
        terminations__min_upright=0.985,  # tipped by 10 degrees: some fall before their time is over
        randomization__friction=None,
    )
    return task("go2", **certain | changes)


@pytest.mark.parametrize("name", ["go2", "go2_unitree"])
def test_gymnasiums_checker_is_content(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*action space.*")  # wider than +-1
        check_env(gymnasium.make("herd/Go2-v0", task=name).unwrapped, skip_render_check=True)


def test_make_needs_no_import_with_the_packages_name():
    program = "import gymnasium; print(gymnasium.make('envs:herd/Go2-v0').reset(seed=1)[0].shape)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert shown.stdout == "(50,)\n", shown.stderr


def test_an_unknown_task_says_which_there_are():
    with pytest.raises(ValueError, match=r"env='spot': must be one of go2, go2_unitree"):
        Go2Env("spot")


def test_a_seed_decides_everything():
    """The robot's own friction too: it shows in the steps, not in the first observation."""
    config = task("go2", randomization__friction=[0.2, 1.2])

    def run(env: Go2Env, seed: int) -> np.ndarray:
        env.reset(seed=seed)
        action = np.tile([0.0, 1.0, 0.5], 4).astype(np.float32)
        return np.array([env.step(action * (-1) ** (t // 5))[0] for t in range(20)])

    used = Go2Env(config)
    run(used, 1)
    np.testing.assert_array_equal(run(used, 2), run(Go2Env(config), 2))
    assert not np.array_equal(run(used, 2), run(used, 3))


def test_an_episode_ends_with_its_final_observation():
    config = task("go2", episode__length=0.1, episode__stagger=False)
    env, batch = Go2Env(config), Go2Batch(config, 1, seed=1, num_threads=1)
    obs, _ = env.reset(seed=1)
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


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_vector_is_gymnasiums_vector_of_single_robots(mode):
    """Step by step the same observations, rewards, flags and infos, over falls and time-outs."""
    n, config = 6, predictable()
    vector = gymnasium.make_vec(
        "herd/Go2-v0", num_envs=n, task=config, autoreset_mode=mode.value, num_threads=1
    )
    assert isinstance(vector, Go2VectorEnv) and vector.metadata["autoreset_mode"] is mode
    oracle = SyncVectorEnv([lambda: Go2Env(config)] * n, autoreset_mode=mode)
    rng = np.random.default_rng(0)
    scales = np.linspace(0.0, 2.0, n)[:, None]
    assert data_equivalence(vector.reset(seed=4), oracle.reset(seed=4), exact=True)
    falls = timeouts = 0
    for _ in range(45):
        actions = (scales * rng.normal(size=(n, 12))).astype(np.float32)
        ours, theirs = vector.step(actions), oracle.step(actions)
        for mine, expected in zip(ours, theirs, strict=True):  # float32's last digit differs between batches
            assert data_equivalence(mine, expected)
        falls, timeouts = falls + ours[2].sum(), timeouts + ours[3].sum()
        ended = ours[2] | ours[3]
        if mode is AutoresetMode.DISABLED and ended.any():
            again = {"reset_mask": ended}
            assert data_equivalence(vector.reset(options=again), oracle.reset(options=dict(again)))
    assert falls > 3 and timeouts > 3


def test_the_vector_takes_the_random_task_as_the_batch_does():
    vector = Go2VectorEnv(20, task("go2", episode__length=0.1), "SameStep", num_threads=1)
    config = task("go2", episode__length=0.1, episode__stagger=False)
    obs, infos = vector.reset(seed=5)
    batch = Go2Batch(config, 20, seed=5, num_threads=1)
    np.testing.assert_array_equal(obs, batch.reset())
    assert infos == {} and vector.observation_space.contains(obs)
    for _ in range(12):
        actions = np.random.default_rng(0).normal(size=(20, 12)).astype(np.float32)
        obs, reward, *_ = vector.step(actions)
        result = batch.step(actions)
        np.testing.assert_array_equal(obs, result.obs)
        np.testing.assert_array_equal(reward, result.reward)


def test_disabled_refuses_to_step_what_has_ended():
    vector = Go2VectorEnv(2, predictable(), "Disabled", num_threads=1)
    vector.reset(seed=1)
    still = np.zeros((2, 12), np.float32)
    for _ in range(10):
        _, _, _, truncated, _ = vector.step(still)
    assert truncated.all()
    vector.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(RuntimeError, match=r"episodes \[1\] have ended"):
        vector.step(still)
    for mask in ([True, True], np.array([1, 0])):
        with pytest.raises(TypeError, match="must be a NumPy array of bool"):
            vector.reset(options={"reset_mask": mask})
    for mask in (np.array([True]), np.array([False, False])):
        with pytest.raises(ValueError, match="must have shape"):
            vector.reset(options={"reset_mask": mask})


@pytest.mark.filterwarnings("ignore:.*render_mode:UserWarning")  # it asks for pictures by default
def test_stable_baselines_trains_on_it():
    sb3 = pytest.importorskip("stable_baselines3", reason="needs the test extra's stable-baselines3")
    from stable_baselines3.common.env_util import make_vec_env

    robots = make_vec_env("herd/Go2-v0", n_envs=2, seed=0, env_kwargs={"task": predictable()})
    ppo = sb3.PPO("MlpPolicy", robots, n_steps=32, batch_size=32, n_epochs=2, seed=0, device="cpu")
    before = [p.clone() for p in ppo.policy.parameters()]
    ppo.learn(128)
    assert ppo.num_timesteps == 128 and len(ppo.ep_info_buffer) > 4
    changed = [not p.equal(q) for p, q in zip(ppo.policy.parameters(), before, strict=True)]
    assert all(changed) and all(p.isfinite().all() for p in ppo.policy.parameters())


def test_actions_that_are_not_finite_or_of_another_shape_are_refused():
    one, vector = Go2Env(predictable()), Go2VectorEnv(4, predictable(), num_threads=1)
    one.reset(seed=1)
    vector.reset(seed=1)
    before = vector.step(np.zeros((4, 12), np.float32))[0]
    for number in (np.nan, np.inf, 1e300):
        bad = np.zeros((4, 12))
        bad[2, 5] = number
        with pytest.raises(ValueError, match="actions: must be finite"):
            one.step(bad[2])
        with pytest.raises(ValueError, match="actions: must be finite"):
            vector.step(bad)
    for shape in ((12,), (), (1, 12), (4, 1), (3, 12)):
        expected = rf"actions: of shape {re.escape(str(shape))}; must be of shape \(4, 12\)"
        with pytest.raises(ValueError, match=expected):
            vector.step(np.zeros(shape))
    for shape in ((), (1,), (1, 12)):
        with pytest.raises(ValueError, match=r"must be of shape \(12,\)"):
            one.step(np.zeros(shape))
    other = Go2VectorEnv(4, predictable(), num_threads=1)
    other.reset(seed=1)
    np.testing.assert_array_equal(before, other.step(np.zeros((4, 12), np.float32))[0])
    after = (env.step(np.zeros((4, 12), np.float32))[0] for env in (vector, other))  # refused: nothing moved
    np.testing.assert_array_equal(*after)


def test_the_action_of_a_robot_that_resets_is_ignored():
    vector = Go2VectorEnv(1, predictable(), "NextStep", num_threads=1)
    vector.reset(seed=1)
    for _ in range(10):
        _, _, _, truncated, _ = vector.step(np.zeros((1, 12), np.float32))
    assert truncated.all()
    assert np.isfinite(vector.step(np.full((1, 12), np.nan))[0]).all()


def test_a_seed_for_each_robot():
    config = task("go2", randomization__friction=[0.2, 1.2])
    vector = Go2VectorEnv(3, config, num_threads=1)

    def run(seed) -> np.ndarray:
        first = vector.reset(seed=seed)[0]
        return np.array([first, *(vector.step(np.ones((3, 12), np.float32))[0] for _ in range(3))])

    chosen = run([7, 1, 3])
    np.testing.assert_array_equal(run([7, 1, 3]), chosen)
    np.testing.assert_array_equal(run((7, 1, 3)), chosen)
    assert not np.array_equal(run([7, 1, 4]), chosen)
    np.testing.assert_array_equal(run([4, 5, 6]), run(4))  # as in SyncVectorEnv
    vector.reset(seed=1)
    some = run([7, None, 3])
    vector.reset(seed=1)
    np.testing.assert_array_equal(run([7, None, 3]), some)
    assert not np.array_equal(run([None, None, None]), run([None, None, None]))
    with pytest.raises(ValueError, match="must be one seed for each of the 3 robots"):
        vector.reset(seed=[1, 2])


def test_the_action_spaces_bound():
    assert Go2Env().action_space.high[0] == 100
    robots = gymnasium.make_vec("herd/Go2-v0", num_envs=2, action_bound=4, num_threads=1)
    assert robots.single_action_space.high.tolist() == [4] * 12
    assert robots.action_space.low.tolist() == [[-4] * 12] * 2
    assert gymnasium.make("herd/Go2-v0", action_bound=0.5).action_space.high[0] == 0.5
    for bound in (0, -1, np.nan, 101):
        with pytest.raises(ValueError, match=r"action_bound=.*: must be greater than 0 and at most 100"):
            Go2Env(action_bound=bound)
