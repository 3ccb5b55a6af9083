"""The physics of a batch of robots on ``mjbatch``: stepping, placing, and catching robots that diverge."""

import mujoco
import numpy as np
from mjbatch import Batch

from envs.go2.backend import Rows
from envs.go2.robot.physics import has_diverged

UNSTABLE = [
    int(warning)
    for warning in (
        mujoco.mjtWarning.mjWARN_BADQPOS,
        mujoco.mjtWarning.mjWARN_BADQVEL,
        mujoco.mjtWarning.mjWARN_BADQACC,
    )
]

# Divergence is counted and cured here; MuJoCo's own notes would flood the terminal and a MUJOCO_LOG.TXT.
_log = mujoco.MjLogConfig.get()
_log.logto_console = _log.logto_file = False
_log.set()


class Simulation:
    """``n`` independent simulations of one model.

    A row of ``rows`` (MuJoCo's integration state) describes a simulation completely: writing a row places a
    robot, and saving and restoring rows continues bit for bit.

    Attributes:
        batch: The ``mjbatch.Batch``.
        num_sims: ``n``.
        rows: Live integration states [B, nstate].
        qpos, qvel: Live positions [B, 19] and velocities [B, 18], views into ``rows``.
        positions, velocities: The same as contiguous float32 copies that the physics threads fill at the end
            of a step: the cheap way to read them; never write to them.
        sensors: Sensor readings [B, nsensordata] float32 as of the start of the last physics step.
        torque: Joint torques [B, 12] float32 as of the start of the last physics step, N m.
        warnings: MuJoCo's warning counters.
    """

    def __init__(self, model: mujoco.MjModel, n: int, num_threads: int = 0):
        """Make the simulations, in the standing pose.

        Args:
            model: Their model.
            n: Number of simulations.
            num_threads: Physics threads, 0 for one per logical CPU; results do not depend on it.
        """
        self.batch, self.num_sims = Batch(model, n, num_threads=num_threads), n
        self.rows = self.batch.bind("state")
        # mjSTATE_INTEGRATION begins with the time, the positions and the velocities.
        self.qpos, self.qvel = self.rows[:, 1 : 1 + model.nq], self.rows[:, 1 + model.nq :][:, : model.nv]
        self.positions = self.batch.bind("qpos", np.float32)
        self.velocities = self.batch.bind("qvel", np.float32)
        self.sensors = self.batch.bind("sensordata", np.float32)
        self.torque = self.batch.bind("actuator_force", np.float32)
        self.warnings = self.batch.bind("warning")
        self._ctrl, self._time = self.batch.bind("ctrl"), self.batch.bind("time")
        standing = mujoco.MjData(model)
        mujoco.mj_resetDataKeyframe(model, standing, 0)
        signature = mujoco.mjtState.mjSTATE_INTEGRATION
        self._standing = np.empty(mujoco.mj_stateSize(model, signature))
        mujoco.mj_getState(model, standing, self._standing, signature)
        self.rows[:] = self._standing

    def expand(self, name: str) -> np.ndarray:
        """Return a live model field [B, ...] that may differ between the robots from now on."""
        return self.batch.expand(name)

    def set_const(self) -> None:
        """Recompute the constants that MuJoCo derives from masses."""
        self.batch.set_const()

    def place(self, rows: Rows[np.ndarray], qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Put robots into fresh simulations at positions [n, 19] and velocities [n, 18]."""
        rows.put(self.rows, self._standing)
        rows.put(self.qpos, qpos)
        rows.put(self.qvel, qvel)

    def step(
        self, previous: np.ndarray, target: np.ndarray, delay: np.ndarray, decimation: int
    ) -> np.ndarray:
        """Advance every simulation by ``decimation`` physics steps.

        Args:
            previous: Joint targets [B, 12] in force until the new ones arrive, rad.
            target: New joint targets [B, 12], rad.
            delay: Physics steps [B] by which they arrive late.
            decimation: Number of physics steps.

        Returns:
            The simulations that diverged [B] bool; they are in the standing pose now.
        """
        warnings = self.warnings[:, UNSTABLE, 1].copy()
        if delay.any():
            diverged = np.zeros(len(target), bool)
            for substep in range(decimation):
                self._ctrl[:] = np.where(substep < delay[:, None], previous, target)
                diverged |= self._advance(1)
        else:
            self._ctrl[:] = target
            diverged = self._advance(decimation)
        diverged |= (self.warnings[:, UNSTABLE, 1] != warnings).any(axis=1)
        diverged |= has_diverged(self.positions, self.velocities, self.sensors, self.torque)
        self.rows[diverged] = self._standing
        return diverged

    def _advance(self, nstep: int) -> np.ndarray:
        """Take physics steps of every simulation; return the simulations that MuJoCo refused [B] bool."""
        before = self._time.copy()
        try:
            self.batch.step(nstep=nstep)
        except RuntimeError:  # names one of them only; all that failed keep their time, the others went on
            return np.asarray(self._time == before)
        return np.zeros(len(before), bool)
