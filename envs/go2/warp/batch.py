"""A batch of Go2 robots on a device: MuJoCo Warp, torch tensors, resets by masks.

No operation of a step reads from the device or branches on its values. So a step is three graphs, one per
phase, that are launched one after the other without waiting.
"""

from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from envs.config import EnvConfig
from envs.go2.backend import MaskedRows, Rows
from envs.go2.batch import RobotBatch
from envs.go2.mdp.state import State
from envs.go2.robot import mjcf
from envs.go2.robot.physics import check_contacts, has_diverged
from envs.go2.warp.graphs import record_torch
from envs.go2.warp.random import DeviceRandom
from envs.go2.warp.simulation import WarpSimulation


class WarpBatch(RobotBatch[Tensor]):
    """``n`` robots of one task in torch tensors on a device; see ``RobotBatch``.

    ``step`` returns as soon as its graphs are launched. The tensors of its result are ready for everything
    launched after it on torch's current stream; reading them on the host waits for the device.
    """

    asynchronous = True
    simulation: WarpSimulation
    rng: DeviceRandom

    def __init__(self, config: EnvConfig, n: int, seed: tuple[int, ...], device: torch.device):
        """Make the robots and reset them.

        Args:
            config: The task.
            n: Number of robots.
            seed: Seed of everything random.
            device: Where they live.

        Raises:
            ValueError: If the task is inconsistent; one line.
        """
        check_contacts(config)
        mj_model, rng = mjcf.build_task_model(config), DeviceRandom(seed, device)
        simulation = WarpSimulation(mj_model, n, device, config.physics.decimation)
        super().__init__(config, n, mj_model, simulation, _make_state(n, simulation), rng)
        self.device = str(device)
        set_targets = record_torch(self.set_targets, device, rng.generator)
        simulation.record()
        self._phases = set_targets, record_torch(self.finish_step, device, rng.generator)
        self.reset()
        self._tally.zero_()  # recording has taken steps

    def select(self, mask: Tensor) -> MaskedRows:
        return MaskedRows(mask)

    def set_targets(self) -> None:
        super().set_targets()
        late = self.records.delay[:, None]
        for substep, controls in enumerate(self.simulation.controls):
            controls.copy_(torch.where(substep < late, self._previous_target, self.records.target))

    def simulate(self) -> None:
        self.simulation.step()

    def read_physics(self) -> Tensor:
        simulation = self.simulation
        diverged = has_diverged(simulation.qpos, simulation.qvel, simulation.sensors, simulation.torque)
        simulation.stand(MaskedRows(diverged))
        self.state.derive()
        return diverged

    def read_motion(self, rows: Rows[Tensor]) -> None:
        self.state.derive()  # positions and velocities of the state are the physics' own memory

    def observe_rows(self, rows: Rows[Tensor], out: Tensor) -> None:
        self.observer.observe(self.state, self.rng, out=out)

    def live_arrays(self) -> dict[str, Tensor]:
        own = {"warmstart": self.simulation.warmstart, "record_tally": self._tally}
        return super().live_arrays() | own

    def pack(self) -> dict[str, np.ndarray]:
        return {"rng": self.rng.generator.get_state().numpy(), "policy_steps": np.array(self._policy_steps)}

    def unpack(self, saved: dict[str, np.ndarray]) -> None:
        self.rng.generator.set_state(torch.from_numpy(saved["rng"]))
        self._policy_steps = int(saved["policy_steps"])


def _make_state(n: int, simulation: WarpSimulation) -> State[Tensor]:
    """Return zeros, except for positions and velocities, which are the physics' own memory."""
    host, device = State.zeros(n), simulation.device
    tensors = {f.name: torch.from_numpy(getattr(host, f.name)).to(device) for f in fields(State)}
    return State(**tensors | {"qpos": simulation.qpos, "qvel": simulation.qvel})
