"""Measure how well a trained policy walks.

    python -m agent.evaluate                                # the run that was started last in this directory
    python -m agent.evaluate checkpoint=PATH physics=menagerie
    python -m agent.evaluate checkpoint=PATH push=1 --json

The policy acts without noise, on observations without noise. Every robot follows one of nine commands for
10 s, of which the first 2 s do not count. It has fallen when its base tips by more than 72 degrees, touches
the floor or is as low as if it did, or by the terms of its own task. agent/policies/gait_metrics.py defines
the columns.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from rich.console import Console

from agent.cli.arguments import command, option
from agent.policies.evaluation import GAIT, TRACKING, evaluate, table
from agent.policies.loading import load
from agent.storage.paths import LATEST
from envs.schema import Bounds, NonNegative


@dataclass(frozen=True)
class Options:
    checkpoint: str = option(LATEST, "file to evaluate, or the directory of its run")
    physics: Literal["train", "menagerie"] = option(
        "train",
        "train: the physics that the policy was trained in, with its randomised robots; menagerie: a physics "
        "that it has never seen: 2 ms steps, elliptic cones, impratio 100, joint damping 2 N m s/rad, dry "
        "friction 0.2 N m, every link collides; gains and action scale as trained",
    )
    robots: Annotated[int, Bounds(low=1, high=10_000)] = option(64, "robots for each command")
    push: NonNegative = option(
        0.0, "m/s; every 2.5 s a robot's xy velocity is set to a random one of up to +- this; 0: no pushes"
    )
    seed: Annotated[int, Bounds(low=0)] = option(0, "of the robots")
    json: bool = option(False, "print JSON instead of a table")


def run(options: Options) -> None:
    """Evaluate and print."""
    loaded = load(options.checkpoint)
    report = evaluate(loaded.policy, loaded.env, options.physics, options.robots, options.push, options.seed)
    if options.json:
        about = {
            "checkpoint": str(loaded.path),
            "training_steps": loaded.step,
            "training_seconds": loaded.seconds,
        }
        print(json.dumps(about | asdict(report)))
        return
    title = (
        f"{loaded.path}: {loaded.env.name}, trained {loaded.step:,} steps in {loaded.seconds:.0f} s; "
        f"physics={options.physics}, {options.robots} robots per command"
        + (f", pushed by up to {options.push:g} m/s" if options.push else "")
    )
    console = Console()
    console.print(title, markup=False, highlight=False, soft_wrap=True)
    for columns in (TRACKING, GAIT):
        console.print()
        console.print(table(report, columns))


def main(arguments: Sequence[str] | None = None) -> int:
    return command("agent.evaluate", Options, run, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
