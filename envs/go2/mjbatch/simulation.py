"""The physics of a batch of robots on ``mjbatch``: stepping, placing, and catching blow-ups."""

import mujoco
import numpy as np
from mjbatch import Batch

from envs.go2.arrays import Array, namespace

# Norm of all 18 velocities, m/s and rad/s, that is possible: a calf swung through its whole range at full
# torque reaches about 110 rad/s.
MAX_SPEED = 1000.0
HEIGHTS = (-1.0, 5.0)  # m, base heights that are possible
UNSTABLE = [
    int(warning)
    for warning in (
        mujoco.mjtWarning.mjWARN_BADQPOS,
        mujoco.mjtWarning.mjWARN_BADQVEL,
        mujoco.mjtWarning.mjWARN_BADQACC,
    )
]

# A blow-up is counted and cured here; MuJoCo's own notes would flood the terminal and a MUJOCO_LOG.TXT.
_log = mujoco.MjLogConfig.get()
_log.logto_console = _log.logto_file = False
_log.set()


class Simulation:
    """``n`` independent simulations of one model.

    A simulation is wholly described by its row of ``rows`` (MuJoCo's integration state), so that placing a
    robot is writing a row, and saving and restoring rows continues bit for bit.

    Attributes:
        batch: The ``mjbatch.Batch``.
        rows: Live integration states [B, nstate].
        qpos, qvel: Live positions [B, 19] and velocities [B, 18], views into ``rows``.
        positions, velocities: The same as contiguous float32 copies that the physics' threads fill at the end
            of a step: to be read (the cheap way), never written.
        sensors: Sensor readings [B, nsensordata] float32 of the last physics step's start.
        torque: Joint torques [B, 12] float32 of the last physics step's start, N m.
        warnings: MuJoCo's warning counters.
    """

    def __init__(self, model: mujoco.MjModel, n: int, num_threads: int = 0):
        """``num_threads`` physics threads, 0 for one per logical CPU; results do not depend on it."""
        self.batch = Batch(model, n, num_threads=num_threads)
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

    def place(self, ids: np.ndarray, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Puts robots ``ids`` into fresh simulations at positions [n, 19] and velocities [n, 18]."""
        self.rows[ids] = self._standing
        self.qpos[ids], self.qvel[ids] = qpos, qvel

    def step(
        self, previous: np.ndarray, target: np.ndarray, delay: np.ndarray, decimation: int
    ) -> np.ndarray:
        """Advances every simulation by ``decimation`` physics steps.

        Args:
            previous: Joint targets [B, 12] in force until the new ones arrive, rad.
            target: New joint targets [B, 12], rad.
            delay: Physics steps [B] by which they arrive late.
            decimation: Physics steps.

        Returns:
            Which simulations blew up [B] bool; these are in the standing pose now.
        """
        warnings = self.warnings[:, UNSTABLE, 1].copy()
        if delay.any():
            bad = np.zeros(len(target), bool)
            for substep in range(decimation):
                self._ctrl[:] = np.where(substep < delay[:, None], previous, target)
                bad |= self._advance(1)
        else:
            self._ctrl[:] = target
            bad = self._advance(decimation)
        bad |= (self.warnings[:, UNSTABLE, 1] != warnings).any(axis=1)
        bad |= impossible(self.positions, self.velocities, self.sensors, self.torque)
        self.rows[bad] = self._standing
        return bad

    def _advance(self, nstep: int) -> np.ndarray:
        """Physics steps of every simulation; returns which ones MuJoCo refused [B] bool."""
        before = self._time.copy()
        try:
            self.batch.step(nstep=nstep)
        except (
            RuntimeError
        ):  # names one failing simulation only; all that fail keep their time, the others go on
            return self._time == before
        return np.zeros(len(before), bool)


def impossible(positions: Array, velocities: Array, sensors: Array, torque: Array) -> Array:
    """Which robots hold impossible numbers [B] bool; written so that a NaN is impossible, too."""
    xp, height = namespace(positions), positions[:, 2]
    speed = xp.sqrt(xp.einsum("bi,bi->b", velocities, velocities))
    sums = [xp.einsum("bi->b", numbers) for numbers in (positions, sensors, torque)]
    possible = (speed < MAX_SPEED) & (height > HEIGHTS[0]) & (height < HEIGHTS[1])
    return ~(possible & xp.isfinite(sum(sums)))
