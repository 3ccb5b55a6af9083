"""One batch of Go2 robots: physics by ``mjbatch``, terms from their modules, auto-reset in the same step.

The order of one step is: physics; rewards and terminations of the state reached, against the command that the
policy saw; the final observations of the robots whose episode ended, before their reset; resets; pushes and
new commands; observations of what is then the state, every term of it. Robots that blow up never reach the
learner: their row reports a termination with reward 0 and the observation of the standing pose, and they are
counted.
"""

import math
import time
from dataclasses import asdict, fields

import numpy as np

from envs.config import EnvConfig
from envs.go2 import commands, model, randomization, resets, terminations
from envs.go2.observations import Observer
from envs.go2.physics import PHYSICS
from envs.go2.rewards import Rewarder
from envs.go2.simulation import Simulation
from envs.go2.state import State
from envs.results import Counters, StepResult

# Per-robot arrays to save.
RECORDS = ("_steps", "_length", "_wait", "_phase", "_return", "_held", "_target", "_delay")


def check_contacts(config: EnvConfig) -> None:
    """Raises ValueError if the task counts contacts that its physics does not have."""
    links_count = config.terminations.base_contact is not None or "collision" in config.rewards.weights
    if links_count and PHYSICS[config.physics.variant].feet_only:
        allowed = "unitree or menagerie where base contact or collisions count"
        raise ValueError(f"env.physics.variant={config.physics.variant!r}: must be {allowed}")


