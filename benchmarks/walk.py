"""Measure how long it takes until the robot walks, and how well it does.

    python -m benchmarks.walk seeds=1,2,3 seconds=183
    python -m benchmarks.walk algorithm=vtrace peers=2             # with overrides of agent.experiment

For each seed the benchmark starts `python -m agent.experiment` in a scratch directory, with checkpoints kept
every few seconds, and stops it `seconds` after the start of the process. Only then does it evaluate the
checkpoints, so that evaluating does not slow down training. The time of a checkpoint is the one at which it
was complete. With `peers=2`, two peers train through a broker. Errors are those of `agent.evaluate`: root
mean squares over nine fixed commands.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from agent.cli.arguments import command, option
from agent.policies import loading
from agent.policies.evaluation import evaluate
from benchmarks.lone_peer import split
from envs.schema import Count, Positive
from rigs.processes import Broker, Hang, Process

KEPT_EVERY = 10.0  # s of training between two checkpoints
ROBOTS = 8  # for each command


@dataclass(frozen=True)
class Options:
    seeds: tuple[int, ...] = option((1,), "one run for each")
    seconds: Positive = option(180.0, "from the start of the process to its end")
    peers: Count = option(1, "in a run")


def train(seed: int, options: Options, overrides: list[str], directory: Path) -> list[tuple[float, Path]]:
    """Train; return each checkpoint that was kept, with the seconds since the start."""
    settings = [f"seed={seed}", "group=walk", f"checkpoint_history_interval={KEPT_EVERY}", *overrides]
    began = time.time()  # as the times of files
    brokers = [Broker() for _ in range(options.peers > 1)]
    settings += [f"connect={broker.address}" for broker in brokers]
    command_line = ("-m", "agent.experiment", *settings)
    peers = [Process(*command_line, cwd=directory, stderr=None) for _ in range(options.peers)]
    for peer in peers:
        try:
            peer.wait(max(began + options.seconds - time.time(), 0.0))
        except Hang:
            peer.signal(signal.SIGTERM)
    for peer in peers:
        peer.wait()
    for broker in brokers:
        broker.end()
    saved = (directory / "outputs" / "herd" / "walk").glob("checkpoint*.safetensors")
    return sorted((path.stat().st_mtime - began, path) for path in saved)


def measure(path: Path) -> dict[str, float]:
    """Return what a checkpoint's policy achieves, by the columns of the table."""
    policy = loading.load(path)
    report = evaluate(policy.policy, policy.env, robots=ROBOTS)
    whole = report.overall
    standing = report.per_command[-1]
    return {
        "steps": policy.step,
        "error": whole.velocity_error or 0.0,
        "yaw_error": whole.yaw_rate_error or 0.0,
        "falls": whole.falls,
        "clearance_cm": 100 * min((c or 0.0) for c in whole.clearance),
        "trot": whole.trot or 0.0,
        "slip": whole.slip or 0.0,
        "standing_action_rate": standing.action_rate or 0.0,
    }


def run(options: Options, overrides: list[str]) -> None:
    """Train, measure and print."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {' '.join(overrides) or 'defaults'}")
    print("seed    s   M steps   m/s  rad/s  falls  clearance cm  trot  slip m/s  standing rad", flush=True)
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as directory:
            for clock, path in train(seed, options, overrides, Path(directory)):
                m = measure(path)
                print(
                    f"{seed:4} {clock:4.0f} {m['steps'] / 1e6:9.2f} {m['error']:5.3f} {m['yaw_error']:6.3f} "
                    f"{m['falls']:6.0f} {m['clearance_cm']:13.1f} {m['trot']:5.2f} {m['slip']:9.2f} "
                    f"{m['standing_action_rate']:13.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    own, overrides = split(Options, sys.argv[1:])
    sys.exit(command("benchmarks.walk", Options, lambda options: run(options, overrides), __doc__, own))
