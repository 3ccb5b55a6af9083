"""The task's terms are the same functions on NumPy arrays and torch tensors: same states, same numbers."""

import dataclasses
import itertools
import sys

import numpy as np
import pytest
import torch

from envs import make_pool
from envs.go2.mdp import commands, resets, rewards, terminations
from envs.go2.mdp.observations import TERMS
from envs.go2.mdp.state import State
from envs.go2.mjbatch.batch import Go2Batch
from envs.go2.robot import physics
from rigs.go2_tasks import task


def tensors(state: State) -> State:
    """A copy of a state as torch tensors."""
    copies = {f.name: torch.tensor(getattr(state, f.name)) for f in dataclasses.fields(State)}
    return State(**copies)


@pytest.fixture(scope="module")
def states() -> list[State]:
    """States of unitree_rl_gym's task, which sees every contact, as robots stumble; one lies on its back."""
    env, rng = Go2Batch(task("go2_unitree"), 24, seed=0, num_threads=1), np.random.default_rng(0)
    seen = []
    for _ in range(30):
        before = env.state.joint_vel.copy()
        env.step((1.5 * rng.normal(size=(24, 12))).astype(np.float32))
        state = env.state.rows(np.arange(24))
        state.last_joint_vel[:] = before
        state.qpos[-1, 3:7] = [0, 1, 0, 0]
        state.derive()
        seen.append(state)
    return seen


@pytest.mark.parametrize("name", rewards.TERMS)
def test_reward_terms(states, name):
    config, spread = task("go2").rewards, 0.0
    for state in states:
        expected = rewards.TERMS[name](state, config)
        given = rewards.TERMS[name](tensors(state), config)
        assert isinstance(given, torch.Tensor) and given.dtype == torch.float32
        np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-5)
        spread = max(spread, float(np.ptp(expected)))
    assert spread > 0, "every state gives the same number: nothing was compared"


@pytest.mark.parametrize("name", TERMS)
def test_observation_terms(states, name):
    for state in states:
        expected = TERMS[name][1](state)
        np.testing.assert_allclose(TERMS[name][1](tensors(state)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("preset", ["go2", "go2_unitree"])
def test_whole_observations_rewards_and_terminations(states, preset):
    env = Go2Batch(task(preset, observations__noise=False), 1, seed=0, num_threads=1)
    fell = 0
    for state in states:
        twin = tensors(state)
        out = torch.zeros(24, env.observer.dim)
        env.observer.observe(twin, None, out=out)
        np.testing.assert_allclose(out, env.observer.observe(state, None), rtol=1e-5, atol=1e-5)
        terms, twins = env.rewarder.terms(state), env.rewarder.terms(twin)
        np.testing.assert_allclose(twins, terms, rtol=1e-5, atol=1e-5)
        total = env.rewarder.total(terms)
        np.testing.assert_allclose(env.rewarder.total(twins), total, rtol=1e-5, atol=1e-5)
        expected = terminations.fallen(state, env.config.terminations)
        np.testing.assert_array_equal(terminations.fallen(twin, env.config.terminations), expected)
        fell += int(expected.sum())
    assert 0 < fell < 24 * len(states)


def test_what_follows_from_motion_and_contacts(states):
    config = task("go2_unitree").commands
    for before, after in itertools.pairwise(states):
        host, twin = before.rows(np.arange(24)), tensors(before)
        host.foot_force[:] = after.foot_force
        twin.foot_force[:] = torch.tensor(after.foot_force)
        host.set_motion(after.qpos, after.qvel)
        twin.set_motion(torch.tensor(after.qpos), torch.tensor(after.qvel))
        host.update_contacts(0.02)
        twin.update_contacts(0.02)
        for f in dataclasses.fields(State):
            expected = getattr(host, f.name)
            np.testing.assert_allclose(getattr(twin, f.name), expected, rtol=1e-5, atol=1e-5)
        steered = commands.steer(host.heading, host.yaw, config)
        np.testing.assert_allclose(commands.steer(twin.heading, twin.yaw, config), steered, atol=1e-5)
        joints = host.qpos[:, 7:]
        height = resets.standing_height(torch.tensor(joints))
        np.testing.assert_allclose(height, resets.standing_height(joints), rtol=1e-5)


def test_impossible_numbers():
    arrays = [np.ones((5, 19), np.float32), *(np.ones((5, k), np.float32) for k in (18, 36, 12))]
    arrays[0][1, 2], arrays[1][2, 0], arrays[2][3, 0], arrays[3][4, 0] = 6.0, 1e4, np.nan, np.inf
    expected = physics.has_diverged(*arrays)
    np.testing.assert_array_equal(expected, [False, True, True, True, True])
    twins = (torch.tensor(array) for array in arrays)
    np.testing.assert_array_equal(physics.has_diverged(*twins), expected)


def test_without_the_extra_one_line_says_what_to_do(monkeypatch):
    config = dataclasses.replace(task("go2"), backend="warp")
    for name in [name for name in sys.modules if name.startswith("envs.go2.warp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mujoco_warp", None)
    monkeypatch.setitem(sys.modules, "warp", None)
    with pytest.raises(ValueError, match=r"env\.backend='warp': must be mjbatch, or .*herd\[gpu\]"):
        make_pool(config, batch_size=1, num_batches=1, seed=0)
