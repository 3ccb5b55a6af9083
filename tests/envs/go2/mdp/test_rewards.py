"""Reward terms, by hand-computed numbers and against a slow float64 loop from MuJoCo's data."""

import math

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from envs.go2.mdp import rewards
from envs.go2.mjbatch.batch import Go2Batch
from envs.go2.robot.constants import JOINT_RANGE
from rigs.go2_tasks import net_forces, preset, task

Q0 = np.array([0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5])


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


def test_default_rewards_against_a_slow_loop():
    """Every weighted term and the sum, from plain MjData stepped alongside."""
    values = preset("go2")
    config = task("go2", randomization__friction=None, episode__stagger=False, rewards__times_dt=False)
    env, n = Go2Batch(config, 6, seed=5, num_threads=2), 6
    lone = [mujoco.MjData(env.mj_model) for _ in range(n)]
    rows = env.state_dict()["rows"]
    for d, row in zip(lone, rows, strict=True):
        mujoco.mj_setState(env.mj_model, d, row, mujoco.mjtState.mjSTATE_INTEGRATION)
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
            mujoco.mj_step(env.mj_model, d, nstep=4)
            terms = slow_terms(
                env.mj_model, d, command[i], actions[i], before[i], clock[i], touched[i], air[i]
            )
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
