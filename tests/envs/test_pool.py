"""The pool: futures, refused calls, and one batch's physics running while another's terms are computed."""

import threading

import numpy as np
import pytest

from envs import make_pool
from envs.go2.mdp.rewards import Rewarder
from envs.go2.mjbatch.batch import Go2Batch
from envs.go2.mjbatch.simulation import Simulation
from rigs.go2_tasks import task

TIMEOUT = 30.0  # s, bounds a hang


@pytest.fixture
def pool():
    pool = make_pool(task("go2"), batch_size=8, num_batches=2, seed=0, num_threads=1)
    yield pool
    pool.close()


def zeros(n: int = 8) -> np.ndarray:
    return np.zeros((n, 12), np.float32)


def test_sizes_and_names(pool):
    assert (pool.obs_dim, pool.action_dim, pool.decimation) == (50, 12, 4)
    assert (pool.control_dt, pool.policy_rate) == (0.02, 50.0)
    assert [name for name, _, _ in pool.observation_terms] == [
        *("base_lin_vel", "base_ang_vel", "projected_gravity", "joint_pos", "joint_vel", "last_action"),
        *("command", "gait_phase"),
    ]
    assert sum(dim for _, dim, _ in pool.observation_terms) == 50
    obs = pool.reset(1)
    assert obs.shape == (8, 50) and obs.dtype == np.float32
    result = pool.step(1, zeros()).result(TIMEOUT)
    assert result.reward_terms.shape == (len(pool.reward_names),)
    kinds = {name: (values.shape, values.dtype) for name, values in vars(result).items() if name != "stamps"}
    assert kinds["obs"] == kinds["final_obs"] == ((8, 50), np.float32)
    assert kinds["terminated"] == kinds["truncated"] == kinds["diverged"] == ((8,), np.bool_)
    assert kinds["episode_length"] == ((8,), np.int32)
    for name in ("reward", "episode_return", "lin_vel_error", "yaw_rate_error"):
        assert kinds[name] == ((8,), np.float32)


def test_counters_sum_over_batches(pool):
    pool.step(0, zeros()).result(TIMEOUT)
    pool.step(1, zeros()).result(TIMEOUT)
    snapshot = pool.counters
    pool.step(1, zeros()).result(TIMEOUT)
    assert (snapshot.policy_steps, snapshot.physics_steps) == (16, 64)
    assert pool.counters.policy_steps == 24


def test_batches_differ_and_do_not_influence_each_other(pool):
    alone = make_pool(task("go2"), batch_size=8, num_batches=1, seed=0, num_threads=1)
    assert (pool.reset(0) != pool.reset(1)).any()
    alone.reset(0)
    for _ in range(5):
        futures = [pool.step(0, zeros()), pool.step(1, zeros())]
        result = alone.step(0, zeros()).result(TIMEOUT)
        np.testing.assert_array_equal(futures[0].result(TIMEOUT).obs, result.obs)
        futures[1].result(TIMEOUT)
    alone.close()


def test_actions_are_copied_at_once(pool, monkeypatch):
    gate = hold_steps(monkeypatch)
    pool.state(0).action[:] = 0.0
    actions = np.full((8, 12), 0.125, np.float32)
    future = pool.step(0, actions)
    actions[:] = 9.0
    gate.set()
    future.result(TIMEOUT)
    np.testing.assert_array_equal(pool.state(0).action, 0.125)


def test_calls_in_flight_are_refused(pool, monkeypatch):
    gate = hold_steps(monkeypatch)
    future = pool.step(0, zeros())
    for call in (
        lambda: pool.step(0, zeros()),
        lambda: pool.reset(0),
        lambda: pool.state_dict(0),
        lambda: pool.state(0),
    ):
        with pytest.raises(RuntimeError, match="batch 0: a step is in flight"):
            call()
    pool.reset(1)  # the other batch is at rest
    gate.set()
    future.result(TIMEOUT)
    pool.step(0, zeros()).result(TIMEOUT)


def hold_steps(monkeypatch) -> threading.Event:
    """Makes the workers' steps wait for an event."""
    gate, step = threading.Event(), Go2Batch.advance

    def waiting(*args):
        assert gate.wait(TIMEOUT)
        return step(*args)

    monkeypatch.setattr(Go2Batch, "advance", waiting)
    return gate


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((7, 12), np.float32), r"actions=float32\[7, 12\]: must be a NumPy array float32\[8, 12\]"),
        (np.zeros((8, 12)), r"actions=float64\[8, 12\]"),
        ([[0.0] * 12] * 8, r"actions=list\[8, 12\]"),
        (np.full((8, 12), np.nan, np.float32), "actions: must be finite"),
    ],
)
def test_wrong_actions_are_refused(pool, actions, message):
    with pytest.raises(ValueError, match=message):
        pool.step(0, actions)


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="batch_size=0: must be >= 1"):
        make_pool(task("go2"), batch_size=0, num_batches=2, seed=0)


def test_state_of_a_pool_resumes(pool):
    for _ in range(3):
        pool.step(0, zeros()).result(TIMEOUT)
    other = make_pool(task("go2"), batch_size=8, num_batches=2, seed=5, num_threads=1)
    other.load_state_dict(1, pool.state_dict(0))
    expected = np.array(pool.step(0, zeros()).result(TIMEOUT).obs)
    np.testing.assert_array_equal(other.step(1, zeros()).result(TIMEOUT).obs, expected)
    other.close()


def test_physics_runs_while_python_works():
    """Both batches' physics, one thread each, are under way at the same time at least once in ten steps."""
    pool = make_pool(task("go2"), batch_size=512, num_batches=2, seed=0, num_threads=1)
    overlaps = 0
    for _ in range(10):
        futures = [pool.step(i, zeros(512)) for i in range(2)]
        stamps = [future.result(TIMEOUT).stamps for future in futures]
        for physics_began, physics_ended, terms_ended in stamps:
            assert physics_began <= physics_ended <= terms_ended
        (began_0, ended_0, _), (began_1, ended_1, _) = stamps
        overlaps += max(began_0, began_1) < min(ended_0, ended_1)
    assert overlaps > 0
    pool.close()


def test_physics_of_one_batch_begins_while_the_other_is_at_its_terms(pool, monkeypatch):
    """Batch 0's terms are held until batch 1's physics has begun; waiting for each other would time out."""
    begun, step, terms = threading.Event(), Simulation.step, Rewarder.terms

    def physics(simulation, *args):
        if threading.current_thread().name.startswith("envs-1"):
            begun.set()
        return step(simulation, *args)

    def held(rewarder, state):
        assert threading.current_thread().name.startswith("envs-1") or begun.wait(TIMEOUT)
        return terms(rewarder, state)

    monkeypatch.setattr(Simulation, "step", physics)
    monkeypatch.setattr(Rewarder, "terms", held)
    first = pool.step(0, zeros())
    second = pool.step(1, zeros())
    assert second.result(TIMEOUT).stamps[0] < first.result(TIMEOUT).stamps[2]
