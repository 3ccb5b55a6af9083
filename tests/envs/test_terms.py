"""The default task's terms, by hand-computed numbers and against a slow float64 loop from MuJoCo's data."""

import math

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from envs.go2 import commands, observations, rewards, terminations
from envs.go2.batch import Go2Batch
from envs.go2.model import JOINT_RANGE
from envs.go2.state import State, gravity_in_base, rotate_inverse
from rigs.go2_tasks import net_forces, preset, task

Q0 = np.array([0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5])


@pytest.fixture
def state() -> State:
    s = State.zeros(2)
    s.projected_gravity[:, 2] = -1.0
    s.qpos[:, 3] = 1.0
    s.qpos[:, 7:] = Q0
    return s


def test_rotations_are_scipys():
    rng = np.random.default_rng(0)
    quats, vectors = rng.normal(size=(50, 4)), rng.normal(size=(50, 3))
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    inverse = Rotation.from_quat(quats, scalar_first=True).inv()
    np.testing.assert_allclose(rotate_inverse(quats, vectors), inverse.apply(vectors), atol=1e-14)
    np.testing.assert_allclose(gravity_in_base(quats), inverse.apply([0, 0, -1]), atol=1e-14)


def test_roll_pitch_and_yaw_are_scipys(state):
    yaw, pitch, roll = 2.5, -0.4, 0.7
    quat = Rotation.from_euler("ZYX", [yaw, pitch, roll]).as_quat(scalar_first=True)
    qpos = np.concatenate([[0, 0, 0.3], quat, Q0])
    state.set_motion(qpos[None], np.zeros((1, 18)), np.array([1]))
    np.testing.assert_allclose([r[1] for r in state.roll_pitch], [roll, pitch], atol=1e-6)
    assert state.yaw[1] == pytest.approx(yaw, abs=1e-6)
    assert state.yaw[0] == 0.0


def test_gait_phase_hides_when_standing(state):
    state.clock[:] = 0.125  # an eighth of a cycle: 45 degrees
    state.command[0] = [0.0, 0.0, 0.02]
    state.command[1] = [0.006, 0.007, 0.0]  # norm 0.0092: still standing
    half = math.sqrt(0.5)
    np.testing.assert_allclose(observations.gait_phase(state), [[half, half], [0, 0]], atol=1e-6)


def test_gait_reward_by_hand(state):
    """A quarter cycle in, FL and RR are at the top of their swing (share 1), FR and RL bear (share 0)."""
    config = task("go2").rewards
    state.clock[:] = 0.25
    state.command[:, 0] = 0.5
    state.foot_pos[:, :, 2] = 0.022 + 0.07  # clearance 7 cm, between 6 and 7.5: as it should be
    state.foot_force[0, 0] = [3.0, 0.0, 4.0]  # 5 N on FL: e^-0.5
    state.foot_pos[0, 3, 2] = 0.022 + 0.025  # RR 3.5 cm too low: e^-1
    state.contact[0, 1:3] = True
    state.foot_vel[0, 2] = [0.1, 0.2, 9.0]  # RL slips at 0.05 (m/s)^2: e^-1; vertical speed is free
    expected = (math.exp(-0.5) + 1.0 + math.exp(-1.0) + math.exp(-1.0)) / 4
    np.testing.assert_allclose(rewards.gait(state, config), [expected, 0.5], rtol=1e-5)
    state.command[:] = 0.0  # standing: all feet should bear
    np.testing.assert_allclose(rewards.gait(state, config)[0], (1.0 + math.exp(-1.0)) / 4, rtol=1e-5)


def test_touchdown_and_air_time_records(state):
    """Down in the second and third step, up for three, down again."""
    # After each step: does the foot land, and how long has it been (or was it) in the air? The filter takes a
    # foot as down for one more step after it has lifted.
    expected = [
        (False, 0.02),
        (True, 0.04),
        (False, 0.02),
        (False, 0.02),
        (False, 0.02),
        (False, 0.04),
        (True, 0.06),
    ]
    record, touching = [], [0, 1, 1, 0, 0, 0, 1]
    for step, touches in enumerate(touching):
        state.foot_force[:, 0, 2] = 5.0 * touches
        state.update_contacts(0.02)
        record.append((bool(state.touchdown[0, 0]), round(float(state.air_time[0, 0]), 3)))
        assert state.contact[0, 0] == bool(touches), step
    assert record == expected


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


def test_steering_wraps_around():
    config = task("go2_unitree").commands
    heading, yaw = np.array([3.0, -3.0, 0.2], np.float32), np.array([-3.0, 3.0, 0.0], np.float32)
    gap = 2 * math.pi - 6.0  # rad, the short way from -3 to 3
    np.testing.assert_allclose(commands.steer(heading, yaw, config), [-gap / 2, gap / 2, 0.1], atol=1e-6)
    np.testing.assert_allclose(commands.steer(np.array([2.5]), np.zeros(1), config), [1.0])


def test_drawn_commands_of_the_default_task():
    config = task("go2").commands
    drawn, _ = commands.draw(np.random.default_rng(0), 20_000, config)
    np.testing.assert_allclose((drawn != 0).mean(axis=0), [0.9, 0.4, 0.6], atol=0.02)
    np.testing.assert_allclose(np.abs(drawn).max(axis=0), [1.0, 0.6, 1.0], atol=0.01)
    waits = commands.draw_wait(np.random.default_rng(0), 20_000, config, 0.02)
    assert waits.min() >= 1 and waits.mean() * 0.02 == pytest.approx(5.0, rel=0.03)


