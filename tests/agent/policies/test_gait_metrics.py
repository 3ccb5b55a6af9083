"""The measures of walking, on made-up motions with known answers."""

import math

import numpy as np
import pytest

from agent.policies.gait_metrics import GaitMetrics
from envs.go2.mdp.state import State
from envs.results import StepResult


def standing(n):
    """A state of robots at rest, on all four feet."""
    state = State.zeros(n)
    state.contact[:] = True
    state.foot_pos[:, :, 2] = 0.022  # m, a foot's radius
    state.qpos[:, 2] = 0.3
    return state


def result(n, lin_vel_error=0.0, yaw_rate_error=0.0, terminated=False):
    arrays = {name: np.zeros(n, np.float32) for name in StepResult.__dataclass_fields__}
    arrays |= {"stamps": (0.0,) * 3, "terminated": np.full(n, terminated), "truncated": np.zeros(n, bool)}
    arrays |= {"lin_vel_error": np.full(n, lin_vel_error, np.float32)}
    return StepResult(**arrays | {"yaw_rate_error": np.full(n, yaw_rate_error, np.float32)})


def metrics(n=1, links_touch=True):
    return GaitMetrics(n, dt=0.02, action_scale=0.5, links_touch=links_touch)


def summary(measured, command=(1.0, 0.0, 0.0), mass=10.0):
    commands = np.tile(np.array(command), (measured.n, 1))
    return measured.summarize(np.arange(measured.n), commands, mass)


def test_errors_are_root_mean_squares_over_time():
    measured, state = metrics(), standing(1)
    for error in (0.3, 0.4):
        measured.add(state, result(1, error, 2 * error), np.array([True]))
    found = summary(measured)
    assert found.velocity_error == pytest.approx(math.sqrt((0.09 + 0.16) / 2))
    assert found.yaw_rate_error == pytest.approx(2 * math.sqrt((0.09 + 0.16) / 2))
    assert found.seconds == pytest.approx(0.04)


def test_effort_by_hand():
    """Twelve joints at 2 N m and -3 rad/s: 72 W; 0.5 m/s with 10 kg: 72 / (98.1 x 0.5)."""
    measured, state = metrics(), standing(1)
    state.torque[:], state.qvel[:, 6:] = 2.0, -3.0
    state.base_lin_vel[:, :2] = 0.3, 0.4
    state.action[:], state.last_action[:] = 0.1, -0.1
    for _ in range(5):
        measured.add(state, result(1), np.array([True]))
    found = summary(measured)
    assert found.torque == pytest.approx(2.0)
    assert found.power == pytest.approx(72.0)
    assert found.cost_of_transport == pytest.approx(72 / (10 * 9.81 * 0.5))
    assert found.action_rate == pytest.approx(0.5 * 0.2)
    assert found.velocity == pytest.approx([0.3, 0.4, 0.0])
    assert found.height == pytest.approx(0.3)
    assert summary(measured, command=(0.0, 0.0, 1.0)).cost_of_transport is None


def trot(measured, steps, heights=(0.0, 0.03, 0.05, 0.03), counted=True):
    """Diagonal feet swing in turn, four steps each, through these heights (m); FL's peak is 1 cm higher."""
    state = standing(1)
    for step in range(steps):
        swinging = [0, 3] if step // 4 % 2 == 0 else [1, 2]
        state.contact[:] = True
        state.contact[0, swinging] = False
        state.foot_pos[:, :, 2] = 0.022
        state.foot_pos[0, swinging, 2] += heights[step % 4]
        if 0 in swinging and step % 4 == 2:
            state.foot_pos[0, 0, 2] += 0.01
        state.foot_vel[:] = 0.0
        state.foot_vel[0, :, :2] = np.where(state.contact[0], 0.1, 1.0)[:, None] * (0.6, 0.8)
        measured.add(state, result(1), np.array([counted]))


def test_a_trot_is_recognised():
    measured = metrics()
    trot(measured, 81)  # the last step begins the swing of FL and RR that follows
    found = summary(measured)
    assert found.clearance == pytest.approx([0.06, 0.05, 0.05, 0.05])
    assert found.duty == pytest.approx([40 / 81, 41 / 81, 41 / 81, 40 / 81])
    assert found.trot == 1.0
    assert found.slip == pytest.approx(0.1)
    assert found.steps_per_second == pytest.approx(40 / 4 / (81 * 0.02))


def test_standing_is_no_trot_and_has_no_clearance():
    measured = metrics()
    for _ in range(20):
        measured.add(standing(1), result(1), np.array([True]))
    found = summary(measured)
    assert (found.trot, found.duty, found.steps_per_second) == (0.0, [1.0] * 4, 0.0)
    assert found.clearance == [None] * 4


def test_one_step_in_the_air_is_rattling_and_two_are_a_swing():
    measured, state = metrics(), standing(1)
    for step in range(24):
        state.contact[0] = [step % 2 == 0, step % 3 == 0, True, True]
        measured.add(state, result(1), np.array([True]))
    assert summary(measured).clearance == [None, pytest.approx(0.0), None, None]
    assert summary(measured).steps_per_second == pytest.approx(7 / 4 / (24 * 0.02))
    assert summary(measured).duty == pytest.approx([1 / 2, 1 / 3, 1, 1])


def test_a_fall_counts_and_what_is_not_counted_does_not():
    measured = metrics()
    trot(measured, 82, heights=(0.5, 0.5, 0.5, 0.5), counted=False)
    fresh = State.zeros(1)  # of the new episode, before its first contact
    fresh.qpos[:, 2] = 0.3
    measured.add(fresh, result(1, 9.0, terminated=True), np.array([False]))
    nothing = summary(measured)
    assert (nothing.falls, nothing.seconds) == (1, 0.0)
    assert nothing.velocity_error is None and nothing.duty == [None] * 4
    measured.add(standing(1), result(1, 0.5), np.array([True]))  # the fallen robot's swing does not end here
    assert summary(measured).velocity_error == pytest.approx(0.5)
    assert summary(measured).clearance == [None] * 4


def test_links_that_touch_the_floor_are_seen_where_physics_lets_them():
    seen, unseen, state = metrics(), metrics(links_touch=False), standing(1)
    for step in range(4):
        state.link_force[:] = 0.0
        state.link_force[0, 6, 2] = 5.0 * (step == 0)  # N on one calf
        state.link_force[0, 0, 0] = 2.0 * (step < 2)  # N on the base
        for measured in (seen, unseen):
            measured.add(state, result(1), np.array([True]))
    assert (summary(seen).base_contact, summary(seen).leg_contact) == (0.5, 0.25)
    assert (summary(unseen).base_contact, summary(unseen).leg_contact) == (None, None)
