"""MuJoCo Warp on the CPU: it is MuJoCo's physics, robot by robot, and a batch promises what Go2Batch does."""

import dataclasses

import mujoco
import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from envs import EnvConfig, make_pool
from envs.go2.mdp import resets
from envs.go2.robot import constants
from rigs.go2_tasks import RANDOMISED, randomised, task

pytest.importorskip("mujoco_warp", reason="MuJoCo Warp is not installed: pip install 'herd[gpu]'")

from envs.go2.warp.batch import WarpBatch
from envs.go2.warp.simulation import adapt

N = 8
RANDOM = RANDOMISED | dict(randomization__action_delay=[0.0, 0.01])


def make(seed: int = 0, **changes) -> WarpBatch:
    return WarpBatch(task("go2", **changes), N, (seed, 0), torch.device("cpu"))


def wild(generator: torch.Generator) -> torch.Tensor:
    """Actions that make robots fall."""
    return 1.5 * torch.randn(N, 12, generator=generator)


def copies(result) -> dict[str, np.ndarray]:
    """A result's tensors; final observations only where they are valid."""
    arrays = {k: v.numpy().copy() for k, v in vars(result).items() if k != "stamps"}
    arrays["final_obs"][~(result.terminated | result.truncated).numpy()] = 0.0
    return arrays


@pytest.fixture(scope="module")
def various() -> WarpBatch:
    """Robots of their own kinds, dropped from 1 cm: no foot just touches, which rounding would decide."""
    return make(**RANDOM, episode__stagger=False, resets__height=0.34)


def test_randomisation_is_per_robot_and_in_range(various):
    saved = various.state_dict()
    for values, low, high in randomised(saved, various.mj_model):
        assert low - 1e-6 <= values.min() and values.max() <= high + 1e-6
        assert len(np.unique(values)) == N and values.std() > 0.1 * (high - low)
    assert {0, 1} <= set(saved["record_delay"]) <= {0, 1, 2}  # at most 10 ms, in steps of 5 or 10


def test_randomised_physics_is_mujocos(various):
    """40 physics steps of every robot against MuJoCo with that robot's own model; feet carry and slip."""
    batch, config = various, various.config
    saved = batch.state_dict()
    lone = []
    for i in range(N):
        m = adapt(batch.mj_model)
        for name in (key for key in saved if key.startswith("model.")):
            getattr(m, name.removeprefix("model."))[:] = saved[name][i]
        d = mujoco.MjData(m)
        mujoco.mj_setConst(m, d)
        mujoco.mj_resetDataKeyframe(m, d, 0)
        d.qpos[:], d.qvel[:] = saved["state.qpos"][i], saved["state.qvel"][i]
        lone.append((m, d))
    generator, before = torch.Generator().manual_seed(0), np.tile(constants.DEFAULT_JOINT_POS, (N, 1))
    pushed = 0.0
    for _ in range(20):
        actions = 0.5 * torch.randn(N, 12, generator=generator)
        assert not (batch.step(actions).terminated | batch.result.truncated).any()
        target = constants.DEFAULT_JOINT_POS + config.control.action_scale * actions.numpy().astype(float)
        for i, (m, d) in enumerate(lone):
            for substep in range(config.physics.decimation):
                d.ctrl[:] = before[i] if substep < saved["record_delay"][i] else target[i]
                mujoco.mj_step(m, d)
        before = target
        state = batch.state
        np.testing.assert_allclose(state.qpos, [d.qpos for _, d in lone], atol=1e-4)
        np.testing.assert_allclose(state.qvel, [d.qvel for _, d in lone], atol=5e-3)
        np.testing.assert_allclose(state.torque, [d.actuator_force for _, d in lone], atol=1e-2)
        sensors = np.array([d.sensordata for _, d in lone])
        np.testing.assert_allclose(state.foot_pos.reshape(N, 12), sensors[:, :12], atol=1e-4)
        np.testing.assert_allclose(state.foot_vel.reshape(N, 12), sensors[:, 12:24], atol=5e-3)
        force = -sensors[:, 24:36]
        np.testing.assert_allclose(state.foot_force.reshape(N, 12), force, rtol=1e-2, atol=0.5)
        pushed = max(pushed, float(force[:, 2::3].max()))
    assert pushed > 50.0  # N


def test_the_result_is_of_the_physics_own_memory(various):
    """Positions are Warp's arrays: what is written there is what the terms read, without a copy."""
    ours, theirs = various.state.qpos, various.simulation.data.qpos
    assert ours.data_ptr() == theirs.ptr


