"""The step of a batch: resets in the same step, final observations, accounting, divergence, resumption."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from envs.go2.mjbatch.batch import Go2Batch
from envs.go2.robot import constants
from rigs.go2_tasks import task

PRESETS = ("go2", "go2_unitree")


def wild(rng: np.random.Generator, n: int) -> np.ndarray:
    """Actions that make robots fall."""
    return (2.0 * rng.normal(size=(n, 12))).astype(np.float32)


def copies(result) -> dict[str, np.ndarray]:
    """A result's arrays; final observations only where they are valid."""
    arrays = {k: np.array(v) for k, v in vars(result).items() if k != "stamps"}
    arrays["final_obs"][~(result.terminated | result.truncated)] = 0.0
    return arrays


def assert_equal(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    for key in a:
        np.testing.assert_array_equal(a[key], b[key], err_msg=key)


@pytest.mark.parametrize("name", PRESETS)
def test_same_seed_same_trajectory_whatever_the_threads(name):
    envs = [Go2Batch(task(name), 40, seed=(7, 1), num_threads=threads) for threads in (1, 2, 3)]
    other = Go2Batch(task(name), 40, seed=(7, 2), num_threads=1)
    rng = np.random.default_rng(0)
    for _ in range(60):
        actions = wild(rng, 40)
        results = [copies(env.step(actions)) for env in envs]
        different = copies(other.step(actions))
        assert_equal(results[0], results[1])
        assert_equal(results[0], results[2])
        assert (results[0]["obs"] != different["obs"]).any()
    assert envs[0].counters == envs[2].counters
    assert envs[0].counters.falls > 0


@pytest.mark.parametrize("name", PRESETS)
def test_loaded_state_goes_on_bit_for_bit(name):
    """Everything random and per-robot is on, so that nothing can be forgotten unnoticed."""
    config = task(
        name,
        observations__noise=True,
        randomization__base_mass=[-1.0, 1.0],
        randomization__base_com=0.03,
        randomization__gain_scale=[0.8, 1.2],
        randomization__push_interval=0.1,
        randomization__action_delay=[0.0, 0.02],
    )
    env, rng = Go2Batch(config, 12, seed=1, num_threads=2), np.random.default_rng(0)
    for _ in range(30):
        env.step(wild(rng, 12))
    saved = env.state_dict()
    assert all(type(values) is np.ndarray for values in saved.values())
    restored = Go2Batch(config, 12, seed=99, num_threads=1)
    restored.load_state_dict(saved)
    for _ in range(30):
        actions = wild(rng, 12)
        assert_equal(copies(env.step(actions)), copies(restored.step(actions)))
    assert env.counters == restored.counters and env.counters.falls > 0
    env.load_state_dict(saved)  # also into itself, after having gone on
    assert_equal(env.state_dict(), saved)


def test_loading_another_tasks_state_is_an_error():
    saved = Go2Batch(task("go2"), 4, seed=0, num_threads=1).state_dict()
    with pytest.raises(ValueError, match="must have shape"):
        Go2Batch(task("go2"), 5, seed=0, num_threads=1).load_state_dict(saved)
    with pytest.raises(ValueError, match=r"model\.geom_friction: saved by a different task"):
        Go2Batch(task("go2", randomization__friction=None), 4, seed=0, num_threads=1).load_state_dict(saved)


@pytest.mark.parametrize("name", PRESETS)
def test_final_and_first_observations_are_of_their_states(name):
    """The final observation shows the state before the reset, the returned one that after it, all terms."""
    config = task(name, observations__noise=False, episode__length=0.5, randomization__push_interval=None)
    env, rng = Go2Batch(config, 64, seed=0, num_threads=2), np.random.default_rng(0)
    terms = {n: (start, scale) for (n, _, scale), start in zip(env.observer.terms, starts(env), strict=True)}
    ends = 0
    for _ in range(40):
        actions = wild(rng, 64)
        before = env.state_dict()
        result = env.step(actions)
        ended = result.terminated | result.truncated
        assert not (result.terminated & result.truncated).any()
        ends += int(ended.sum())
        at, scale = terms["last_action"]
        np.testing.assert_array_equal(result.final_obs[ended, at : at + 12], actions[ended])
        np.testing.assert_array_equal(result.obs[ended, at : at + 12], 0)
        np.testing.assert_array_equal(result.obs[~ended, at : at + 12], actions[~ended])
        at, scale = terms["command"]
        seen = (before["state.command"] * np.float32(scale))[ended]
        np.testing.assert_allclose(result.final_obs[ended, at : at + 3], seen, rtol=1e-6)
        rows = env.state_dict()["rows"]
        inverse = Rotation.from_quat(rows[:, 4:8], scalar_first=True).inv()
        for term, value in (
            ("base_lin_vel", inverse.apply(rows[:, 20:23])),
            ("base_ang_vel", rows[:, 23:26]),
            ("projected_gravity", inverse.apply([0, 0, -1])),
            ("joint_pos", rows[:, 8:20] - constants.DEFAULT_JOINT_POS),
            ("joint_vel", rows[:, 26:38]),
        ):
            at, scale = terms[term]
            shown = result.obs[:, at : at + value.shape[1]]
            np.testing.assert_allclose(shown, value * scale, rtol=1e-5, atol=1e-5, err_msg=term)
        if result.truncated.any():
            # Tilted before the reset, level after it.
            at, _ = terms["projected_gravity"]
            assert (result.final_obs[result.truncated, at + 2] > -1).all()
            np.testing.assert_array_equal(result.obs[ended, at + 2], -1)
    assert ends > 64


def starts(env: Go2Batch) -> list[int]:
    dims = [dim for _, dim, _ in env.observer.terms]
    return [sum(dims[:i]) for i in range(len(dims))]


def test_a_fall_in_the_last_step_is_no_timeout():
    config = task("go2", episode__length=0.02, episode__stagger=False)
    env = Go2Batch(config, 3, seed=0, num_threads=1)
    saved = env.state_dict()
    saved["rows"][1, 4:8] = [0, 1, 0, 0]  # on its back
    env.load_state_dict(saved)
    result = env.step(np.zeros((3, 12), np.float32))
    np.testing.assert_array_equal(result.terminated, [False, True, False])
    np.testing.assert_array_equal(result.truncated, [True, False, True])
    assert (env.counters.falls, env.counters.timeouts, env.counters.episodes) == (1, 2, 3)


def test_accounting_adds_up():
    env, rng = Go2Batch(task("go2", episode__length=1.0), 50, seed=0, num_threads=2), np.random.default_rng(0)
    returns, lengths, ended_count = np.zeros(50), np.zeros(50, int), 0
    ages = env.state_dict()["record_steps"].astype(int)
    assert np.ptp(ages) > 25, "episode clocks start staggered"
    for _ in range(120):
        result = env.step(wild(rng, 50))
        returns, lengths, ages = returns + result.reward, lengths + 1, ages + 1
        np.testing.assert_allclose(result.episode_return, returns, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(result.episode_length, lengths)
        assert (ages <= 50).all()
        ended = result.terminated | result.truncated
        returns[ended], lengths[ended], ages[ended] = 0.0, 0, 0
        ended_count += int(ended.sum())
    c = env.counters
    assert (c.policy_steps, c.physics_steps) == (6_000, 24_000)
    assert c.simulated_seconds == pytest.approx(120.0)
    assert c.episodes == ended_count == c.falls + c.timeouts
    assert min(c.falls, c.timeouts) > 0 and c.blowups == 0


def test_periodic_commands_are_staggered_with_the_episodes():
    """A robot of age 7.5 s gets its next command 2.5 s later, at 10 s of its episode."""
    env = Go2Batch(task("go2_unitree"), 30, seed=0, num_threads=1)
    saved = env.state_dict()
    np.testing.assert_array_equal(saved["record_wait"], 500 - saved["record_steps"] % 500)


def test_episodes_all_start_at_zero_without_stagger():
    env = Go2Batch(task("go2", episode__stagger=False), 5, seed=0, num_threads=1)
    assert not env.state_dict()["record_steps"].any()


@pytest.mark.parametrize("damage", ["nan position", "infinite speed", "huge speed", "far below"])
def test_blowups_never_reach_the_learner(damage):
    env = Go2Batch(task("go2", episode__stagger=False), 6, seed=0, num_threads=2)
    twin = Go2Batch(task("go2", episode__stagger=False), 6, seed=0, num_threads=2)
    saved = env.state_dict()
    column, value = {
        "nan position": (8, np.nan),
        "infinite speed": (30, np.inf),
        "huge speed": (20, 5e3),
        "far below": (3, -9.0),
    }[damage]
    saved["rows"][2, column] = value
    env.load_state_dict(saved)
    actions = np.zeros((6, 12), np.float32)
    result, healthy = env.step(actions), twin.step(actions)
    np.testing.assert_array_equal(result.diverged, np.arange(6) == 2)
    assert result.terminated[2] and not result.truncated[2] and result.reward[2] == 0.0
    for values in (result.obs, result.final_obs, result.reward_terms, result.episode_return):
        assert np.isfinite(values).all()
    others = np.arange(6) != 2
    np.testing.assert_array_equal(result.reward[others], healthy.reward[others])
    assert (env.counters.blowups, env.counters.falls, env.counters.episodes) == (1, 0, 1)
    for _ in range(20):  # and it lives on
        result = env.step(actions)
        assert not result.diverged.any() and np.isfinite(result.obs).all()
    assert env.counters.blowups == 1


def test_commands_can_be_held():
    config = task("go2_unitree", observations__noise=False, episode__length=0.2)
    env, still = Go2Batch(config, 8, seed=0, num_threads=1), np.zeros((8, 12), np.float32)
    obs = env.set_commands(np.array([0.5, -0.25, 0.75]))
    at, held = starts(env)[3], np.tile([1.0, -0.5, 0.1875], (8, 1))  # scaled by 2, 2, 0.25
    np.testing.assert_allclose(obs[:, at : at + 3], held)
    for _ in range(25):
        np.testing.assert_allclose(env.step(still).obs[:, at : at + 3], held)
    assert env.counters.timeouts > 0
    env.set_commands(None)
    env.step(still)
    assert len(np.unique(env.state.command, axis=0)) > 4


def test_the_gaits_clock_counts_from_the_reset():
    config = task("go2", episode__stagger=False, gait__random_phase=False)
    env = Go2Batch(config, 2, seed=0, num_threads=1)
    env.set_commands(np.array([1.0, 0.0, 0.0]))
    for k in range(1, 60):
        phase = env.step(np.zeros((2, 12), np.float32)).obs[:, -2:]
        angle = 2 * np.pi * 2.0 * 0.02 * k
        np.testing.assert_allclose(phase, np.tile([np.sin(angle), np.cos(angle)], (2, 1)), atol=1e-5)
