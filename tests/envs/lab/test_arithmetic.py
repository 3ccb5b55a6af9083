"""Section E: hours by hand."""

import math

from envs import EnvConfig
from envs.lab import arithmetic
from envs.lab.common import Lab


def test_hours_are_physics_steps_over_the_best_rate(rows):
    lab = Lab(EnvConfig.preset("go2"), quick=False, results={"C": rows})
    hours = arithmetic.measure(lab)["hours"]
    expected = 589_824_000 / 160_000 / 3600  # 8 robots on 2 threads; the Python loop does not count
    assert [(r["state"], r["engine"]) for r in hours] == [("standing", "herd"), ("training", "herd")]
    assert all(math.isclose(r["hours"], expected) for r in hours)
