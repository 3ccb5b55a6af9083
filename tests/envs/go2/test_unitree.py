"""unitree_rl_gym's task: its numbers, and every term against a slow float64 loop over plain ``MjData``.

The loop below is written from the task's description and shares no code with the environment: rotations come
from SciPy, contact forces from MuJoCo's contacts, everything else is spelled out robot by robot.
"""

import copy
import math

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from envs.go2.mjbatch.batch import Go2Batch
from rigs.go2_tasks import net_forces, preset, task

N, STEPS, DT = 8, 120, 0.02
Q0 = np.array([0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5])
FRONT = [(-1.0472, 1.0472), (-1.5708, 3.4907), (-2.7227, -0.83776)]
REAR = [(-1.0472, 1.0472), (-0.5236, 4.5379), (-2.7227, -0.83776)]
LIMITS = FRONT + FRONT + REAR + REAR
WEIGHTS = {
    "tracking_lin_vel": 1.0,
    "tracking_ang_vel": 0.5,
    "lin_vel_z": -2.0,
    "ang_vel_xy": -0.05,
    "torques": -2e-4,
    "dof_acc": -2.5e-7,
    "feet_air_time": 1.0,
    "collision": -1.0,
    "action_rate": -0.01,
    "dof_pos_limits": -10.0,
}


class SlowRobot:
    """One robot in plain MuJoCo with the task's records, all in float64."""

    def __init__(self, m: mujoco.MjModel, friction: np.ndarray, row: np.ndarray):
        self.m = copy.copy(m)
        self.m.geom_friction[:] = friction
        self.d = mujoco.MjData(self.m)
        self.restart(row)

    def restart(self, row: np.ndarray) -> None:
        mujoco.mj_setState(self.m, self.d, row, mujoco.mjtState.mjSTATE_INTEGRATION)
        self.action, self.joint_vel = np.zeros(12), np.zeros(12)
        self.air, self.touched, self.time = np.zeros(4), np.zeros(4, bool), 0

    def step(self, action: np.ndarray, command: np.ndarray) -> tuple[dict[str, float], bool]:
        """Weighted terms and whether the robot fell."""
        d = self.d
        d.ctrl[:] = Q0 + 0.25 * action
        for _ in range(4):
            mujoco.mj_step(self.m, d)
        self.time += 1
        world = Rotation.from_quat(d.qpos[3:7], scalar_first=True)
        v, w = world.inv().apply(d.qvel[:3]), d.qvel[3:6]
        forces = net_forces(self.m, d)
        terms = {
            "tracking_lin_vel": math.exp(-((command[0] - v[0]) ** 2 + (command[1] - v[1]) ** 2) / 0.25),
            "tracking_ang_vel": math.exp(-((command[2] - w[2]) ** 2) / 0.25),
            "lin_vel_z": v[2] ** 2,
            "ang_vel_xy": w[0] ** 2 + w[1] ** 2,
            "torques": sum(t**2 for t in d.actuator_force),
            "dof_acc": sum(((a - b) / DT) ** 2 for a, b in zip(d.qvel[6:], self.joint_vel, strict=True)),
            "feet_air_time": self.air_time(forces[:4, 2], command),
            "collision": sum(np.linalg.norm(f) > 0.1 for f in forces[5:]),
            "action_rate": sum((a - b) ** 2 for a, b in zip(action, self.action, strict=True)),
            "dof_pos_limits": sum(
                self.excess(q, *limit) for q, limit in zip(d.qpos[7:], LIMITS, strict=True)
            ),
        }
        self.action, self.joint_vel = action.copy(), d.qvel[6:].copy()
        _, pitch, roll = world.as_euler("ZYX")
        fell = np.linalg.norm(forces[4]) > 1.0 or abs(roll) > 0.8 or abs(pitch) > 1.0
        return {name: WEIGHTS[name] * DT * value for name, value in terms.items()}, bool(fell)

    def air_time(self, vertical: np.ndarray, command: np.ndarray) -> float:
        total = 0.0
        for foot in range(4):
            touches = bool(vertical[foot] > 1.0)
            on_ground = touches or self.touched[foot]
            first = self.air[foot] > 0 and on_ground
            self.air[foot] += DT
            total += (self.air[foot] - 0.5) if first else 0.0
            self.air[foot] *= not on_ground
            self.touched[foot] = touches
        return total if math.hypot(command[0], command[1]) > 0.1 else 0.0

    @staticmethod
    def excess(angle: float, low: float, high: float) -> float:
        middle, half = (low + high) / 2, 0.9 * (high - low) / 2
        return max(middle - half - angle, 0.0) + max(angle - middle - half, 0.0)

    def observation(self, command: np.ndarray) -> np.ndarray:
        """The 48 numbers without noise."""
        d = self.d
        inverse = Rotation.from_quat(d.qpos[3:7], scalar_first=True).inv()
        parts = [2.0 * inverse.apply(d.qvel[:3]), 0.25 * d.qvel[3:6], inverse.apply([0, 0, -1])]
        parts += [command * [2.0, 2.0, 0.25], d.qpos[7:] - Q0, 0.05 * d.qvel[6:], self.action]
        return np.clip(np.concatenate(parts), -100, 100)


