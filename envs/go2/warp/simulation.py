"""The physics of a batch of robots on MuJoCo Warp; torch tensors share the memory of Warp's arrays."""

import copy
from collections.abc import Callable
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp
from torch import Tensor

from envs.go2.backend import Rows
from envs.go2.warp.graphs import record_warp

# Room for contacts and for constraint rows, per robot. A foot makes one contact of four rows, and a joint at
# its limit one row; a robot that lies on its links makes up to four contacts per box or cylinder.
FEET_ONLY, ALL_LINKS = (8, 32), (48, 224)
DERIVED = ("body_subtreemass", "body_invweight0", "dof_invweight0")  # fields that MuJoCo derives from masses


def adapt(model: mujoco.MjModel) -> mujoco.MjModel:
    """Return a copy that MuJoCo Warp can step: it has no PGS solver, and no contact margins with MULTICCD."""
    model = copy.copy(model)
    if model.opt.solver == mujoco.mjtSolver.mjSOL_PGS:
        model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    model.geom_margin[:] = 0.0
    return model


class WarpSimulation:
    """``n`` independent simulations of one model.

    Attributes:
        device: Where everything lives.
        num_sims: ``n``.
        qpos, qvel: Live positions [B, 19] and velocities [B, 18].
        controls: Joint targets of each physics step [decimation, B, 12], rad; write them before a step.
        sensors: Sensor readings [B, nsensordata] as of the start of the last physics step.
        torque: Joint torques [B, 12] as of the start of the last physics step, N m.
        warmstart: Accelerations [B, 18] from which the solver starts.
        step: Takes ``decimation`` physics steps of every simulation.
        data: Warp's own arrays, on the same memory.
    """

    def __init__(self, model: mujoco.MjModel, n: int, device: torch.device, decimation: int):
        """Make the simulations, in the standing pose.

        Args:
            model: Their model.
            n: Number of simulations.
            device: Where they live.
            decimation: Physics steps per call of ``step``.
        """
        self.device, self.num_sims = device, n
        self._warp_device = wp.device_from_torch(device)
        model, standing = adapt(model), mujoco.MjData(model)
        mujoco.mj_resetDataKeyframe(model, standing, 0)
        contacts, rows = FEET_ONLY if (model.geom_contype[1:] > 0).sum() == 4 else ALL_LINKS
        with wp.ScopedDevice(self._warp_device):
            self._model = mjw.put_model(model)
            self.data = mjw.put_data(model, standing, nworld=n, nconmax=contacts, njmax=rows)
        data = self.data
        self.qpos: Tensor = wp.to_torch(data.qpos)
        self.qvel: Tensor = wp.to_torch(data.qvel)
        self.sensors: Tensor = wp.to_torch(data.sensordata)
        self.torque: Tensor = wp.to_torch(data.actuator_force)
        self.warmstart: Tensor = wp.to_torch(data.qacc_warmstart)
        self.controls = torch.zeros(decimation, n, model.nu, device=device)
        self._controls: list[Any] = [wp.from_torch(controls) for controls in self.controls]
        self._ctrl: Any = data.ctrl
        self._standing = self.qpos.clone()
        self.step: Callable[[], None] = self._advance

    def expand(self, name: str) -> Tensor:
        """Return a live model field [B, ...] that may differ between the robots; call before ``record``."""
        field = getattr(self._model, name)
        if field.shape[0] != self.num_sims:
            values = np.repeat(field.numpy(), self.num_sims, axis=0)
            setattr(self._model, name, wp.array(values, dtype=field.dtype, device=self._warp_device))
        live: Tensor = wp.to_torch(getattr(self._model, name))
        return live

    def set_const(self) -> None:
        """Recompute the constants that MuJoCo derives from masses."""
        for name in DERIVED:
            self.expand(name)
        with wp.ScopedDevice(self._warp_device):
            mjw.set_const(self._model, self.data)

    def record(self) -> None:
        """Turn ``step`` into one graph, on devices that have graphs."""
        self.step = record_warp(self._advance, self.device)

    def place(self, rows: Rows[Tensor], qpos: Tensor, qvel: Tensor) -> None:
        """Put robots into fresh simulations at positions [B, 19] and velocities [B, 18]."""
        rows.put(self.qpos, qpos)
        rows.put(self.qvel, qvel)
        rows.put(self.warmstart, 0.0)

    def stand(self, rows: Rows[Tensor]) -> None:
        """Put robots into fresh simulations, at rest in the standing pose."""
        self.place(rows, self._standing, torch.zeros_like(self.qvel))

    def _advance(self) -> None:
        """Take the physics steps of every simulation, each towards its row of ``controls``."""
        with wp.ScopedDevice(self._warp_device):
            for controls in self._controls:
                wp.copy(self._ctrl, controls)
                mjw.step(self._model, self.data)
