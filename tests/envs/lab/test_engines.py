"""Every engine ends where MuJoCo ends."""

import numpy as np
import pytest

from envs import EnvConfig
from envs.lab import common
from envs.lab.engines import ENGINES, PythonLoop


@pytest.mark.parametrize("name", ENGINES)
def test_a_timed_run_takes_the_steps_it_was_given(name):
    """Each engine ends where MuJoCo ends: from the last state of the work, one policy step later."""
    config = common.simulations(EnvConfig.preset("go2"))["task"]
    visited = common.collect(config, 0.3, warmup=5, robots=3, steps=2)
    engine = ENGINES[name](config, 3, 2)
    engine.prepare(visited)
    engine.run()
    if name == "rollout":
        reached = engine.state[:, -1, 1:20]
    else:
        rows = engine.rows if name == "mjbatch" else engine.batch.state_dict()["rows"]
        reached = rows[:, 1:20]
    loop = PythonLoop(config, 3)
    loop.prepare(visited)
    loop.run()
    np.testing.assert_array_equal(reached, [data.qpos for data in loop.datas])
