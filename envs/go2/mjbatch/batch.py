"""A batch of Go2 robots on the CPU: MuJoCo by ``mjbatch``, NumPy arrays, resets by index."""

from dataclasses import asdict, fields
from typing import Any, cast

import numpy as np

from envs.config import EnvConfig
from envs.go2.backend import IndexedRows, Rows
from envs.go2.batch import RobotBatch
from envs.go2.mdp.state import State
from envs.go2.mjbatch.simulation import Simulation
from envs.go2.robot import mjcf
from envs.go2.robot.physics import check_contacts
from envs.results import Counters


class Go2Batch(RobotBatch[np.ndarray]):
    """``n`` robots of one task in NumPy arrays; see ``RobotBatch``."""

    asynchronous = False
    simulation: Simulation

    def __init__(
        self,
        config: EnvConfig,
        n: int,
        seed: int | tuple[int, ...] | np.random.Generator,
        num_threads: int = 0,
    ):
        """Make the robots and reset them.

        Args:
            config: The task.
            n: Number of robots.
            seed: Seed of everything random, or the generator (PCG64) to draw it from.
            num_threads: Physics threads; 0 for one per logical CPU. Results do not depend on it.

        Raises:
            ValueError: If the task is inconsistent; one line.
        """
        check_contacts(config)
        mj_model = mjcf.build_task_model(config)
        rng: Any = np.random.default_rng(seed)
        super().__init__(config, n, mj_model, Simulation(mj_model, n, num_threads), State.zeros(n), rng)
        self._diverged = np.zeros(n, bool)
        self.reset()

    def select(self, mask: np.ndarray) -> IndexedRows:
        return IndexedRows(np.flatnonzero(mask))

    def simulate(self) -> None:
        records, decimation = self.records, self.config.physics.decimation
        self._diverged = self.simulation.step(
            self._previous_target, records.target, records.delay, decimation
        )

    def read_physics(self) -> np.ndarray:
        self.state.set_motion(self.simulation.positions, self.simulation.velocities)
        diverged = self.select(self._diverged)
        if diverged:  # they were stood up after positions and velocities were copied
            self.read_motion(diverged)
        return self._diverged

    def read_motion(self, rows: Rows[np.ndarray]) -> None:
        ids = rows.index
        self.state.set_motion(self.simulation.qpos[ids], self.simulation.qvel[ids], ids)

    def observe_rows(self, rows: Rows[np.ndarray], out: np.ndarray) -> None:
        rows.put(out, self.observer.observe(self.state.rows(rows.index), self.rng))

    def live_arrays(self) -> dict[str, np.ndarray]:
        simulation = self.simulation
        return super().live_arrays() | {"rows": simulation.rows, "warnings": simulation.warnings}

    def pack(self) -> dict[str, np.ndarray]:
        counters = {f"counter.{name}": np.array(value) for name, value in asdict(self.counters).items()}
        return counters | {"rng": pack_rng(cast(np.random.Generator, self.rng))}

    def unpack(self, saved: dict[str, np.ndarray]) -> None:
        unpack_rng(cast(np.random.Generator, self.rng), saved["rng"])
        counters = Counters(**{f.name: saved[f"counter.{f.name}"].item() for f in fields(Counters)})
        self._tally[:] = counters.blowups, counters.falls, counters.timeouts
        self._policy_steps = counters.policy_steps // self._n


def pack_rng(rng: np.random.Generator) -> np.ndarray:
    """Return a PCG64 generator as six uint64: state (low, high), increment (low, high), the spare 32 bits."""
    state = rng.bit_generator.state
    words = [state["state"][key] >> shift & 2**64 - 1 for key in ("state", "inc") for shift in (0, 64)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)


def unpack_rng(rng: np.random.Generator, words: np.ndarray) -> None:
    """Restore a generator from the words of ``pack_rng``."""
    w = [int(word) for word in words]
    pcg = {"state": w[0] | w[1] << 64, "inc": w[2] | w[3] << 64}
    rng.bit_generator.state = {"bit_generator": "PCG64", "state": pcg, "has_uint32": w[4], "uinteger": w[5]}
