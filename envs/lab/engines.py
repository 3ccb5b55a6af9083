"""The engines for stepping a batch of robots that the lab compares.

Every engine is called once per policy step, as a policy in the loop needs it, with a state and joint targets
for every robot. To add an engine, add an entry to ``ENGINES``.
"""

from typing import Protocol

import mujoco
import numpy as np
from mjbatch import Batch
from mujoco import rollout

from envs.config import EnvConfig
from envs.go2.mjbatch.batch import Go2Batch
from envs.go2.robot.mjcf import build_task_model
from envs.lab.common import Work, columns


class Steps(Protocol):
    """Work that can be timed."""

    def prepare(self, work: Work) -> None:
        """Set the work of the next ``run``; not timed."""

    def run(self) -> None:
        """Simulate all of it."""


class Engine(Steps, Protocol):
    """``robots`` robots of a task on ``threads`` threads."""

    def __init__(self, config: EnvConfig, robots: int, threads: int): ...

    def end(self, start: np.ndarray, work: Work) -> np.ndarray:
        """Follow the work's targets without a break; return the positions and velocities reached [N, 37].

        Args:
            start: Integration states [N, nstate] to start from, instead of those of the work.
            work: Targets and actions.
        """


class PythonLoop:
    """``mj_step`` in a Python loop, one ``MjData`` per robot, one thread."""

    def __init__(self, config: EnvConfig, robots: int, threads: int = 1):
        self.model, self.decimation = build_task_model(config), config.physics.decimation
        self.datas = [mujoco.MjData(self.model) for _ in range(robots)]

    def prepare(self, work: Work) -> None:
        self.work = work

    def run(self) -> None:
        signature = mujoco.mjtState.mjSTATE_INTEGRATION
        for states, targets in zip(self.work.states, self.work.targets, strict=True):
            for data, state, target in zip(self.datas, states, targets, strict=True):
                mujoco.mj_setState(self.model, data, state, signature)
                self._step(data, target)

    def end(self, start: np.ndarray, work: Work) -> np.ndarray:
        for data, state, targets in zip(self.datas, start, work.targets.swapaxes(0, 1), strict=True):
            mujoco.mj_setState(self.model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
            for target in targets:
                self._step(data, target)
        return np.array([np.concatenate([data.qpos, data.qvel]) for data in self.datas])

    def _step(self, data: mujoco.MjData, target: np.ndarray) -> None:
        data.ctrl[:] = target
        for _ in range(self.decimation):
            mujoco.mj_step(self.model, data)


class Rollout:
    """``mujoco.rollout``: C++ threads that store the state and the sensors after every physics step."""

    def __init__(self, config: EnvConfig, robots: int, threads: int):
        self.model, self.decimation = build_task_model(config), config.physics.decimation
        self.datas = [mujoco.MjData(self.model) for _ in range(threads)]
        self.pool = rollout.Rollout(nthread=threads)
        self.physics = columns(self.model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        self.warmstart = columns(self.model, mujoco.mjtState.mjSTATE_WARMSTART)
        self.state = np.empty((robots, self.decimation, len(self.physics)))
        self.sensors = np.empty((robots, self.decimation, self.model.nsensordata))

    def prepare(self, work: Work) -> None:
        controls = np.repeat(work.targets[:, :, None], self.decimation, axis=2)  # [K, N, decimation, 12]
        starts = work.states[..., self.physics], work.states[..., self.warmstart]
        self.steps = list(zip(*map(np.ascontiguousarray, starts), controls, strict=True))

    def run(self) -> None:
        for state, warmstart, control in self.steps:
            self.pool.rollout(
                self.model,
                self.datas,
                state,
                control,
                initial_warmstart=warmstart,
                state=self.state,
                sensordata=self.sensors,
            )

    def end(self, start: np.ndarray, work: Work) -> np.ndarray:
        controls = np.repeat(work.targets.swapaxes(0, 1), self.decimation, axis=1)
        state, warmstart = start[:, self.physics], start[:, self.warmstart]
        states, _ = self.pool.rollout(self.model, self.datas, state, controls, initial_warmstart=warmstart)
        return np.asarray(states[:, -1, 1:38])  # after the time


class MjBatch:
    """``mjbatch`` alone: C++ threads, live views of the state."""

    def __init__(self, config: EnvConfig, robots: int, threads: int):
        self.batch = Batch(build_task_model(config), robots, num_threads=threads)
        self.rows, self.controls = self.batch.bind("state"), self.batch.bind("ctrl")
        self.decimation = config.physics.decimation

    def prepare(self, work: Work) -> None:
        self.work = work

    def run(self) -> None:
        for states, targets in zip(self.work.states, self.work.targets, strict=True):
            self.rows[:] = states
            self.controls[:] = targets
            self.batch.step(nstep=self.decimation)

    def end(self, start: np.ndarray, work: Work) -> np.ndarray:
        self.rows[:] = start
        for targets in work.targets:
            self.controls[:] = targets
            self.batch.step(nstep=self.decimation)
        return self.rows[:, 1:38].copy()  # after the time


class Environment:
    """The environment: ``mjbatch`` with observations, rewards, terminations and resets.

    It continues from the first states of the work, so that falls and resets happen.
    """

    def __init__(self, config: EnvConfig, robots: int, threads: int):
        self.batch = Go2Batch(config, robots, seed=0, num_threads=threads)

    def prepare(self, work: Work) -> None:
        self.actions = work.actions
        self.batch.load_state_dict(self.batch.state_dict() | {"rows": work.states[0]})

    def run(self) -> None:
        for actions in self.actions:
            self.batch.step(actions)

    def end(self, start: np.ndarray, work: Work) -> np.ndarray:
        self.batch.load_state_dict(self.batch.state_dict() | {"rows": start})
        for actions in work.actions:
            self.batch.step(actions)
        return self.batch.state_dict()["rows"][:, 1:38]  # after the time


ENGINES: dict[str, type[Engine]] = {"rollout": Rollout, "mjbatch": MjBatch, "herd": Environment}
