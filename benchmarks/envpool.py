"""Steps per second of `moolib.EnvPool`, next to a plain Python loop over the same environments in the same
run.

    python -m benchmarks.envpool --processes 2 --batch 64 [--env CartPole-v1]

By default the environment is trivial (a counter), so that what is measured is the pool itself. "double" keeps
two batches in flight, "single" one. The variants take turns, and medians are printed, so that other work on
the machine hits all alike.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import moolib


class Trivial:
    """Does next to nothing; an episode has 100 steps."""

    def __init__(self) -> None:
        self.observation = np.zeros(4, np.float32)
        self.steps = 0

    def reset(self) -> tuple[np.ndarray, dict]:
        """Begin to count."""
        self.steps = 0
        return self.observation, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Count."""
        self.steps += 1
        return self.observation, 1.0, self.steps >= 100, False, {}


def make(name: str) -> Any:
    """An environment of Gymnasium, or the trivial one."""
    if name == "trivial":
        return Trivial()
    import gymnasium

    return gymnasium.make(name)


def loop(create: Callable[[], Any], batch: int) -> Callable[[int], None]:
    """Steps as many batches in this process, and gathers the same arrays."""
    envs = [create() for _ in range(batch)]
    states = np.stack([env.reset()[0] for env in envs])
    rewards, dones = np.zeros(batch, np.float32), np.zeros(batch, bool)

    def run(batches: int) -> None:
        for _ in range(batches):
            for i, env in enumerate(envs):
                states[i], rewards[i], terminated, truncated, _ = env.step(0)
                dones[i] = terminated or truncated
                if dones[i]:
                    states[i] = env.reset()[0]

    return run


def pooled(pool: moolib.EnvPool, action: torch.Tensor, in_flight: int) -> Callable[[int], None]:
    """Steps batches of a pool, `in_flight` of them at a time."""

    def run(batches: int) -> None:
        futures = [pool.step(i, action) for i in range(in_flight)]
        for n in range(batches - in_flight):
            futures[n % in_flight].result()
            futures[n % in_flight] = pool.step(n % in_flight, action)
        for future in futures:
            future.result()

    return run


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--env", default="trivial")
    parser.add_argument("--batches", type=int, default=1000, help="batches of a turn")
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    create = functools.partial(make, options.env)
    action = torch.zeros(options.batch, dtype=torch.int64)
    with moolib.EnvPool(create, options.processes, options.batch, 2) as pool:
        variants = {
            "EnvPool, double": pooled(pool, action, 2),
            "EnvPool, single": pooled(pool, action, 1),
            "plain loop": loop(create, options.batch),
        }
        rates: dict[str, list[float]] = {name: [] for name in variants}
        for turn in range(options.turns + 1):
            for name, run in variants.items():
                start = time.perf_counter()
                run(options.batches)
                if turn:  # the first one warms up
                    rates[name].append(options.batch * options.batches / (time.perf_counter() - start))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    base = medians["plain loop"]
    print(", ".join(f"{name}: {rate:.0f} steps/s (x{rate / base:.2f})" for name, rate in medians.items()))


if __name__ == "__main__":
    main()
