"""Section C: physics steps per second of every engine, for robots that stand and for robots in training.

A cell is one engine with some number of robots and threads. Every round visits every cell once, so that other
load on the machine does not hit one engine alone; the best round counts. There are two kinds of states:
robots that stand still, and robots that follow random targets, stumble, fall and are reset, as in early
training. Standing robots make an engine look better than it is.
"""

import itertools
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from envs.lab.common import SETTLE, TRAINING_TARGETS, TRAINING_WARMUP, Lab, Work, clocks, collect, endless
from envs.lab.engines import ENGINES, Engine, PythonLoop, Steps
from envs.machine import cores

ROBOTS = (1, 8, 64, 512, 4096)
ROUNDS = 5
PHYSICS_STEPS = 20_000  # of one cell in one round, approximately
LOOP = "Python loop"
Cell = tuple[str, int, int]  # engine, robots, threads
CLOCKS = {"per_second": "second", "per_processor_second": "processor second"}
STATES = {"standing": 0.0, "training": TRAINING_TARGETS}  # rad, standard deviation of random joint targets


def thread_counts() -> list[int]:
    """Return 1, 2, 4, … and the number of cores."""
    most = cores()
    return sorted({2**i for i in range(most.bit_length()) if 2**i <= most} | {most})


def measure(lab: Lab) -> list[dict[str, Any]]:
    """Return a row per cell: state, engine, robots, threads, steps per second, steps per processor second."""
    robots, rounds, steps = (ROBOTS, ROUNDS, PHYSICS_STEPS) if not lab.quick else ((1, 4), 1, 8)
    rows = []
    for state, spread in STATES.items():
        lab.progress(f"throughput, {state}: collecting states")
        config = endless(lab.config) if state == "standing" else lab.config
        seconds = SETTLE if state == "standing" else TRAINING_WARMUP
        size = dict(robots=4, steps=2) if lab.quick else {}
        visited = collect(config, spread, round(seconds / config.control_dt), **size)
        cells: dict[Cell, Engine] = {(LOOP, 1, 1): PythonLoop(config, 1)}
        for name, n, threads in itertools.product(ENGINES, robots, thread_counts()):
            cells[name, n, threads] = ENGINES[name](config, n, threads)
        best = {cell: np.zeros(2) for cell in cells}
        for turn in range(rounds):
            lab.progress(f"throughput, {state}: round {turn + 1} of {rounds}")
            for cell, engine in cells.items():
                _, n, threads = cell
                policy_steps = max(1, round(steps * min(threads, n) / n / config.physics.decimation))
                rate = steps_per_second(engine, visited.sample(policy_steps, n), config.physics.decimation)
                best[cell] = np.maximum(best[cell], rate)
        for (name, n, threads), (wall, processor) in best.items():
            row = dict(state=state, engine=name, robots=n, threads=threads)
            rows.append(row | {"per_second": float(wall), "per_processor_second": float(processor)})
    return rows


def steps_per_second(engine: Steps, work: Work, decimation: int) -> np.ndarray:
    """Measure physics steps per second and per second of processor time [2]."""
    engine.prepare(work)
    began = clocks()
    engine.run()
    return np.asarray(work.states[..., 0].size * decimation / (clocks() - began))


def show(console: Console, result: list[dict[str, Any]]) -> None:
    """Print the section: one table per kind of states and clock."""
    for state, (key, clock) in itertools.product(STATES, CLOCKS.items()):
        rows = [row for row in result if row["state"] == state]
        loop = next(row for row in rows if row["engine"] == LOOP)
        console.print(
            f"{state} robots, physics steps per {clock} (columns: robots); "
            f"Python loop, one robot: {loop[key]:,.0f}"
        )
        sizes = sorted({row["robots"] for row in rows})
        table = Table("engine", "threads", *map(str, sizes), box=None, pad_edge=False)
        for column in table.columns[1:]:
            column.justify = "right"
        for name, threads in dict.fromkeys((row["engine"], row["threads"]) for row in rows):
            found = {
                row["robots"]: row[key] for row in rows if (row["engine"], row["threads"]) == (name, threads)
            }
            if name != LOOP:
                table.add_row(name, str(threads), *(f"{found[n]:,.0f}" for n in sizes))
        console.print(table)
        console.print()
