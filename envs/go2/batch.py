"""The step of a batch of Go2 robots: its order, statistics, resets and saving, for every backend.

A policy step has three phases:

1. ``set_targets``: the actions become joint targets.
2. ``simulate``: the physics, ``decimation`` steps of it.
3. ``finish_step``: rewards and terminations of the state reached, against the command that the policy saw;
   final observations of the robots whose episode ended, before their reset; resets; pushes and new commands;
   observations, every term of the state that then holds.

A robot whose physics diverges never reaches the learner: its row reports a termination with reward 0 and the
final observation of the standing pose, and it is counted.

The backends (``envs.go2.mjbatch``, ``envs.go2.warp``) add the physics and a way to address some robots.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import ClassVar, Generic

import mujoco
import numpy as np

from envs.arrays import Array, Random, constant, namespace, to_host, write, zeros
from envs.config import EnvConfig
from envs.go2.backend import Rows, Simulation
from envs.go2.mdp import commands, randomization, resets, terminations
from envs.go2.mdp.observations import Observer
from envs.go2.mdp.rewards import Rewarder
from envs.go2.mdp.state import State
from envs.go2.records import Records, check_saved
from envs.go2.robot.constants import DEFAULT_JOINTS
from envs.results import Counters, StepResult


class RobotBatch(ABC, Generic[Array]):
    """``n`` robots of one task.

    Attributes:
        config: The task.
        mj_model: The MuJoCo model that every robot starts from.
        simulation: The physics.
        observer: The observation terms and their dimension.
        rewarder: The reward terms.
        rng: The source of everything random.
        state: The live state that the terms read.
        actions: Actions [B, 12] float32 of the newest step.
        result: The result of the newest step; overwritten by the next one.
        device: Where the robots live as torch tensors; None for NumPy arrays.
        records: Records of the episodes in progress, which no term reads.
        asynchronous: Whether ``step`` only launches the work, instead of doing it in the caller's thread.
    """

    asynchronous: ClassVar[bool]
    device: str | None = None
    simulation: Simulation[Array]
    state: State[Array]
    records: Records[Array]
    rng: Random[Array]
    result: StepResult[Array]
    _fields: dict[str, Array]  # per-robot model fields [B, ...], by their names in `mjModel`
    actions: Array
    _previous_target: Array  # [B, 12] rad, the joint targets before the newest ones
    _tally: Array  # [3] episodes ended by divergence, fall, time-out

    def __init__(
        self,
        config: EnvConfig,
        n: int,
        mj_model: mujoco.MjModel,
        simulation: Simulation[Array],
        state: State[Array],
        rng: Random[Array],
    ):
        """Set up the robots' records and randomise their models; the backend resets them afterwards."""
        self.config, self.mj_model, self._n = config, mj_model, n
        self.simulation, self.state, self.rng = simulation, state, rng
        self.observer, self.rewarder = Observer(config.observations), Rewarder(config)
        interval = config.randomization.push_interval
        self._max_steps = _policy_steps(config.episode.length, config)
        self._push_steps = None if interval is None else _policy_steps(interval, config)
        self._fields = randomization.randomize_model(simulation, mj_model, config.randomization, rng)

        single, precise = state.qpos, simulation.qpos  # float32, and the precision of the physics
        self.records = Records.start(n, single, precise)
        delay = randomization.draw_delay(config.randomization, n, config.physics.timestep, rng)
        self.records.delay += delay
        self.actions = zeros((n, 12), single)
        self._previous_target = zeros((n, 12), precise)
        self._tally = zeros((3,), single, "int64")
        self._policy_steps = 0  # of each robot
        names = self.rewarder.names
        self.result = StepResult.zeros(n, self.observer.dim, len(names), single, precise)
        # Called by `advance`; a backend may put recorded graphs in their place.
        self._phases: tuple[Callable[[], None], Callable[[], None]] = (self.set_targets, self.finish_step)

    # Each backend provides these.

    @abstractmethod
    def select(self, mask: Array) -> Rows[Array]:
        """Return the robots of a mask [B] bool."""

    @abstractmethod
    def simulate(self) -> None:
        """Take the physics steps of one policy step; the second phase."""

    @abstractmethod
    def read_physics(self) -> Array:
        """Bring the motion reached into the state; stand diverged robots up and return which they are [B]."""

    @abstractmethod
    def read_motion(self, rows: Rows[Array]) -> None:
        """Bring positions and velocities of these robots, which were just changed, into the state."""

    @abstractmethod
    def observe_rows(self, rows: Rows[Array], out: Array) -> None:
        """Write the observations of these robots (and perhaps of others) into ``out`` [B, D]."""

    def reset(self, mask: Array | None = None) -> Array:
        """Start new episodes, at random ages if the task staggers them.

        Args:
            mask: The robots [B] bool; None for all.

        Returns:
            Observations [B, D] float32, valid until the next step.
        """
        held = self.records.held
        rows = self.select(namespace(held).ones_like(held) if mask is None else mask)
        self._start_episodes(rows)
        if self.config.episode.stagger:
            rows.put(self.records.steps, self.rng.integers(0, self._max_steps, rows.count))
        self._update_clock()
        self._renew_commands()
        if self.config.commands.resample == "periodic":  # as if the episodes had run up to their ages
            steps, wait = self.records.steps[rows.index], self.records.wait[rows.index]
            rows.put(self.records.wait, wait - steps % wait.clip(1))
        self.observe_rows(rows, self.result.obs)
        return self.result.obs

    def set_commands(self, values: np.ndarray | Array | None) -> Array:
        """Hold every robot's command, across resets too, until the next call; None draws them again.

        Args:
            values: vx (m/s), vy (m/s) and yaw rate (rad/s) [B, 3] or [3].

        Returns:
            The present observations with these commands [B, D] float32, valid until the next step.
        """
        self.records.held[...] = values is not None
        if values is not None:
            write(self.state.command, values)
        self.records.wait[...] = 0
        return self.observer.observe(self.state, self.rng, out=self.result.obs)

    def set_actions(self, actions: Array) -> None:
        """Copy the actions [B, 12] of the next step."""
        self.actions[...] = actions

    def step(self, actions: Array) -> StepResult[Array]:
        """Advance every robot by one policy step.

        Args:
            actions: Actions [B, 12]; joint targets are ``q_default + action_scale * action`` rad.
        """
        self.set_actions(actions)
        return self.advance()

    def advance(self) -> StepResult[Array]:
        """Take the policy step of the actions that ``set_actions`` copied."""
        set_targets, finish_step = self._phases
        set_targets()
        began = time.perf_counter()
        self.simulate()
        ended = time.perf_counter()
        finish_step()
        self._policy_steps += 1
        self.result.stamps = (began, ended, time.perf_counter())
        return self.result

    @property
    def counters(self) -> Counters:
        """Totals so far; waits for the device."""
        blowups, falls, timeouts = self._tally.tolist()
        steps = self._n * self._policy_steps
        return Counters(
            policy_steps=steps,
            physics_steps=steps * self.config.physics.decimation,
            episodes=blowups + falls + timeouts,
            falls=falls,
            timeouts=timeouts,
            blowups=blowups,
            simulated_seconds=steps * self.config.control_dt,
        )

    # The first and the third phase of a step.

    def set_targets(self) -> None:
        """Clip the actions and turn them into joint targets; the first phase."""
        state, control = self.state, self.config.control
        state.last_action[...] = state.action
        limit = control.clip_actions
        namespace(state.action).clip(self.actions, -limit, limit, out=state.action)
        target = self.records.target
        self._previous_target[...] = target
        target[...] = state.action
        target *= control.action_scale
        target += constant(DEFAULT_JOINTS, target)

    def finish_step(self) -> None:
        """Judge the state that the physics reached and prepare the next step; the third phase."""
        state, result = self.state, self.result
        diverged = self.read_physics()
        state.set_sensors(self.simulation.sensors)
        state.torque[...] = self.simulation.torque
        self.records.steps += 1
        self.records.length += 1
        self.records.wait -= 1
        self._update_clock()
        state.update_contacts(self.config.control_dt)
        self._compute_rewards_and_terminations(diverged)
        self._update_statistics()
        ended = self.select(result.terminated | result.truncated)
        if ended:
            self.observe_rows(ended, result.final_obs)
            self._start_episodes(ended)
        state.last_joint_vel[...] = state.joint_vel
        self._push()
        self._renew_commands()
        self.observer.observe(state, self.rng, out=result.obs)

    def _compute_rewards_and_terminations(self, diverged: Array) -> None:
        state, result, xp = self.state, self.result, namespace(diverged)
        terms = self.rewarder.terms(state)  # [num_terms, B]
        self.select(diverged).put(terms.T, 0.0)
        result.reward_terms[...] = terms.mean(1, dtype=result.reward_terms.dtype)
        result.reward[...] = self.rewarder.total(terms)
        result.diverged[...] = diverged
        xp.logical_or(terminations.fallen(state, self.config.terminations), diverged, out=result.terminated)
        xp.logical_and(self.records.steps >= self._max_steps, ~result.terminated, out=result.truncated)

    def _update_statistics(self) -> None:
        state, result, xp = self.state, self.result, namespace(self.records.return_)
        self.records.return_ += result.reward
        result.episode_return[...] = self.records.return_
        result.episode_length[...] = self.records.length
        error = state.base_lin_vel[:, :2] - state.command[:, :2]
        xp.hypot(error[:, 0], error[:, 1], out=result.lin_vel_error)
        xp.abs(state.base_ang_vel[:, 2] - state.command[:, 2], out=result.yaw_rate_error)
        fell = result.terminated & ~result.diverged
        self._tally += xp.stack([result.diverged, fell, result.truncated]).sum(1)

    def _start_episodes(self, rows: Rows[Array]) -> None:
        """Put robots at the start of an episode; their commands are due."""
        state, records = self.state, self.records
        self.simulation.place(rows, *resets.draw(self.rng, rows.count, self.config.resets))
        self.read_motion(rows)
        for record in (state.action, state.last_action, state.last_joint_vel, state.air_time):
            rows.put(record, 0.0)
        for flag in (state.contact, state.grounded, state.touchdown):
            rows.put(flag, False)
        for counter in (records.steps, records.length, records.wait):
            rows.put(counter, 0)
        rows.put(records.return_, 0.0)
        rows.put(records.target, constant(DEFAULT_JOINTS, records.target))
        rows.put(records.phase, self.rng.random(rows.count) if self.config.gait.random_phase else 0.0)
        self._update_clock()

    def _update_clock(self) -> None:
        cycles_per_step = self.config.gait.frequency * self.config.control_dt
        cycles = self.records.phase + cycles_per_step * self.records.steps
        self.state.clock[...] = cycles % 1.0

    def _push(self) -> None:
        """Set the xy velocity of the robots whose push is due."""
        if self._push_steps is None:
            return
        steps = self.records.steps
        due = self.select((steps % self._push_steps == 0) & (steps > 0))
        if due:
            velocity = randomization.draw_push(self.rng, due.count, self.config.randomization)
            due.put(self.simulation.qvel[:, :2], velocity)
            self.read_motion(due)

    def _renew_commands(self) -> None:
        """Draw the commands that are due, those of new episodes included, and steer towards headings."""
        config, state, records = self.config.commands, self.state, self.records
        due = self.select(~records.held & (records.wait <= 0))
        if due:
            drawn, headings = commands.draw(self.rng, due.count, config)
            due.put(state.command, drawn)
            due.put(state.heading, headings)
            due.put(records.wait, commands.draw_wait(self.rng, due.count, config, self.config.control_dt))
        if config.heading:
            steered = commands.steer(state.heading, state.yaw, config)
            held, yaw_rate = records.held, state.command[:, 2]
            state.command[:, 2] = namespace(held).where(held, yaw_rate, steered)

    # Saving. The keys are those of checkpoints: they stay.

    def live_arrays(self) -> dict[str, Array]:
        """Return the arrays that the future depends on, by the keys under which they are saved."""
        saved = self.records.live_arrays()
        saved |= {f"state.{f.name}": getattr(self.state, f.name) for f in fields(State)}
        return saved | {f"model.{name}": values for name, values in self._fields.items()}

    @abstractmethod
    def pack(self) -> dict[str, np.ndarray]:
        """Return the state of the generator and the counters as arrays to save."""

    @abstractmethod
    def unpack(self, saved: dict[str, np.ndarray]) -> None:
        """Restore the generator and the counters."""

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return copies of everything that the future depends on; loading them continues bit for bit."""
        return {name: to_host(values) for name, values in self.live_arrays().items()} | self.pack()

    def load_state_dict(self, saved: dict[str, np.ndarray]) -> None:
        """Continue from the ``state_dict`` of an equal task, batch size and kind of device.

        Raises:
            ValueError: On a missing or unknown array, or one of another shape.
        """
        check_saved(saved, self.state_dict())
        for name, live in self.live_arrays().items():
            write(live, saved[name])
        self.unpack(saved)
        randomization.update_constants(self.simulation, self._fields)


def _policy_steps(seconds: float, config: EnvConfig) -> int:
    return int(np.ceil(seconds / config.control_dt - 1e-9))
