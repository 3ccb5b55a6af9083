"""Measure how much of the bare physics' speed is left for training, on states that training visits.

    python -m benchmarks.throughput
    python -m benchmarks.throughput warm=5 actor_batch_size=512    # with overrides of agent.experiment
    python -m benchmarks.throughput sweep turns=3                  # with several batch sizes and threads

A peer trains alone for `warm` seconds. Then the benchmark measures, turn by turn, three rates in policy steps
per second:

* physics: `mjbatch` steps the robots from the states and with the joint targets of real rollouts, and nothing
  else; robots that fall are not reset;
* acting: the policy drives the robots through rollouts, with observations, rewards and resets, but without
  learning;
* training: everything, the group's reductions included.

It prints their medians, the ratios to the physics turn by turn, the shares of the main thread's time, and the
processor time (Linux) of one policy step of training: in the physics, in rewards, observations and resets, in
the main thread (the policy acts, updates are applied), in gradients and in reductions.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from agent.cli.arguments import command, option
from agent.training.peer import Peer
from benchmarks.env import bare_simulations
from benchmarks.lone_peer import lone_peer, split
from envs.go2.robot import constants
from envs.schema import Count, NonNegative


@dataclass(frozen=True)
class Options:
    mode: Literal["once", "sweep"] = option("once", "sweep: several batch sizes, threads", positional=True)
    warm: NonNegative = option(20.0, "seconds of training before the measurement")
    turns: Count = option(5, "of each of the three")
    rollouts: Count = option(4, "in a turn")


SWEEP = (
    (),
    ("actor_batch_size=128",),
    ("actor_batch_size=512",),
    ("num_actor_batches=1", "actor_batch_size=512"),
    ("physics_threads=2",),
    ("learner_threads=2",),
)  # overrides of each run of a sweep, beside those of the command line

THREADS = {"MainThread": "main thread", "gradients": "gradients", "envs": "robots", "moolib": "reducing"}
"""The work of threads by the beginning of their names; those without a name are MuJoCo's."""


def processor_seconds() -> dict[str, float]:
    """Return the processor time so far for each kind of work, s."""
    spent = dict.fromkeys(THREADS.values(), 0.0)
    for thread in threading.enumerate():
        kind = next((kind for name, kind in THREADS.items() if thread.name.startswith(name)), None)
        if kind is not None and thread.ident is not None:
            spent[kind] += time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    spent["robots"] += time.process_time() - sum(spent.values())
    return spent


class Physics:
    """The robots of a peer as bare simulations."""

    def __init__(self, peer: Peer) -> None:
        self.peer, config = peer, peer.config
        self.saved = [peer.pool.state_dict(i) for i in range(config.num_actor_batches)]
        self.simulations = bare_simulations(config.env, self.saved, threads=0)
        self.controls = [simulation.batch.bind("ctrl") for simulation in self.simulations]

    def remember(self) -> None:
        """Take the robots' states as the start of the next `seconds`."""
        self.saved = [self.peer.pool.state_dict(i) for i in range(len(self.simulations))]

    def seconds(self) -> float:
        """Step all robots through the peer's last rollout; return the time that it took, s."""
        peer, config = self.peer, self.peer.config
        actions = peer.actors.rollout.action.cpu().numpy().astype(np.float64)
        targets = constants.DEFAULT_JOINT_POS + config.env.control.action_scale * actions
        for simulation, saved in zip(self.simulations, self.saved, strict=True):
            simulation.rows[:] = saved["rows"]
        began = time.perf_counter()
        for wanted in targets:
            for rows, simulation, control in zip(
                peer.actors.batches, self.simulations, self.controls, strict=True
            ):
                control[:] = wanted[rows]
                simulation.batch.step(nstep=peer.pool.decimation)
        return time.perf_counter() - began


def turn(peer: Peer, physics: Physics, rollouts: int) -> tuple[float, float, float]:
    """Return the seconds of physics, acting and training for so many rollouts each."""
    spent = [0.0, 0.0, 0.0]
    for _ in range(rollouts):
        physics.remember()
        began = time.perf_counter()
        peer.train_on_one_rollout()
        spent[2] += time.perf_counter() - began
        spent[0] += physics.seconds()
    peer.train_on_one_rollout(keep=False)  # learns what is pending
    began = time.perf_counter()
    for _ in range(rollouts):
        peer.train_on_one_rollout(keep=False)
    spent[1] += time.perf_counter() - began
    return spent[0], spent[1], spent[2]


def costs(peer: Peer, physics: Physics, rollouts: int) -> tuple[dict[str, float], float]:
    """Return the processor seconds of so many rollouts of training, and the number of busy cores."""
    peer.train_on_one_rollout()
    physics.remember()
    before, began = processor_seconds(), time.perf_counter()
    for _ in range(rollouts):
        peer.train_on_one_rollout()
    elapsed = time.perf_counter() - began
    spent = {name: seconds - before[name] for name, seconds in processor_seconds().items()}
    busy = sum(spent.values()) / elapsed
    began = time.process_time()
    for _ in range(rollouts):
        physics.seconds()
    bare = time.process_time() - began
    parts = {"physics": bare, "rewards, observations and resets": spent.pop("robots") - bare}
    return parts | spent, busy


def measure(peer: Peer, options: Options) -> None:
    """Measure and print."""
    until = time.monotonic() + options.warm
    while time.monotonic() < until:
        peer.train_on_one_rollout()
    physics = Physics(peer)
    seconds = [turn(peer, physics, options.rollouts) for _ in range(options.turns)]
    peer.train_on_one_rollout()
    peer.timer.shares()
    spent, busy = costs(peer, physics, options.turns * options.rollouts)
    shares = peer.timer.shares()
    steps = options.rollouts * peer.config.sequences * peer.config.unroll_length
    rates = [steps / statistics.median(times) for times in zip(*seconds, strict=True)]
    for name, rate, column in zip(("physics", "acting", "training"), rates, range(3), strict=True):
        ratio = statistics.median(times[0] / times[column] for times in seconds)
        print(f"{name:9} {rate:9,.0f} policy steps/s   {ratio:5.2f} x physics")
    print("training: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items()))
    each = ", ".join(f"{name} {1e6 * part / steps / options.turns:.1f}" for name, part in spent.items())
    print(f"processor time, us per policy step: {each}; {busy:.2f} cores busy", flush=True)


def run(options: Options, overrides: list[str]) -> None:
    """Measure once, or once for each variant of a sweep, in a process of its own."""
    if options.mode == "sweep":
        own = [f"{name}={value}" for name, value in asdict(options).items() if name != "mode"]
        for variant in SWEEP:
            command_line = [sys.executable, "-m", "benchmarks.throughput", *own, *overrides, *variant]
            subprocess.run(command_line, check=True)
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {' '.join(overrides) or 'defaults'}")
    with lone_peer(*overrides) as peer:
        measure(peer, options)


if __name__ == "__main__":
    own, overrides = split(Options, sys.argv[1:])
    sys.exit(command("benchmarks.throughput", Options, lambda options: run(options, overrides), __doc__, own))
