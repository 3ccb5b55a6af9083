"""Observation terms by hand."""

import math

import numpy as np

from envs.go2.mdp import observations


def test_gait_phase_hides_when_standing(state):
    state.clock[:] = 0.125  # an eighth of a cycle: 45 degrees
    state.command[0] = [0.0, 0.0, 0.02]
    state.command[1] = [0.006, 0.007, 0.0]  # norm 0.0092: still standing
    half = math.sqrt(0.5)
    np.testing.assert_allclose(observations.gait_phase(state), [[half, half], [0, 0]], atol=1e-6)
