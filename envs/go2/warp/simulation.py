"""The physics of a batch of robots on MuJoCo Warp; its arrays are torch tensors on the same memory."""

import copy
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp
from torch import Tensor

from envs.warp.graphs import record_warp

# Room for contacts and for rows of constraints, per robot. A foot makes one contact of four rows, and a joint
# at its limit one row; a robot that lies on its links, up to four contacts per box or cylinder.
FEET_ONLY, ALL_LINKS = (8, 32), (48, 224)
DERIVED = ("body_subtreemass", "body_invweight0", "dof_invweight0")  # by MuJoCo, from masses


def adapt(model: mujoco.MjModel) -> mujoco.MjModel:
    """A copy that MuJoCo Warp can step: it has no PGS solver, and no contact margins with MULTICCD."""
    model = copy.copy(model)
    if model.opt.solver == mujoco.mjtSolver.mjSOL_PGS:
        model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    model.geom_margin[:] = 0.0
    return model


class WarpSimulation:
    """``n`` independent simulations of one model.

    Attributes:
        device: Where everything is.
        num_sims: ``n``.
        qpos, qvel: Live positions [B, 19] and velocities [B, 18].
        controls: Joint targets of each physics step [decimation, B, 12], rad; to be written before a step.
        sensors: Sensor readings [B, nsensordata] of the last physics step's start.
        torque: Joint torques [B, 12] of the last physics step's start, N m.
        warmstart: Accelerations [B, 18] from which the solver starts.
    """

    def __init__(self, model: mujoco.MjModel, n: int, device: torch.device, decimation: int):
        self.device, self.num_sims = device, n
        self._warp_device = wp.device_from_torch(device)
        model, standing = adapt(model), mujoco.MjData(model)
        mujoco.mj_resetDataKeyframe(model, standing, 0)
        contacts, rows = FEET_ONLY if (model.geom_contype[1:] > 0).sum() == 4 else ALL_LINKS
        with wp.ScopedDevice(self._warp_device):
            self._model = mjw.put_model(model)
            self._data = mjw.put_data(model, standing, nworld=n, nconmax=contacts, njmax=rows)
        data = self._data
        self.qpos, self.qvel = wp.to_torch(data.qpos), wp.to_torch(data.qvel)
        self.sensors, self.torque = wp.to_torch(data.sensordata), wp.to_torch(data.actuator_force)
        self.warmstart = wp.to_torch(data.qacc_warmstart)
        self.controls = torch.zeros(decimation, n, model.nu, device=device)
        self._controls: list[Any] = [wp.from_torch(controls) for controls in self.controls]
        self._ctrl: Any = data.ctrl
        self._standing = self.qpos.clone()
        self.step = self._advance

    def expand(self, name: str) -> Tensor:
        """A live model field [B, ...] that may differ between the robots from now on; before ``record``."""
        field = getattr(self._model, name)
        if field.shape[0] != self.num_sims:
            values = np.repeat(field.numpy(), self.num_sims, axis=0)
            setattr(self._model, name, wp.array(values, dtype=field.dtype, device=self._warp_device))
        return wp.to_torch(getattr(self._model, name))

    def set_const(self) -> None:
        """Recomputes what MuJoCo derives from masses."""
        for name in DERIVED:
            self.expand(name)
        with wp.ScopedDevice(self._warp_device):
            mjw.set_const(self._model, self._data)

    def record(self) -> None:
        """Makes ``step`` one graph, where the device has such."""
        self.step = record_warp(self._advance, self.device)

    def place(self, mask: Tensor, qpos: Tensor | None = None, qvel: Tensor | None = None) -> None:
        """Puts the robots of ``mask`` [B] into fresh simulations.

        Args:
            mask: Which robots.
            qpos: Positions [B, 19], of which only these robots' count; None for the standing pose.
            qvel: Velocities [B, 18]; None for rest.
        """
        rows = mask[:, None]
        self.qpos.copy_(torch.where(rows, self._standing if qpos is None else qpos, self.qpos))
        self.qvel.copy_(torch.where(rows, torch.zeros_like(self.qvel) if qvel is None else qvel, self.qvel))
        self.warmstart.masked_fill_(rows, 0.0)

    def _advance(self) -> None:
        """Physics steps of every simulation, each towards its row of ``controls``."""
        with wp.ScopedDevice(self._warp_device):
            for controls in self._controls:
                wp.copy(self._ctrl, controls)
                mjw.step(self._model, self._data)
