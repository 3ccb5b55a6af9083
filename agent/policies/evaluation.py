"""Measure how well a policy walks: nine fixed commands, without noise, in its own physics or Menagerie's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.table import Table

from agent.errors import ConfigError
from agent.models.policy import Policy
from agent.policies.gait_metrics import GaitMetrics, GaitSummary
from agent.policies.loading import Controller
from envs import EnvConfig, make_pool
from envs.config import PhysicsConfig
from envs.go2.robot import mjcf
from envs.go2.robot.physics import PHYSICS

COMMANDS = (  # vx m/s, vy m/s, yaw rate rad/s
    (0.5, 0.0, 0.0),
    (1.0, 0.0, 0.0),
    (-0.5, 0.0, 0.0),
    (0.0, 0.4, 0.0),
    (0.0, -0.4, 0.0),
    (0.0, 0.0, 0.8),
    (0.0, 0.0, -0.8),
    (0.6, 0.2, 0.5),
    (0.0, 0.0, 0.0),
)
SECONDS, SETTLE = 10.0, 2.0  # s under one command, and of these s that are not counted
PUSH_INTERVAL = 2.5  # s between two pushes
MIN_UPRIGHT = 0.3  # base's up axis times the world's below which it has fallen: tipped by 72 degrees
BASE_CONTACT = 1.0  # N on the base from which it has fallen


@dataclass(frozen=True)
class Report:
    """One evaluation: all robots together, and those of each command."""

    physics: str
    robots: int  # for each command
    push: float  # m/s
    seed: int
    commands: tuple[tuple[float, float, float], ...]
    overall: GaitSummary
    per_command: tuple[GaitSummary, ...]


def evaluation_task(
    env: EnvConfig, physics: str, push: float = 0.0, episode: float = SECONDS + 1.0
) -> EnvConfig:
    """Return the task to evaluate in: `env` without noise, with level starts and the same kinds of falls.

    Args:
        env: The task that the policy was trained on.
        physics: "train" or "menagerie".
        push: Velocity of pushes, m/s; 0 for none.
        episode: Time-out, s.

    Raises:
        ConfigError: a policy step is not a whole number of Menagerie's physics steps.
    """
    robots, body = env.randomization, env.physics
    if physics == "menagerie":
        step = PHYSICS["menagerie"].timestep
        decimation = round(env.control_dt / step)
        if not math.isclose(decimation * step, env.control_dt):
            raise ConfigError(
                f"physics=menagerie: its steps of {step:g} s do not fit the policy's of {env.control_dt:g} s"
            )
        body = PhysicsConfig("menagerie", step, decimation)
        robots = replace(
            robots,
            friction=None,
            base_mass=None,
            base_com=None,
            gain_scale=None,
            joint_damping=None,
            action_delay=None,
        )
    falls = env.terminations
    upright = MIN_UPRIGHT if falls.min_upright is None else max(falls.min_upright, MIN_UPRIGHT)
    return replace(
        env,
        physics=body,
        episode=replace(env.episode, length=episode, stagger=False),
        observations=replace(env.observations, noise=False),
        resets=replace(env.resets, joint_scale=(1.0, 1.0), joint_noise=0.1, height=None, base_velocity=0.0),
        terminations=replace(
            falls,
            min_upright=upright,
            base_contact=None if PHYSICS[body.variant].feet_only else BASE_CONTACT,
        ),
        rewards=replace(env.rewards, weights={"tracking_lin_vel": 1.0}),  # nobody reads them
        randomization=replace(robots, push_interval=PUSH_INTERVAL if push else None, push_velocity=push),
    )


def evaluate(
    policy: Policy, env: EnvConfig, physics: str = "train", robots: int = 64, push: float = 0.0, seed: int = 0
) -> Report:
    """Measure a policy under each of `COMMANDS`.

    Args:
        policy: The policy, on the CPU.
        env: The task that it was trained on.
        physics: "train" or "menagerie".
        robots: Robots for each command.
        push: Velocity of pushes, m/s; 0 for none.
        seed: Of the robots.

    Raises:
        ConfigError: the policy cannot run in this physics.
    """
    env = evaluation_task(env, physics, push)
    commands = np.repeat(np.array(COMMANDS, np.float32), robots, axis=0)
    n = len(commands)
    pool = make_pool(env, n, 1, seed)
    links_touch = not PHYSICS[env.physics.variant].feet_only
    metrics = GaitMetrics(n, env.control_dt, env.control.action_scale, links_touch)
    controller, settle = Controller(policy, n), round(SETTLE / env.control_dt)
    age, is_first = np.zeros(n, int), np.ones(n, bool)
    pool.reset(0)
    obs = pool.set_commands(0, commands)
    for _ in range(round(SECONDS / env.control_dt)):
        result = pool.step(0, controller.act(obs, is_first)).result()
        obs, is_first = result.obs, result.terminated | result.truncated
        age = np.where(is_first, 0, age + 1)
        metrics.add(pool.state(0), result, counted=age > settle)
    pool.close()
    mass = float(mjcf.build_model(env.physics.variant).body_mass.sum())
    groups = np.arange(n).reshape(len(COMMANDS), robots)
    per_command = tuple(metrics.summarize(rows, commands, mass) for rows in groups)
    overall = metrics.summarize(np.arange(n), commands, mass)
    return Report(physics, robots, push, seed, COMMANDS, overall, per_command)


# ---------------------------------------------------------------------------------------- for people

Column = Callable[[GaitSummary], str]

TRACKING: dict[str, Column] = {
    "error\nm/s": lambda s: _text(s.velocity_error, ".3f"),
    "error\nrad/s": lambda s: _text(s.yaw_rate_error, ".3f"),
    "falls\n": lambda s: str(s.falls),
    "height\ncm": lambda s: _text(s.height, ".1f", 100),
    "base\ntouch %": lambda s: _text(s.base_contact, ".0f", 100),
    "legs\ntouch %": lambda s: _text(s.leg_contact, ".0f", 100),
    "torque\nN m": lambda s: _text(s.torque, ".1f"),
    "power\nW": lambda s: _text(s.power, ".0f"),
}
GAIT: dict[str, Column] = {
    "clearance\ncm": lambda s: _text(_mean(s.clearance), ".1f", 100),
    "steps\n1/s": lambda s: _text(s.steps_per_second, ".1f"),
    "duty\n%": lambda s: _text(_mean(s.duty), ".0f", 100),
    "trot\n%": lambda s: _text(s.trot, ".0f", 100),
    "slip\nm/s": lambda s: _text(s.slip, ".2f"),
    "action\nrate rad": lambda s: _text(s.action_rate, ".3f"),
    "cost of\ntransport": lambda s: _text(s.cost_of_transport, ".2f"),
}


def table(report: Report, columns: dict[str, Column]) -> Table:
    """Return some columns of a report as a table, with a row for each command and one for all."""
    shown = Table("m/s, m/s,\nrad/s", box=None, pad_edge=False, header_style="bold")
    for title in columns:
        shown.add_column(title, justify="right", no_wrap=True)
    names = [" ".join(f"{x:g}" for x in command) for command in report.commands]
    for name, summary in zip([*names, "all"], [*report.per_command, report.overall], strict=True):
        style = "bold" if name == "all" else None
        shown.add_row(name, *(column(summary) for column in columns.values()), style=style)
    return shown


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if len(numbers) == len(values) else None


def _text(value: float | None, form: str, factor: float = 1.0) -> str:
    return "-" if value is None else format(value * factor, form)