@pytest.fixture(scope="module")
def short_task():
    """The preset without noise, with time-outs after 1 s, pushes every 0.3 s, commands every 0.4 s."""
    return task(
        "go2_unitree",
        observations__noise=False,
        episode__length=1.0,
        episode__stagger=False,
        randomization__push_interval=0.3,
        commands__resample_time=0.4,
    )


def test_every_term_against_the_slow_loop(short_task):
    env = Go2Batch(short_task, N, seed=3, num_threads=2)
    saved = env.state_dict()
    robots = [SlowRobot(env.mj_model, saved["model.geom_friction"][i], saved["rows"][i]) for i in range(N)]
    rng, seen = np.random.default_rng(0), {name: 0.0 for name in WEIGHTS}
    falls = timeouts = pushes = 0
    for step in range(STEPS):
        # Half of the robots twitch, so that some fall; the others step gently.
        spread = np.where(np.arange(N) % 2, 3.0, 0.5)[:, None]
        actions = (spread * rng.normal(size=(N, 12))).astype(np.float32)
        commands = env.state.command.astype(np.float64)
        result = env.step(actions)
        rows = env.state_dict()["rows"]
        means = dict.fromkeys(WEIGHTS, 0.0)
        for i, robot in enumerate(robots):
            terms, fell = robot.step(actions[i].astype(np.float64), commands[i])
            timed_out = robot.time >= 50 and not fell
            assert (result.terminated[i], result.truncated[i]) == (fell, timed_out), (step, i)
            assert result.reward[i] == pytest.approx(max(sum(terms.values()), 0.0), rel=1e-4, abs=1e-5)
            v = Rotation.from_quat(robot.d.qpos[3:7], scalar_first=True).inv().apply(robot.d.qvel[:3])
            assert result.lin_vel_error[i] == pytest.approx(np.hypot(*(v - commands[i])[:2]), abs=1e-5)
            assert result.yaw_rate_error[i] == pytest.approx(abs(robot.d.qvel[5] - commands[i, 2]), abs=1e-5)
            for name, value in terms.items():
                means[name] += value / N
                seen[name] = max(seen[name], abs(value))
            if fell or timed_out:
                expected = robot.observation(commands[i])
                np.testing.assert_allclose(result.final_obs[i], expected, rtol=1e-4, atol=1e-5)
                assert result.episode_length[i] == robot.time
                robot.restart(rows[i])
                falls, timeouts = falls + fell, timeouts + timed_out
                check_reset(robot.d)
            elif robot.time % 15 == 0:
                pushes += 1
                pushed = rows[i, 20:22]  # after the time and 19 positions
                assert (np.abs(pushed) <= 1.0).all() and (pushed != robot.d.qvel[:2]).all()
                robot.d.qvel[:2] = pushed
            assert np.abs(rows[i, 1:20] - robot.d.qpos).max() == 0.0
            assert np.abs(rows[i, 20:38] - robot.d.qvel).max() == 0.0
            check_command(env, i, robot, commands[i], bool(fell or timed_out))
            expected = robot.observation(env.state.command[i].astype(np.float64))
            np.testing.assert_allclose(result.obs[i], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(result.reward_terms, list(means.values()), rtol=1e-4, atol=1e-6)
    assert env.rewarder.names == tuple(WEIGHTS)
    assert min(falls, timeouts, pushes) > 0
    assert all(seen.values()), f"a term was never different from 0: {seen}"


def check_reset(d: mujoco.MjData) -> None:
    """q = q0 x U(0.5, 1.5), base at rest position with velocities U(+-0.5), joints at rest."""
    np.testing.assert_array_equal(d.qpos[:7], [0, 0, 0.42, 1, 0, 0, 0])
    ratio = d.qpos[7:] / Q0
    assert (ratio >= 0.5).all() and (ratio <= 1.5).all() and ratio.std() > 0.1
    assert (np.abs(d.qvel[:6]) <= 0.5).all() and d.qvel[:6].std() > 0.05
    assert not d.qvel[6:].any()


def check_command(env: Go2Batch, i: int, robot: SlowRobot, before: np.ndarray, ended: bool) -> None:
    """xy is drawn again only when due; yaw rate = clip(0.5 x wrapped heading error, +-1)."""
    command = env.state.command[i]
    if not ended and robot.time % 20:
        np.testing.assert_array_equal(command[:2], before[:2].astype(np.float32))
    else:
        assert (command[:2] != before[:2]).any() or not command[:2].any()
    assert not command[:2].any() or np.hypot(*command[:2]) > 0.2
    forward = Rotation.from_quat(robot.d.qpos[3:7], scalar_first=True).apply([1, 0, 0])
    error = float(env.state.heading[i]) - math.atan2(forward[1], forward[0])
    error = math.atan2(math.sin(error), math.cos(error))
    assert command[2] == pytest.approx(min(max(0.5 * error, -1.0), 1.0), abs=1e-5)


def test_noise_is_uniform_and_before_the_scale(short_task):
    values = preset("go2_unitree")
    widths = {name: (term["scale"], term["noise"]) for name, term in values["observations"]["terms"].items()}
    quiet = Go2Batch(short_task, 2000, seed=0, num_threads=2)
    noisy = Go2Batch(task("go2_unitree", episode__stagger=False), 2000, seed=0, num_threads=2)
    noisy.load_state_dict({**noisy.state_dict(), **quiet.state_dict()})
    difference = noisy.set_commands(None) - quiet.set_commands(None)
    start = 0
    for name, dim, _ in noisy.observer.terms:
        width = np.max(widths[name][0]) * widths[name][1]
        part = difference[:, start : start + dim]
        assert np.abs(part).max() <= width + 1e-6, name
        assert part.std() == pytest.approx(width / math.sqrt(3), rel=0.05, abs=1e-6), name
        start += dim
    assert start == 48
    table = dict(base_lin_vel=0.1, base_ang_vel=0.2, projected_gravity=0.05, joint_pos=0.01, joint_vel=1.5)
    assert {name: noise for name, (_, noise) in widths.items() if noise} == table


def test_friction_is_per_robot():
    env = Go2Batch(task("go2_unitree"), 500, seed=0, num_threads=1)
    friction = env.state_dict()["model.geom_friction"][:, :, 0]
    floor, robot = friction[:, 0], friction[:, 1:]
    assert (floor == env.mj_model.geom_friction[0, 0]).all()
    assert (robot == robot[:, :1]).all()
    assert 0.5 <= robot.min() < 0.51 and 1.24 < robot.max() <= 1.25


def test_numbers_of_the_table():
    values = preset("go2_unitree")
    assert values["physics"] == {"variant": "unitree", "timestep": 0.005, "decimation": 4}
    assert values["control"] == {"action_scale": 0.25, "kp": 20.0, "kd": 0.5, "clip_actions": 100.0}
    assert values["rewards"]["weights"] == WEIGHTS
    assert values["rewards"]["times_dt"] and values["rewards"]["only_positive"]
    assert values["terminations"] == dict(min_upright=None, max_roll=0.8, max_pitch=1.0, base_contact=1.0)
    assert values["randomization"]["friction"] == [0.5, 1.25]
    assert values["randomization"]["push_interval"] == 15.0
    commands = values["commands"]
    assert [commands[key] for key in ("vx", "vy", "yaw_rate", "heading_range")] == [[-1, 1]] * 3 + [
        [-3.14, 3.14]
    ]
    assert (commands["resample_time"], commands["min_speed"], commands["heading_gain"]) == (10.0, 0.2, 0.5)
    assert values["episode"]["length"] == 20.0
