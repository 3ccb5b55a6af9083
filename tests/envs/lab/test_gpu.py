"""Section G: the GPU backend from given states, and its comparison with the CPU."""

import mujoco
import numpy as np
import pytest
from rich.console import Console

from envs import EnvConfig
from envs.lab import common, gpu
from envs.lab.__main__ import main
from envs.lab.engines import PythonLoop


def test_the_gpu_environment_starts_from_the_states_it_was_given():
    """One policy step of MuJoCo Warp, on its CPU device, ends where MuJoCo ends."""
    pytest.importorskip("mujoco_warp", reason="MuJoCo Warp is not installed: pip install 'herd[gpu]'")
    config = common.simulations(EnvConfig.preset("go2"))["task"]
    visited = common.collect(config, 0.3, warmup=5, robots=3, steps=1)
    engine, loop = gpu.WarpEnvironment(config, 3, "cpu"), PythonLoop(config, 3)
    loop.model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON  # as Warp's, which has no PGS
    for each in (engine, loop):
        each.prepare(visited)
        each.run()
    reached = [data.qpos for data in loop.datas]
    assert engine.batch.counters.policy_steps == 3
    np.testing.assert_allclose(engine.batch.state.qpos, reached, atol=1e-4)


def test_the_gpu_is_measured_only_where_there_is_one(capsys):
    assert main(["--quick", "--sections", "G"]) == 0
    if gpu.default_device() is None:
        assert "not measured: needs a GPU" in capsys.readouterr().out
    if gpu.is_installed():
        assert main(["--quick", "--sections", "G", "--device", "cpu"]) == 0
        shown = capsys.readouterr().out
        assert "both backends ran" in shown and "per second" not in shown


def test_the_crossover_is_from_where_the_gpu_stays_faster(capsys):
    rows = [dict(robots=n, cpu=2e5, gpu=rate) for n, rate in ((16, 3e5), (64, 1e5), (256, 3e5), (1024, 1e6))]
    assert gpu.crossover(rows) == 256
    assert gpu.crossover(rows[:2]) is None
    gpu.show(Console(), dict(device="cuda:0", name="a GPU", threads=2, rows=rows))
    shown = capsys.readouterr().out
    assert "1,000,000" in shown and "warp is faster from 256 robots upwards" in shown
