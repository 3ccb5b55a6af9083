"""The CPU physics is MuJoCo, bit for bit: batch = lone simulations = mujoco.rollout; blow-ups are caught."""

import mujoco
import numpy as np
import pytest
from mujoco import rollout

from envs.go2.backend import IndexedRows
from envs.go2.mjbatch.batch import Go2Batch
from envs.go2.mjbatch.simulation import Simulation
from envs.go2.robot import constants, mjcf
from rigs.go2_tasks import task


def start(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    joints = constants.DEFAULT_JOINT_POS + rng.uniform(-0.1, 0.1, (n, 12))
    base = np.tile([0, 0, 0.3, 1, 0, 0, 0], (n, 1))
    return np.concatenate([base, joints], axis=1), rng.uniform(-0.5, 0.5, (n, 18))


@pytest.mark.parametrize("physics", ["fast", "unitree", "menagerie"])
def test_batch_is_lone_simulations_and_rollout(physics):
    """500 physics steps with random targets; the greatest difference is exactly 0."""
    n, steps, decimation = 4, 125, 4
    m = mjcf.build_model(physics)
    rng = np.random.default_rng(0)
    qpos, qvel = start(rng, n)
    targets = constants.DEFAULT_JOINT_POS + 0.3 * rng.normal(size=(steps, n, 12))

    simulation = Simulation(m, n, num_threads=2)
    simulation.place(IndexedRows(np.arange(n)), qpos, qvel)
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


def test_delay_counts_physics_steps():
    """A delay of one and of three of four physics steps."""
    m, rows = mjcf.build_model("fast"), IndexedRows(np.arange(2))
    qpos = np.tile(np.concatenate([[0, 0, 0.3, 1, 0, 0, 0], constants.DEFAULT_JOINT_POS]), (2, 1))
    old = np.tile(constants.DEFAULT_JOINT_POS, (2, 1))
    new = old + 0.2
    late, prompt = Simulation(m, 2, num_threads=1), Simulation(m, 2, num_threads=1)
    for simulation in (late, prompt):
        simulation.place(rows, qpos, np.zeros((2, 18)))
    late.step(old, new, np.array([1, 3]), 4)
    none = np.zeros(2, np.int32)
    for substep in range(4):
        target = np.where(substep >= np.array([[1], [3]]), new, old)
        prompt.step(target, target, none, 1)
    np.testing.assert_array_equal(late.rows, prompt.rows)


def test_a_robot_that_mujoco_refuses_is_a_blowup(monkeypatch):
    """mjbatch raises an error that names one simulation; it stays where it was and the others go on."""
    env = Go2Batch(task("go2", episode__stagger=False), 4, seed=0, num_threads=1)
    twin = Go2Batch(task("go2", episode__stagger=False), 4, seed=0, num_threads=1)

    class Refusing:
        def __init__(self, batch):
            self.batch = batch

        def step(self, nstep):
            self.batch.step(ids=np.array([0, 2]), nstep=nstep)
            raise RuntimeError("sim 1: mj_stackAlloc: out of memory")

    monkeypatch.setattr(env.simulation, "batch", Refusing(env.simulation.batch))
    actions = np.zeros((4, 12), np.float32)
    result, healthy = env.step(actions), twin.step(actions)
    np.testing.assert_array_equal(result.diverged, [False, True, False, True])
    np.testing.assert_array_equal(result.reward[[0, 2]], healthy.reward[[0, 2]])
    np.testing.assert_array_equal(result.reward[[1, 3]], 0)
    assert np.isfinite(result.obs).all() and env.counters.blowups == 2


def test_blowups_are_quiet(tmp_path, monkeypatch, capfd):
    """No flood on the terminal and no MUJOCO_LOG.TXT in the user's folder."""
    monkeypatch.chdir(tmp_path)
    env = Go2Batch(task("go2"), 2, seed=0, num_threads=1)
    saved = env.state_dict()
    saved["rows"][:, 8] = np.nan
    env.load_state_dict(saved)
    assert env.step(np.zeros((2, 12), np.float32)).diverged.all()
    assert not list(tmp_path.iterdir()) and capfd.readouterr() == ("", "")
