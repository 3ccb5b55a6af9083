"""Section G: physics steps per second on a graphics card, and from how many robots on it beats the processor.

Both backends of the task start from states of early training and go on from there, with observations,
rewards, falls and resets; they take turns, and the best round counts. Without a card the section says so;
MuJoCo Warp on the processor is measured only when asked for, because it is slow.
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
LEAST_STEPS = 24  # policy steps in one cell and round, at least
WITHOUT = (
    "not measured: needs a graphics card that torch can use, and MuJoCo Warp (pip install 'herd[gpu]').\n"
    "--device cpu measures MuJoCo Warp on the processor instead"
)


class Card:
    """``robots`` robots of a task on a device, as ``Environment``."""

    def __init__(self, config: EnvConfig, robots: int, device: str):
        import torch

        from envs.go2.warp.batch import WarpBatch

        self._torch = torch
        self.batch = WarpBatch(config, robots, (0, 0), torch.empty(0, device=device).device)

    def prepare(self, work: Work) -> None:
        """Puts the robots into the first states of the work; its actions travel to the device."""
        tensor, state = self._torch.from_numpy, self.batch.state
        self.actions = tensor(work.actions).to(self.batch.device)
        state.qpos.copy_(tensor(work.states[0, :, 1:20]))  # after the time
        state.qvel.copy_(tensor(work.states[0, :, 20:38]))
        state.derive()
        self._wait()

    def run(self) -> None:
        """Takes every policy step and waits for the device once, at the end."""
        for actions in self.actions:
            self.batch.step(actions)
        self._wait()

    def _wait(self) -> None:
        if self.batch.device.type == "cuda":
            self._torch.cuda.synchronize(self.batch.device)


def is_installed() -> bool:
    """Whether the extra with MuJoCo Warp is."""
    return find_spec("mujoco_warp") is not None


def default_device() -> str | None:
    """The first card, if there is one and MuJoCo Warp is installed."""
    import torch

    return "cuda:0" if is_installed() and torch.cuda.is_available() else None


def measure(lab: Lab) -> dict[str, Any]:
    """The device's name and a row per number of robots: physics steps per second of both backends."""
    if lab.device is None:
        return {"device": None, "rows": []}
    import torch

    kind = torch.device(lab.device).type
    name = torch.cuda.get_device_name(lab.device) if kind == "cuda" else "MuJoCo Warp's CPU device"
    sizes, rounds, least, steps = (
        ((4,), 1, 2, 8) if lab.quick else (ROBOTS[kind], ROUNDS, LEAST_STEPS, PHYSICS_STEPS)
    )
    config, decimation, threads = lab.config, lab.config.physics.decimation, thread_counts()[-1]
    lab.progress("graphics card: collecting states")
    size = dict(robots=4, steps=2) if lab.quick else {}
    visited = collect(config, TRAINING_TARGETS, round(TRAINING_WARMUP / config.control_dt), **size)
    rows = []
    for robots in sizes:
        lab.progress(f"graphics card: {robots:,} robots")
        work = visited.sample(max(least, round(steps / robots / decimation)), robots)
        engines: list[Steps] = [Environment(config, robots, threads), Card(config, robots, lab.device)]
        engines[1].prepare(work.sample(2, robots))
        engines[1].run()  # compiles
        best = np.zeros(2)
        for _ in range(rounds):
            best = np.maximum(best, [steps_per_second(engine, work, decimation)[0] for engine in engines])
        rows.append({"robots": robots, "processor": float(best[0]), "card": float(best[1])})
    return {"device": lab.device, "name": name, "threads": threads, "rows": [] if lab.quick else rows}


def crossover(rows: list[dict[str, Any]]) -> int | None:
    """The least number of robots from which on, as far as measured, the card is faster; None for nowhere."""
    found = None
    for row in sorted(rows, key=lambda row: -row["robots"]):
        if row["card"] <= row["processor"]:
            break
        found = row["robots"]
    return found


def show(console: Console, result: dict[str, Any]) -> None:
    """Prints the section."""
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
        ("processor", f"mjbatch, {result['threads']} threads"),
        ("card", f"warp, {result['device']}"),
    ):
        table.add_row(backend, *(f"{row[key]:,.0f}" for row in rows))
    console.print(table)
    least = crossover(rows)
    where = "for none of these numbers of robots" if least is None else f"from {least:,} robots on"
    console.print(f"warp is faster {where}")
