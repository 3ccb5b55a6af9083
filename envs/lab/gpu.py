"""Section G: physics steps per second on a GPU, and the number of robots from which it beats the CPU.

Both backends of the task continue from states of early training, with observations, rewards, falls and
resets. They take turns, and the best round counts. Without a GPU the section says so; it measures MuJoCo Warp
on the CPU only on request, because that is slow.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from envs.config import EnvConfig
from envs.lab.common import TRAINING_TARGETS, TRAINING_WARMUP, Lab, Work, collect
from envs.lab.engines import Environment, Steps
from envs.lab.throughput import PHYSICS_STEPS, steps_per_second, thread_counts

ROBOTS = {"cuda": (16, 64, 256, 1024, 4096, 16384), "cpu": (16, 64, 256)}
ROUNDS = 3
LEAST_STEPS = 24  # policy steps of one cell in one round, at least
WITHOUT = (
    "not measured: needs a GPU that torch can use, and MuJoCo Warp (pip install 'herd[gpu]').\n"
    "--device cpu measures MuJoCo Warp on the CPU instead"
)


class WarpEnvironment:
    """``Environment`` with its robots on a device, by MuJoCo Warp."""

    def __init__(self, config: EnvConfig, robots: int, device: str):
        import torch

        from envs.go2.warp.batch import WarpBatch

        self._torch, self._device = torch, torch.empty(0, device=device).device
        self.batch = WarpBatch(config, robots, (0, 0), self._device)

    def prepare(self, work: Work) -> None:
        """Put the robots into the first states of the work, and its actions on the device."""
        tensor, state = self._torch.from_numpy, self.batch.state
        self.actions = tensor(work.actions).to(self._device)
        state.qpos.copy_(tensor(work.states[0, :, 1:20]))  # after the time
        state.qvel.copy_(tensor(work.states[0, :, 20:38]))
        state.derive()
        self._wait()

    def run(self) -> None:
        """Take every policy step; wait for the device once, at the end."""
        for actions in self.actions:
            self.batch.step(actions)
        self._wait()

    def _wait(self) -> None:
        if self._device.type == "cuda":
            self._torch.cuda.synchronize(self._device)


def is_installed() -> bool:
    """Return whether MuJoCo Warp is installed."""
    return find_spec("mujoco_warp") is not None


def default_device() -> str | None:
    """Return the first GPU, if there is one and MuJoCo Warp is installed."""
    import torch

    return "cuda:0" if is_installed() and torch.cuda.is_available() else None


def measure(lab: Lab) -> dict[str, Any]:
    """Return the device's name, and physics steps per second of both backends per number of robots."""
    if lab.device is None:
        return {"device": None, "rows": []}
    import torch

    kind = torch.device(lab.device).type
    name = torch.cuda.get_device_name(lab.device) if kind == "cuda" else "MuJoCo Warp's CPU device"
    sizes, rounds, least, steps = (
        ((4,), 1, 2, 8) if lab.quick else (ROBOTS[kind], ROUNDS, LEAST_STEPS, PHYSICS_STEPS)
    )
    config, decimation, threads = lab.config, lab.config.physics.decimation, thread_counts()[-1]
    lab.progress("GPU: collecting states")
    size = dict(robots=4, steps=2) if lab.quick else {}
    visited = collect(config, TRAINING_TARGETS, round(TRAINING_WARMUP / config.control_dt), **size)
    rows = []
    for robots in sizes:
        lab.progress(f"GPU: {robots:,} robots")
        work = visited.sample(max(least, round(steps / robots / decimation)), robots)
        engines: list[Steps] = [
            Environment(config, robots, threads),
            WarpEnvironment(config, robots, lab.device),
        ]
        engines[1].prepare(work.sample(2, robots))
        engines[1].run()  # compiles
        best = np.zeros(2)
        for _ in range(rounds):
            best = np.maximum(best, [steps_per_second(engine, work, decimation)[0] for engine in engines])
        rows.append({"robots": robots, "cpu": float(best[0]), "gpu": float(best[1])})
    return {"device": lab.device, "name": name, "threads": threads, "rows": [] if lab.quick else rows}


def crossover(rows: list[dict[str, Any]]) -> int | None:
    """Return the number of robots from which the GPU was always faster; None if there is none."""
    found = None
    for row in sorted(rows, key=lambda row: -row["robots"]):
        if row["gpu"] <= row["cpu"]:
            break
        found = row["robots"]
    return found


def show(console: Console, result: dict[str, Any]) -> None:
    """Print the section."""
    if result["device"] is None:
        console.print(WITHOUT, markup=False)
        return
    rows = result["rows"]
    if not rows:
        console.print("both backends ran")
        return
    console.print(f"robots in training, physics steps per second (columns: robots); {result['name']}")
    table = Table("backend", *(f"{row['robots']:,}" for row in rows), box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for key, backend in (
        ("cpu", f"mjbatch, {result['threads']} threads"),
        ("gpu", f"warp, {result['device']}"),
    ):
        table.add_row(backend, *(f"{row[key]:,.0f}" for row in rows))
    console.print(table)
    least = crossover(rows)
    where = "for none of these numbers of robots" if least is None else f"from {least:,} robots upwards"
    console.print(f"warp is faster {where}")
