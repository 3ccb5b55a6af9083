"""The fast path is MuJoCo, bit for bit: batch = lone simulations = mujoco.rollout = the reference VecEnv."""

import mujoco
import numpy as np
import pytest
from mujoco import rollout

from envs.go2 import model
from envs.go2.batch import Go2Batch
from envs.go2.simulation import Simulation
from envs.vecenv import VecEnv
from rigs.go2_tasks import task


def start(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    joints = model.DEFAULT_JOINT_POS + rng.uniform(-0.1, 0.1, (n, 12))
    base = np.tile([0, 0, 0.3, 1, 0, 0, 0], (n, 1))
    return np.concatenate([base, joints], axis=1), rng.uniform(-0.5, 0.5, (n, 18))


@pytest.mark.parametrize("physics", ["fast", "unitree", "menagerie"])
def test_batch_is_lone_simulations_and_rollout(physics):
    """500 physics steps with random targets; the greatest difference is exactly 0."""
    n, steps, decimation = 4, 125, 4
    m = model.build(physics)
    rng = np.random.default_rng(0)
    qpos, qvel = start(rng, n)
    targets = model.DEFAULT_JOINT_POS + 0.3 * rng.normal(size=(steps, n, 12))

    simulation = Simulation(m, n, num_threads=2)
    simulation.place(np.arange(n), qpos, qvel)
    for target in targets:
        assert not simulation.step(target, target, np.zeros(n, np.int32), decimation).any()

    lone = [mujoco.MjData(m) for _ in range(n)]
    initial = np.empty((n, mujoco.mj_stateSize(m, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
    for i, d in enumerate(lone):
        mujoco.mj_resetDataKeyframe(m, d, 0)
        d.qpos[:], d.qvel[:] = qpos[i], qvel[i]
        mujoco.mj_getState(m, d, initial[i], mujoco.mjtState.mjSTATE_FULLPHYSICS)
        for target in targets[:, i]:
            d.ctrl[:] = target
            mujoco.mj_step(m, d, nstep=decimation)
        assert np.abs(simulation.qpos[i] - d.qpos).max() == 0.0
        assert np.abs(simulation.qvel[i] - d.qvel).max() == 0.0

    controls = np.repeat(targets.transpose(1, 0, 2), decimation, axis=1)
    states, _ = rollout.rollout(m, [mujoco.MjData(m) for _ in range(2)], initial, controls)
    assert np.abs(states[:, -1, 1:20] - simulation.qpos).max() == 0.0
    assert np.abs(states[:, -1, 20:38] - simulation.qvel).max() == 0.0


@pytest.mark.parametrize("name", ["go2", "go2_unitree"])
def test_the_fast_environment_is_the_reference(name):
    """The fast environment's robots, controls included, against VecEnv until one of them ends an episode."""
    config = task(name, randomization__friction=None, randomization__push_interval=None)
    env = Go2Batch(config, 6, seed=0, num_threads=2)
    starts = iter(env.state_dict()["rows"])

    def reset(m: mujoco.MjModel, d: mujoco.MjData, rng: np.random.Generator) -> None:
        mujoco.mj_setState(m, d, next(starts), mujoco.mjtState.mjSTATE_INTEGRATION)

    # Limits so wide that the reference never resets: the comparison ends with the first episode instead.
    wide = dict(max_roll=9.0, max_pitch=9.0, min_height=-9.0)
    reference = VecEnv(env.model, 6, reset, np.random.default_rng(0), config.physics.decimation, **wide)
    reference.reset()
    rng = np.random.default_rng(1)
    compared = 0
    for _ in range(100):
        actions = rng.normal(0, 0.3, (6, 12)).astype(np.float32)
        result = env.step(actions)
        targets = model.DEFAULT_JOINT_POS + config.control.action_scale * actions.astype(np.float64)
        obs, _, _ = reference.step(targets)
        if (result.terminated | result.truncated).any():
            break
        qpos = env.state_dict()["rows"][:, 1:20]  # after the time, see mjSTATE_INTEGRATION
        assert np.abs(qpos - np.array([d.qpos for d in reference.datas])).max() == 0.0
        np.testing.assert_allclose(env.state.projected_gravity, obs[:, 1:4], atol=1e-6)
        np.testing.assert_allclose(env.state.joint_vel, obs[:, 22:34], rtol=1e-6)
        compared += 1
    assert compared > 10