class OnlyMeta(TorchDispatchMode):
    """Holds every operation to tensors without contents; reading from one is an error of torch's own."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for value in tree_leaves((args, kwargs)):
            assert not isinstance(value, torch.Tensor) or value.is_meta, f"{func}: a tensor of the host"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("preset", ["go2", "go2_unitree"])
def test_a_step_reads_nothing_and_brings_nothing(preset):
    """A step meets the demands of CUDA graphs, on the meta device: it reads no value and brings no tensor."""
    changes = dict(randomization__push_interval=0.1, randomization__action_delay=[0.0, 0.01])
    env = WarpBatch(task(preset, observations__noise=True, **changes), N, (0, 0), torch.device("cpu"))
    for part in (env, env.state, env.result, env.records, env.simulation, env.rng):
        tensors = {k: v.to("meta") for k, v in vars(part).items() if isinstance(v, torch.Tensor)}
        vars(part).update(tensors)
    env.rng.generator = None  # torch has none for this device
    env.finish_step()  # makes the constants
    with OnlyMeta():
        env.set_targets()
        env.finish_step()


def test_resets_timeouts_and_accounting():
    env = make(episode__length=0.3, commands__resample_time=0.1)
    assert len(np.unique(env.state_dict()["record_steps"])) > 3, "episode clocks start staggered"
    generator, at = torch.Generator().manual_seed(0), {}
    for name, dim, _ in env.observer.terms:
        at[name] = slice(sum(d for n, d, _ in env.observer.terms[: len(at)]), None)
        at[name] = slice(at[name].start, at[name].start + dim)
    returns, lengths, ends, steps = np.zeros(N), np.zeros(N), [0, 0], 40
    for _ in range(steps):
        before, actions = env.state_dict(), wild(generator)
        r = copies(env.step(actions))
        after, ended = env.state_dict(), r["terminated"] | r["truncated"]
        aged = before["record_steps"] + 1
        np.testing.assert_array_equal(r["truncated"], (aged >= 15) & ~r["terminated"])
        np.testing.assert_array_equal(after["record_steps"], np.where(ended, 0, aged))
        returns, lengths = returns + r["reward"], lengths + 1
        np.testing.assert_allclose(r["episode_return"], returns, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(r["episode_length"], lengths)
        returns[ended], lengths[ended] = 0.0, 0
        # Ended episodes show their last state in final_obs and a new start in obs; the others continue.
        np.testing.assert_array_equal(r["final_obs"][ended, at["last_action"]], actions[ended])
        np.testing.assert_array_equal(r["final_obs"][ended, at["command"]], before["state.command"][ended])
        np.testing.assert_array_equal(r["obs"][ended, at["last_action"]], 0.0)
        np.testing.assert_array_equal(r["obs"][~ended, at["last_action"]], actions[~ended])
        assert (r["obs"][ended, at["projected_gravity"]] == [0, 0, -1]).all()
        np.testing.assert_array_equal(after["state.qvel"][ended], 0.0)
        feet = resets.standing_height(after["state.qpos"][ended, 7:])
        np.testing.assert_allclose(after["state.qpos"][ended, 2], feet, atol=1e-6)
        np.testing.assert_array_equal(r["obs"][:, at["command"]], after["state.command"])
        kept = (before["record_wait"] > 1) & ~ended
        np.testing.assert_array_equal(after["state.command"][kept], before["state.command"][kept])
        ends[0] += int(r["terminated"].sum())
        ends[1] += int(r["truncated"].sum())
    counters, decimation = env.counters, env.config.physics.decimation
    assert (counters.falls, counters.timeouts) == tuple(ends) and min(ends) > 0
    assert (counters.policy_steps, counters.physics_steps) == (N * steps, N * steps * decimation)
    assert counters.episodes == sum(ends) and counters.simulated_seconds == pytest.approx(N * steps * 0.02)


def test_pushes_set_the_velocity():
    env = make(randomization__push_interval=0.04, randomization__push_velocity=3.0, episode__stagger=False)
    speeds = [float(env.step(torch.zeros(N, 12)) and env.state.qvel[:, :2].abs().max()) for _ in range(2)]
    assert speeds[0] < 1.0 < speeds[1] <= 3.0


def test_blowups_never_reach_the_learner():
    env, twin = make(episode__stagger=False), make(episode__stagger=False)
    env.state.qpos[2, 8], env.state.qvel[5, 3] = torch.nan, 5e3
    result, healthy = copies(env.step(torch.zeros(N, 12))), copies(twin.step(torch.zeros(N, 12)))
    bad = np.isin(np.arange(N), [2, 5])
    np.testing.assert_array_equal(result["diverged"], bad)
    np.testing.assert_array_equal(result["terminated"], bad)
    np.testing.assert_array_equal(result["reward"][bad], 0.0)
    np.testing.assert_array_equal(result["reward"][~bad], healthy["reward"][~bad])
    assert all(np.isfinite(values).all() for values in result.values())
    for _ in range(5):  # and they live on
        result = copies(env.step(torch.zeros(N, 12)))
        assert not result["diverged"].any() and all(np.isfinite(values).all() for values in result.values())
    assert (env.counters.blowups, env.counters.falls, env.counters.episodes) == (2, 0, 2)


def test_a_pool_has_the_cpus_interface_and_resumes():
    config: EnvConfig = dataclasses.replace(task("go2", **RANDOM, observations__noise=True), backend="warp")
    pool, other = (make_pool(config, batch_size=N, num_batches=1, seed=seed) for seed in (0, 1))
    cpu = make_pool(task("go2"), batch_size=N, num_batches=1, seed=0, num_threads=1)
    for name in ("obs_dim", "action_dim", "policy_rate", "decimation", "observation_terms", "reward_names"):
        assert getattr(pool, name) == getattr(cpu, name)
    assert (pool.device, cpu.device) == ("cpu", None)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        pool.step(0, wild(generator))
    saved = pool.state_dict(0)
    other.load_state_dict(0, saved)
    for _ in range(15):
        actions = wild(generator)
        expected, given = (copies(p.step(0, actions).result()) for p in (pool, other))
        for name in expected:
            np.testing.assert_array_equal(given[name], expected[name], err_msg=name)
    assert pool.counters == other.counters and pool.counters.policy_steps == 20 * N
    with pytest.raises(ValueError, match=r"model\.\w+: saved by a different task"):
        make(seed=3).load_state_dict(saved)
    with pytest.raises(ValueError, match=r"must be a torch tensor float32\[8, 12\]"):
        pool.step(0, np.zeros((N, 12), np.float32))
    held = pool.set_commands(0, np.array([0.5, 0.0, 0.25]))
    pool.step(0, wild(generator))
    np.testing.assert_array_equal(pool.state(0).command, [[0.5, 0.0, 0.25]] * N)
    assert held.shape == (N, pool.obs_dim)
    for each in (pool, other, cpu):
        each.close()
