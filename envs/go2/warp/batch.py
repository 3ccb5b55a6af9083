"""One batch of Go2 robots on a device: physics by MuJoCo Warp, the task's own terms, masked auto-resets.

The order of a step is that of ``envs.go2.batch``. Nothing in it reads from the device or chooses by its
numbers: where that batch writes some robots' rows, this one computes all of them and keeps those of a mask.
So a step is three graphs (targets, physics, the rest) that are launched without waiting.
"""

import time
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from envs.config import EnvConfig
from envs.go2 import commands, model, randomization, resets, terminations
from envs.go2.arrays import constant
from envs.go2.batch import check_contacts, check_saved
from envs.go2.observations import Observer
from envs.go2.rewards import Rewarder
from envs.go2.simulation import impossible
from envs.go2.state import State
from envs.results import Counters, StepResult
from envs.warp.graphs import record_torch
from envs.warp.random import DeviceRandom
from envs.warp.simulation import WarpSimulation

RECORDS = ("_steps", "_length", "_wait", "_phase", "_return", "_held", "_target", "_delay", "_tally")


class WarpBatch:
    """``n`` robots of one task on a device; attributes as those of ``Go2Batch``, with torch's tensors."""

    def __init__(self, config: EnvConfig, n: int, seed: tuple[int, ...], device: torch.device):
        """Makes the robots and resets them.

        Args:
            config: The task.
            n: Number of robots.
            seed: Seed of everything random.
            device: Where they live.
        """
        self.config, self.device, self._n = config, device, n
        physics, control = config.physics, config.control
        self.model = model.build(physics.variant, control.kp, control.kd, physics.timestep)
        check_contacts(config)
        self.observer, self.rewarder = Observer(config.observations), Rewarder(config)
        self.rng = DeviceRandom(seed, device)
        self._max_steps = int(np.ceil(config.episode.length / config.control_dt - 1e-9))
        interval = config.randomization.push_interval
        self._push_steps = None if interval is None else int(np.ceil(interval / config.control_dt - 1e-9))
        self._simulation = WarpSimulation(self.model, n, device, physics.decimation)
        self._fields = randomization.randomize_model(
            self._simulation, self.model, config.randomization, self.rng
        )
        self.state = self._make_state()
        self._steps, self._length, self._wait, self._delay = (
            self._zeros(dtype=torch.int32) for _ in range(4)
        )
        self._delay += randomization.draw_delay(config.randomization, n, physics.timestep, self.rng)
        self._phase, self._return = self._zeros(), self._zeros()
        self._held = self._zeros(dtype=torch.bool)
        self._target = self._zeros(12) + constant(model.DEFAULT_JOINTS, self._phase)
        self._actions = self._zeros(12)
        self._tally = torch.zeros(3, dtype=torch.int64, device=device)  # blow-ups, falls, time-outs
        self._policy_steps = 0  # of each robot
        self.result = self._make_result()
        self._launch_aim = record_torch(self._aim, device, self.rng.generator)
        self._simulation.record()
        self._launch_judge = record_torch(self._judge, device, self.rng.generator)
        self.reset()
        self._tally.zero_()

    def _zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(self._n, *shape, dtype=dtype, device=self.device)

    def _make_state(self) -> State:
        """Zeros, with positions and velocities that are the physics' own memory."""
        host, simulation = State.zeros(self._n), self._simulation
        tensors = {f.name: torch.from_numpy(getattr(host, f.name)).to(self.device) for f in fields(State)}
        return State(**tensors | {"qpos": simulation.qpos, "qvel": simulation.qvel})

    def _make_result(self) -> StepResult:
        dim, flag = self.observer.dim, torch.bool
        return StepResult(
            obs=self._zeros(dim),
            reward=self._zeros(),
            terminated=self._zeros(dtype=flag),
            truncated=self._zeros(dtype=flag),
            final_obs=self._zeros(dim),
            episode_return=self._zeros(),
            episode_length=self._zeros(dtype=torch.int32),
            lin_vel_error=self._zeros(),
            yaw_rate_error=self._zeros(),
            reward_terms=torch.zeros(len(self.rewarder.names), device=self.device),
            bad=self._zeros(dtype=flag),
        )

    @property
    def counters(self) -> Counters:
        """What has been simulated so far; waits for the device."""
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

    def reset(self) -> Tensor:
        """Starts new episodes, at random ages if the task staggers them.

        Returns:
            Observations [B, D], valid until the next step.
        """
        self._reset_rows(torch.ones_like(self._held))
        if self.config.episode.stagger:
            self._steps.copy_(self.rng.integers(0, self._max_steps, self._n))
        self._advance_clock()
        self._renew_commands()
        if self.config.commands.resample == "periodic":  # as if the episodes had run up to their ages
            self._wait -= self._steps % self._wait.clip(1)
        return self.observer.observe(self.state, self.rng, out=self.result.obs)

    def set_commands(self, values: np.ndarray | Tensor | None) -> Tensor:
        """As ``Go2Batch.set_commands``."""
        self._held.fill_(values is not None)
        if values is not None:
            self.state.command[:] = torch.as_tensor(values, device=self.device)
        self._wait.zero_()
        return self.observer.observe(self.state, self.rng, out=self.result.obs)

    def step(self, actions: Tensor) -> StepResult:
        """Launches one policy step of every robot; waits for nothing.

        Args:
            actions: Actions [B, 12]; joint targets are ``q_default + action_scale * action`` rad.
        """
        started = time.perf_counter()
        self._actions.copy_(actions)
        self._launch_aim()
        self._simulation.step()
        launched = time.perf_counter()
        self._launch_judge()
        self._policy_steps += 1
        self.result.stamps = (started, launched, time.perf_counter())
        return self.result

    def _aim(self) -> None:
        """Takes over the actions and lays out the joint targets of the physics steps."""
        state, control, simulation = self.state, self.config.control, self._simulation
        state.last_action.copy_(state.action)
        torch.clip(self._actions, -control.clip_actions, control.clip_actions, out=state.action)
        target = constant(model.DEFAULT_JOINTS, state.action) + control.action_scale * state.action
        late = self._delay[:, None]
        for substep, controls in enumerate(simulation.controls):
            controls.copy_(torch.where(substep < late, self._target, target))
        self._target.copy_(target)

    def _judge(self) -> None:
        """Everything after the physics: terms, statistics, resets, pushes, commands, observations."""
        state, result, simulation = self.state, self.result, self._simulation
        bad = impossible(simulation.qpos, simulation.qvel, simulation.sensors, simulation.torque)
        simulation.place(bad)
        state.derive()
        state.set_sensors(simulation.sensors)
        state.torque.copy_(simulation.torque)
        self._steps += 1
        self._length += 1
        self._wait -= 1
        self._advance_clock()
        state.update_contacts(self.config.control_dt)
        self._score(bad)
        self.observer.observe(state, self.rng, out=result.final_obs)
        self._reset_rows(result.terminated | result.truncated)
        state.last_joint_vel.copy_(state.joint_vel)
        self._push()
        self._renew_commands()
        self.observer.observe(state, self.rng, out=result.obs)

    def _score(self, bad: Tensor) -> None:
        """Rewards, terminations and episode statistics of the state reached."""
        state, result = self.state, self.result
        terms = self.rewarder.terms(state).masked_fill_(bad, 0.0)
        result.reward_terms.copy_(terms.mean(1))
        result.reward.copy_(self.rewarder.total(terms))
        result.bad.copy_(bad)
        torch.logical_or(terminations.fallen(state, self.config.terminations), bad, out=result.terminated)
        torch.logical_and(self._steps >= self._max_steps, ~result.terminated, out=result.truncated)
        self._return += result.reward
        result.episode_return.copy_(self._return)
        result.episode_length.copy_(self._length)
        velocity_error = state.base_lin_vel[:, :2] - state.command[:, :2]
        torch.hypot(velocity_error[:, 0], velocity_error[:, 1], out=result.lin_vel_error)
        torch.abs(state.base_ang_vel[:, 2] - state.command[:, 2], out=result.yaw_rate_error)
        self._tally += torch.stack([bad, result.terminated & ~bad, result.truncated]).sum(1)

    def _reset_rows(self, mask: Tensor) -> None:
        """Puts the robots of a mask [B] at the start of an episode; their commands are due."""
        state, rows = self.state, mask[:, None]
        self._simulation.place(mask, *resets.draw(self.rng, self._n, self.config.resets))
        state.derive()
        for record in (state.action, state.last_action, state.last_joint_vel, state.air_time):
            record.masked_fill_(rows, 0.0)
        for record in (state.contact, state.grounded, state.touchdown):
            record.masked_fill_(rows, False)
        for record in (self._steps, self._length, self._wait, self._return):
            record.masked_fill_(mask, 0)
        self._target.copy_(torch.where(rows, constant(model.DEFAULT_JOINTS, self._target), self._target))
        phase = self.rng.random(self._n) if self.config.gait.random_phase else torch.zeros_like(self._phase)
        self._phase.copy_(torch.where(mask, phase, self._phase))
        self._advance_clock()

    def _advance_clock(self) -> None:
        cycles = self._phase + self.config.gait.frequency * self.config.control_dt * self._steps
        self.state.clock.copy_(cycles % 1.0)

    def _push(self) -> None:
        """Sets the xy velocity of the robots whose push is due."""
        if self._push_steps is None:
            return
        due = (self._steps % self._push_steps == 0) & (self._steps > 0)
        qvel, pushed = self.state.qvel, randomization.push(self.rng, self._n, self.config.randomization)
        qvel[:, :2] = torch.where(due[:, None], pushed, qvel[:, :2])
        self.state.derive()

    def _renew_commands(self) -> None:
        """Draws the commands that are due, of new episodes too, and steers towards headings."""
        config, state, n = self.config.commands, self.state, self._n
        due = ~self._held & (self._wait <= 0)
        drawn, headings = commands.draw(self.rng, n, config)
        state.command.copy_(torch.where(due[:, None], drawn, state.command))
        state.heading.copy_(torch.where(due, headings, state.heading))
        wait = commands.draw_wait(self.rng, n, config, self.config.control_dt)
        self._wait.copy_(torch.where(due, wait, self._wait))
        if config.heading:
            steered = commands.steer(state.heading, state.yaw, config)
            state.command[:, 2] = torch.where(self._held, state.command[:, 2], steered)

    def _saved(self) -> dict[str, Tensor]:
        """The live tensors on which the future depends, but for random numbers."""
        saved = {"warmstart": self._simulation.warmstart}
        saved |= {f"record{name}": getattr(self, name) for name in RECORDS}
        saved |= {f"state.{f.name}": getattr(self.state, f.name) for f in fields(State)}
        return saved | {f"model.{name}": values for name, values in self._fields.items()}

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything that the future depends on, as copies on the host."""
        saved = {name: values.cpu().numpy().copy() for name, values in self._saved().items()}
        saved["rng"] = self.rng.generator.get_state().numpy()
        return saved | {"policy_steps": np.array(self._policy_steps)}

    def load_state_dict(self, saved: dict[str, np.ndarray]) -> None:
        """Takes over what ``state_dict`` of an equal task, batch size and kind of device gave.

        Raises:
            ValueError: On a missing or unknown array, or one of another shape.
        """
        check_saved(saved, self.state_dict())
        for name, tensor in self._saved().items():
            tensor.copy_(torch.from_numpy(saved[name]))
        self.rng.generator.set_state(torch.from_numpy(saved["rng"]))
        self._policy_steps = int(saved["policy_steps"])
        randomization.update_constants(self._simulation, self._fields)
