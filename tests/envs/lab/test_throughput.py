"""Section C: rates by hand."""

import numpy as np

from envs import EnvConfig
from envs.lab import common, throughput
from envs.lab.engines import PythonLoop


def test_steps_per_second_are_physics_steps_over_both_clocks(monkeypatch):
    times = iter(np.array([[10.0, 1.0], [12.0, 5.0]]))
    monkeypatch.setattr(throughput, "clocks", lambda: next(times))
    config = EnvConfig.preset("go2")
    work = common.collect(config, 0.1, warmup=0, robots=2, steps=3)
    rate = throughput.steps_per_second(PythonLoop(config, 2), work, config.physics.decimation)
    np.testing.assert_allclose(rate, [2 * 3 * 2 / 2.0, 2 * 3 * 2 / 4.0])