class Go2Batch:
    """``n`` robots of one task.

    Attributes:
        config: The task.
        model: The MuJoCo model that every robot starts from.
        observer: The observation terms and their dimension.
        rewarder: The reward terms.
        state: The live state that the terms read.
        counters: What has been simulated so far.
    """

    def __init__(
        self,
        config: EnvConfig,
        n: int,
        seed: int | tuple[int, ...] | np.random.Generator,
        num_threads: int = 0,
    ):
        """Makes the robots and resets them.

        Args:
            config: The task.
            n: Number of robots.
            seed: Seed of everything random, or the generator (PCG64) to draw it from.
            num_threads: Physics threads; 0 for one per logical CPU. Results do not depend on it.
        """
        self.config = config
        physics, control = config.physics, config.control
        self.model = model.build(physics.variant, control.kp, control.kd, physics.timestep)
        check_contacts(config)
        self.observer, self.rewarder = Observer(config.observations), Rewarder(config)
        self.state = State.zeros(n)
        self.counters = Counters()
        self.rng = np.random.default_rng(seed)
        self._n = n
        self._max_steps = int(np.ceil(config.episode.length / config.control_dt - 1e-9))
        self._simulation = Simulation(self.model, n, num_threads)
        batch = self._simulation.batch
        self._fields = randomization.randomize_model(batch, self.model, config.randomization, self.rng)
        self._delay = np.zeros(n, np.int32)  # physics steps by which targets arrive late
        self._delay[:] = randomization.draw_delay(config.randomization, n, physics.timestep, self.rng)
        interval = config.randomization.push_interval
        self._push_steps = None if interval is None else int(np.ceil(interval / config.control_dt - 1e-9))
        self._steps = np.zeros(n, np.int32)  # age of the episode in policy steps
        self._length = np.zeros(n, np.int32)  # policy steps taken in it: fewer, where it began aged
        self._wait = np.zeros(n, np.int32)  # policy steps until the next command
        self._phase = np.zeros(n)  # cycles of the gait's clock at the episode's start
        self._return = np.zeros(n, np.float32)
        self._held = np.zeros(n, bool)  # robots whose command is held by set_commands
        self._target = np.tile(model.DEFAULT_JOINT_POS, (n, 1))  # rad, newest joint targets
        self.result = self._empty_result()
        self.reset()

    def _empty_result(self) -> StepResult:
        n, dim = self._n, self.observer.dim
        return StepResult(
            obs=np.zeros((n, dim), np.float32),
            reward=np.zeros(n, np.float32),
            terminated=np.zeros(n, bool),
            truncated=np.zeros(n, bool),
            final_obs=np.zeros((n, dim), np.float32),
            episode_return=np.zeros(n, np.float32),
            episode_length=np.zeros(n, np.int32),
            lin_vel_error=np.zeros(n, np.float32),
            yaw_rate_error=np.zeros(n, np.float32),
            reward_terms=np.zeros(len(self.rewarder.names)),
            bad=np.zeros(n, bool),
        )

    def reset(self, ids: np.ndarray | None = None) -> np.ndarray:
        """Starts new episodes, at random ages if the task staggers them.

        Args:
            ids: Indices of the robots; None for all.

        Returns:
            Observations [B, D] float32, valid until the next step.
        """
        ids = np.arange(self._n) if ids is None else ids
        self._reset_rows(ids)
        if self.config.episode.stagger:
            self._steps[ids] = self.rng.integers(0, self._max_steps, len(ids))
        self._advance_clock()
        self._renew_commands()
        if self.config.commands.resample == "periodic":  # as if the episodes had run up to their ages
            self._wait[ids] -= self._steps[ids] % np.maximum(self._wait[ids], 1)
        self.result.obs[ids] = self.observer.observe(self.state.rows(ids), self.rng)
        return self.result.obs

    def set_commands(self, values: np.ndarray | None) -> np.ndarray:
        """Holds every robot's command, also over resets, until the next call; None lets them be drawn again.

        Args:
            values: vx (m/s), vy (m/s) and yaw rate (rad/s) [B, 3] or [3].

        Returns:
            The present observations with these commands [B, D] float32, valid until the next step.
        """
        self._held[:] = values is not None
        if values is not None:
            self.state.command[:] = values
        self._wait[:] = 0
        return self.observer.observe(self.state, self.rng, out=self.result.obs)

    def step(self, actions: np.ndarray) -> StepResult:
        """Advances every robot by one policy step.

        Args:
            actions: Actions [B, 12]; joint targets are ``q_default + action_scale * action`` rad.
        """
        state, result = self.state, self.result
        bad = self._simulate(actions)
        self._steps += 1
        self._length += 1
        self._wait -= 1
        self._advance_clock()
        state.update_contacts(self.config.control_dt)
        self._judge(bad)
        ended = np.flatnonzero(result.terminated | result.truncated)
        if ended.size:
            result.final_obs[ended] = self.observer.observe(state.rows(ended), self.rng)
            self._reset_rows(ended)
        np.copyto(state.last_joint_vel, state.joint_vel)
        self._push()
        self._renew_commands()
        self.observer.observe(state, self.rng, out=result.obs)
        result.stamps = (*result.stamps[:2], time.perf_counter())
        return result

    def _simulate(self, actions: np.ndarray) -> np.ndarray:
        """Steps the physics and reads the state reached; returns which robots blew up [B] bool."""
        state, control, simulation = self.state, self.config.control, self._simulation
        np.copyto(state.last_action, state.action)
        np.clip(actions, -control.clip_actions, control.clip_actions, out=state.action)
        target = model.DEFAULT_JOINT_POS + control.action_scale * state.action.astype(np.float64)
        started = time.perf_counter()
        bad = simulation.step(self._target, target, self._delay, self.config.physics.decimation)
        self.result.stamps = (started, time.perf_counter(), math.nan)
        self._target[:] = target
        state.set_motion(simulation.positions, simulation.velocities)
        if bad.any():
            state.set_motion(simulation.qpos[bad], simulation.qvel[bad], bad)
        state.set_sensors(simulation.sensors)
        np.copyto(state.torque, simulation.torque)
        return bad

    def _judge(self, bad: np.ndarray) -> None:
        """Rewards, terminations, episode statistics and counters of the state reached."""
        state, result, counters = self.state, self.result, self.counters
        terms = self.rewarder.terms(state)
        terms[:, bad] = 0.0
        terms.mean(axis=1, dtype=np.float64, out=result.reward_terms)
        result.reward[:] = self.rewarder.total(terms)
        result.bad[:] = bad
        np.logical_or(terminations.fallen(state, self.config.terminations), bad, out=result.terminated)
        np.greater_equal(self._steps, self._max_steps, out=result.truncated)
        result.truncated &= ~result.terminated
        self._return += result.reward
        result.episode_return[:] = self._return
        result.episode_length[:] = self._length
        velocity_error = state.base_lin_vel[:, :2] - state.command[:, :2]
        np.hypot(velocity_error[:, 0], velocity_error[:, 1], out=result.lin_vel_error)
        np.abs(state.base_ang_vel[:, 2] - state.command[:, 2], out=result.yaw_rate_error)
        blowups, falls, timeouts = (int(x.sum()) for x in (bad, result.terminated & ~bad, result.truncated))
        counters.policy_steps += self._n
        counters.physics_steps += self._n * self.config.physics.decimation
        counters.simulated_seconds += self._n * self.config.control_dt
        counters.episodes += blowups + falls + timeouts
        counters.blowups += blowups
        counters.falls += falls
        counters.timeouts += timeouts

    def _reset_rows(self, ids: np.ndarray) -> None:
        """Puts robots at the start of an episode; their commands are due."""
        rng, state, n = self.rng, self.state, len(ids)
        qpos, qvel = resets.draw(rng, n, self.config.resets)
        self._simulation.place(ids, qpos, qvel)
        state.set_motion(qpos, qvel, ids)
        for record in (state.action, state.last_action, state.last_joint_vel, state.air_time):
            record[ids] = 0.0
        for record in (state.contact, state.grounded, state.touchdown):
            record[ids] = False
        self._target[ids] = model.DEFAULT_JOINT_POS
        self._steps[ids] = self._length[ids] = 0
        self._return[ids] = 0.0
        self._phase[ids] = rng.random(n) if self.config.gait.random_phase else 0.0
        state.clock[ids] = self._phase[ids]
        self._wait[ids] = 0

    def _advance_clock(self) -> None:
        cycles = self._phase + self.config.gait.frequency * self.config.control_dt * self._steps
        self.state.clock[:] = cycles % 1.0

    def _push(self) -> None:
        """Sets the xy velocity of the robots whose push is due."""
        if self._push_steps is None:
            return
        ids = np.flatnonzero((self._steps % self._push_steps == 0) & (self._steps > 0))
        if ids.size:
            qpos, qvel = self._simulation.qpos, self._simulation.qvel
            qvel[ids, :2] = randomization.push(self.rng, ids.size, self.config.randomization)
            self.state.set_motion(qpos[ids], qvel[ids], ids)

    def _renew_commands(self) -> None:
        """Draws the commands that are due, of new episodes too, and steers towards headings."""
        free = ~self._held
        config, state, due = self.config.commands, self.state, np.flatnonzero(free & (self._wait <= 0))
        if due.size:
            state.command[due], state.heading[due] = commands.draw(self.rng, due.size, config)
            self._wait[due] = commands.draw_wait(self.rng, due.size, config, self.config.control_dt)
        if config.heading and free.any():
            state.command[free, 2] = commands.steer(state.heading, state.yaw, config)[free]

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything that the future depends on, as copies; loading it continues bit for bit."""
        simulation = self._simulation
        saved = {"rows": simulation.rows, "warnings": simulation.warnings, "rng": pack_rng(self.rng)}
        saved |= {f"record{name}": getattr(self, name) for name in RECORDS}
        saved |= {f"state.{f.name}": getattr(self.state, f.name) for f in fields(State)}
        saved |= {f"model.{name}": values for name, values in self._fields.items()}
        saved |= {f"counter.{name}": np.array(value) for name, value in asdict(self.counters).items()}
        return {name: np.array(values) for name, values in saved.items()}

    def load_state_dict(self, saved: dict[str, np.ndarray]) -> None:
        """Takes over what ``state_dict`` of an equal task and batch size gave.

        Raises:
            ValueError: On a missing or unknown array, or one of another shape.
        """
        check_saved(saved, self.state_dict())
        self._simulation.rows[:] = saved["rows"]
        self._simulation.warnings[:] = saved["warnings"]
        unpack_rng(self.rng, saved["rng"])
        for name in RECORDS:
            getattr(self, name)[...] = saved[f"record{name}"]
        for f in fields(State):
            getattr(self.state, f.name)[...] = saved[f"state.{f.name}"]
        for name, values in self._fields.items():
            values[...] = saved[f"model.{name}"]
        randomization.update_constants(self._simulation.batch, self._fields)
        self.counters = Counters(**{f.name: saved[f"counter.{f.name}"].item() for f in fields(Counters)})


def check_saved(saved: dict[str, np.ndarray], present: dict[str, np.ndarray]) -> None:
    """Raises ValueError unless a saved state has the arrays of the present one, in the same shapes."""
    for name in present.keys() ^ saved.keys():
        raise ValueError(f"environment state {name}: saved by a different task")
    for name, values in present.items():
        if values.shape != saved[name].shape:
            raise ValueError(f"environment state {name}{saved[name].shape}: must have shape {values.shape}")


def pack_rng(rng: np.random.Generator) -> np.ndarray:
    """A PCG64 generator as six uint64: state (low, high), increment (low, high), the spare 32 bits."""
    state = rng.bit_generator.state
    words = [state["state"][key] >> shift & 2**64 - 1 for key in ("state", "inc") for shift in (0, 64)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)


def unpack_rng(rng: np.random.Generator, words: np.ndarray) -> None:
    """Restores what ``pack_rng`` gave."""
    w = [int(word) for word in words]
    pcg = {"state": w[0] | w[1] << 64, "inc": w[2] | w[3] << 64}
    rng.bit_generator.state = {"bit_generator": "PCG64", "state": pcg, "has_uint32": w[4], "uinteger": w[5]}
