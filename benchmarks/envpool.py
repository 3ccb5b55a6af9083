"""Steps per second of `moolib.EnvPool`, next to a plain Python loop over the same environments in one run.

    python -m benchmarks.envpool
    python -m benchmarks.envpool env=CartPole-v1

"double" keeps two batches in flight, "single" one. The variants take turns, and medians are printed, so that
other work on the machine affects all equally.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import moolib
from agent.cli.arguments import command, option
from envs.schema import Count


@dataclass(frozen=True)
class Options:
    processes: Count = option(2, "that step environments")
    batch: Count = option(64, "environments in a batch")
    env: str = option("trivial", "of Gymnasium; trivial is a counter, which measures the pool itself")
    batches: Count = option(1000, "of a turn")
    turns: Count = option(7, "of each variant")


class Trivial:
    """A counter whose episodes have 100 steps."""

    def __init__(self) -> None:
        self.observation = np.zeros(4, np.float32)
        self.steps = 0

    def reset(self) -> tuple[np.ndarray, dict[str, Any]]:
        """Set the counter to zero."""
        self.steps = 0
        return self.observation, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Increase the counter."""
        self.steps += 1
        return self.observation, 1.0, self.steps >= 100, False, {}


def make(name: str) -> Any:
    """Return an environment of Gymnasium, or the trivial one."""
    if name == "trivial":
        return Trivial()
    import gymnasium

    return gymnasium.make(name)


def loop(create: Callable[[], Any], batch: int) -> Callable[[int], None]:
    """Return a function that steps batches in this process and gathers the same arrays as the pool."""
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
    """Return a function that steps batches of a pool, `in_flight` of them at a time."""

    def run(batches: int) -> None:
        futures = [pool.step(i, action) for i in range(in_flight)]
        for n in range(batches - in_flight):
            futures[n % in_flight].result()
            futures[n % in_flight] = pool.step(n % in_flight, action)
        for future in futures:
            future.result()

    return run


def run(options: Options) -> None:
    """Measure and print one line."""
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
            for name, step in variants.items():
                start = time.perf_counter()
                step(options.batches)
                if turn:  # the first one warms up
                    rates[name].append(options.batch * options.batches / (time.perf_counter() - start))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    base = medians["plain loop"]
    print(", ".join(f"{name}: {rate:.0f} steps/s (x{rate / base:.2f})" for name, rate in medians.items()))


if __name__ == "__main__":
    sys.exit(command("benchmarks.envpool", Options, run, __doc__, sys.argv[1:]))
