"""How much of the bare physics' speed is left for training, measured in one run on states that training
visits.

    python -m benchmarks.throughput [warm=20] [turns=5] [rollouts=4] [key=value ...]
    python -m benchmarks.throughput sweep [key=value ...]     # again with other batch sizes and threads

A peer with the given overrides trains alone for `warm` seconds. Then, turn by turn, three rates in policy
steps per second:

* physics: `mjbatch` steps the robots from the states and with the joint targets of real rollouts, nothing
  else; robots that fall are not reset;
* acting: the policy drives the robots through rollouts, with observations, rewards and resets, but without
  learning;
* training: everything, the group's reductions included.

It prints their medians, the ratios to the physics turn by turn, where the time of training goes, and what
one policy step of training costs in processor time (Linux): in the physics, in rewards, observations and
resets, in the main thread (the policy acts, updates are applied), in gradients and in reductions.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
from rich.console import Console

from agent.cli.overrides import compose
from agent.config import Config, from_omegaconf
from agent.experiment import start_rpc
from agent.logs.console import TrainingConsole
from agent.training.peer import Peer
from benchmarks.env import bare_simulations
from envs.go2.robot import constants

SWEEP = (
    (),
    ("actor_batch_size=128",),
    ("actor_batch_size=512",),
    ("num_actor_batches=1", "actor_batch_size=512"),
    ("physics_threads=2",),
    ("learner_threads=2",),
)  # overrides of each run, beside those that were given

THREADS = {"MainThread": "main thread", "gradients": "gradients", "envs": "robots", "moolib": "reducing"}
"""What threads do, by the beginning of their names; those that have no name are MuJoCo's."""


def processor_seconds() -> dict[str, float]:
    """Processor time so far, by what it was spent on."""
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
        """Takes the robots' states as the start of the next `seconds`."""
        self.saved = [self.peer.pool.state_dict(i) for i in range(len(self.simulations))]

    def seconds(self) -> float:
        """Steps all robots through the peer's last rollout; returns the time it took."""
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
    """Seconds of physics, acting and training for so many rollouts each."""
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
    """Processor seconds of so many rollouts of training, and how many cores they kept busy."""
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


def measure(config: Config, warm: float, turns: int, rollouts: int) -> None:
    with TrainingConsole("throughput", 1.0, Console(quiet=True)) as status:
        rpc, broker = start_rpc(config, status)
        peer = Peer(config, rpc, status)
        peer.join()
        until = time.monotonic() + warm
        while time.monotonic() < until:
            peer.train_on_one_rollout()
        physics = Physics(peer)
        seconds = [turn(peer, physics, rollouts) for _ in range(turns)]
        peer.train_on_one_rollout()
        peer.timer.shares()
        spent, busy = costs(peer, physics, turns * rollouts)
        shares = peer.timer.shares()
        peer.close()
        del broker
    steps = rollouts * config.sequences * config.unroll_length
    rates = [steps / statistics.median(times) for times in zip(*seconds, strict=True)]
    for name, rate, column in zip(("physics", "acting", "training"), rates, range(3), strict=True):
        ratio = statistics.median(times[0] / times[column] for times in seconds)
        print(f"{name:9} {rate:9,.0f} policy steps/s   {ratio:5.2f} x physics")
    print("training: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items()))
    each = ", ".join(f"{name} {1e6 * part / steps / turns:.1f}" for name, part in spent.items())
    print(f"processor time, us per policy step: {each}; {busy:.2f} cores busy", flush=True)


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["sweep"]:
        for variant in SWEEP:
            subprocess.run(
                [sys.executable, "-m", "benchmarks.throughput", *arguments[1:], *variant], check=True
            )
        return
    given = dict(argument.split("=", 1) for argument in arguments)
    warm, turns, rollouts = (
        float(given.pop("warm", "20")), int(given.pop("turns", "5")), int(given.pop("rollouts", "4")),
    )  # fmt: skip
    overrides = [f"{key}={value}" for key, value in given.items()]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {' '.join(overrides) or 'defaults'}")
    with tempfile.TemporaryDirectory() as directory:
        config = from_omegaconf(compose(*overrides, f"savedir={directory}"))
        os.makedirs(config.localdir)
        os.chdir(directory)
        measure(config, warm, turns, rollouts)


if __name__ == "__main__":
    main(sys.argv[1:])
