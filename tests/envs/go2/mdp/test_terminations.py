"""Terminations by hand."""

import math

import numpy as np

from envs.go2.mdp import terminations


def test_terminations_by_hand(state):
    state.projected_gravity[0] = [0.0, -math.sin(0.81), -math.cos(0.81)]  # roll 0.81
    state.projected_gravity[1] = [math.sin(1.01), 0.0, -math.cos(1.01)]  # pitch 1.01
    np.testing.assert_array_equal(terminations.rolled(state, 0.8), [True, False])
    np.testing.assert_array_equal(terminations.pitched(state, 1.0), [False, True])
    np.testing.assert_array_equal(
        terminations.tipped(state, 0.6), [False, True]
    )  # cos 0.81 0.69, cos 1.01 0.53
    state.link_force[0, 0] = [0.8, 0.0, 0.8]
    state.link_force[1, 1:] = 50.0  # thighs and calves do not end an episode
    np.testing.assert_array_equal(terminations.base_touched(state, 1.0), [True, False])