def test_default_rewards_against_a_slow_loop():
    """Every weighted term and the sum, from plain MjData stepped alongside."""
    values = preset("go2")
    config = task("go2", randomization__friction=None, episode__stagger=False, rewards__times_dt=False)
    env, n = Go2Batch(config, 6, seed=5, num_threads=2), 6
    lone = [mujoco.MjData(env.model) for _ in range(n)]
    rows = env.state_dict()["rows"]
    for d, row in zip(lone, rows, strict=True):
        mujoco.mj_setState(env.model, d, row, mujoco.mjtState.mjSTATE_INTEGRATION)
    rng, before, touched = np.random.default_rng(0), np.zeros((n, 12)), np.zeros((n, 4), bool)
    air, totals = np.zeros((n, 4)), np.zeros(10)
    for _ in range(60):
        actions = (0.6 * rng.normal(size=(n, 12))).astype(np.float32)
        command = env.state.command.astype(float)
        clock = (env.state.clock.astype(float) + 2.0 * 0.02) % 1.0
        result = env.step(actions)
        means = np.zeros(10)
        for i, d in enumerate(lone):
            d.ctrl[:] = Q0 + 0.5 * actions[i].astype(float)
            mujoco.mj_step(env.model, d, nstep=4)
            terms = slow_terms(env.model, d, command[i], actions[i], before[i], clock[i], touched[i], air[i])
            assert result.reward[i] == pytest.approx(max(sum(terms.values()), 0.0), rel=1e-4, abs=1e-4)
            up = Rotation.from_quat(d.qpos[3:7], scalar_first=True).as_matrix()[2, 2]
            assert result.terminated[i] == (up < 0.3)
            means += np.array([terms[name] for name in values["rewards"]["weights"]]) / n
            before[i] = actions[i]
        np.testing.assert_allclose(result.reward_terms, means, rtol=1e-4, atol=1e-5)
        totals += np.abs(means)
        if result.terminated.any():
            break
    assert result.terminated.any(), "the run ends with a fall"
    missing = [name for name, total in zip(env.rewarder.names, totals, strict=True) if total == 0]
    assert not missing


def slow_terms(m, d, command, action, last, clock, touched, air) -> dict[str, float]:
    """Weighted terms of the recipe for one robot; updates its contact record in place."""
    inverse = Rotation.from_quat(d.qpos[3:7], scalar_first=True).inv()
    v, up, w = inverse.apply(d.qvel[:3]), inverse.apply([0, 0, 1]), d.qvel[3:6]
    forces, walks = net_forces(m, d)[:4], np.linalg.norm(command) > 0.01
    gait = touchdown = excess = 0.0
    for foot, (name, offset) in enumerate(zip(("FL", "FR", "RL", "RR"), (0.0, 0.5, 0.5, 0.0), strict=True)):
        phi = math.sin(2 * math.pi * (clock + offset))
        share = min(max(0.5 + phi, 0.0), 1.0) if walks else 0.0
        velocity = np.zeros(6)
        site = m.site(f"{name}_foot").id
        mujoco.mj_objectVelocity(m, d, mujoco.mjtObj.mjOBJ_SITE, site, velocity, 0)
        height = d.site_xpos[site][2] - 0.022
        contact = forces[foot][2] > 1.0
        miss = min(height - 0.06 * phi, 0.0) ** 2 + max(height - 0.075, 0.0) ** 2
        gait += share * math.exp(-np.linalg.norm(forces[foot]) / 10.0) * math.exp(-miss / 0.035**2) / 4
        gait += (1 - share) * contact * math.exp(-(velocity[3] ** 2 + velocity[4] ** 2) / 0.05) / 4
        lands = air[foot] > 0 and (contact or touched[foot])
        touchdown += float(velocity[3:] @ velocity[3:]) if lands else 0.0
        air[foot] = 0.0 if contact or touched[foot] else air[foot] + 0.02
        touched[foot] = contact
    for q, (low, high) in zip(d.qpos[7:], JOINT_RANGE, strict=True):
        middle, half = (low + high) / 2, 0.95 * (high - low) / 2
        excess += max(middle - half - q, 0.0) + max(q - middle - half, 0.0)
    weights = np.tile([1.0, 1.0, 0.1], 4)
    return {
        "tracking_lin_vel": 1.5 * math.exp(-((v[0] - command[0]) ** 2 + (v[1] - command[1]) ** 2) / 0.25),
        "tracking_ang_vel": 0.75 * math.exp(-((w[2] - command[2]) ** 2) / 0.25),
        "gait": 2.0 * gait,
        "pose": 0.5 * math.exp(-float(weights @ (d.qpos[7:] - Q0) ** 2)),
        "orientation": -5.0 * (up[0] ** 2 + up[1] ** 2),
        "lin_vel_z": -0.5 * v[2] ** 2,
        "ang_vel_xy": -0.05 * (w[0] ** 2 + w[1] ** 2),
        "dof_pos_limits": -excess,
        "action_rate": -0.01 * float(np.sum((action.astype(float) - last) ** 2)),
        "touchdown_speed": -touchdown,
    }
