"""How much of the bare physics' speed is left for training, measured in one run on states that training
visits.

    python -m benchmarks.throughput [warm=20] [turns=5] [rollouts=4] [key=value ...]

A peer with the given overrides trains alone for `warm` seconds. Then, turn by turn, three rates in policy
steps per second:

* physics: `mjbatch` steps the robots from the states and with the joint targets of real rollouts, nothing
  else; robots that fall are not reset;
* acting: the policy drives the robots through rollouts, with observations, rewards and resets, but without
  learning;
* training: everything, the group's reductions included.

It prints their medians, the ratios to the physics turn by turn, and where the time of training goes.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time

import hydra
import numpy as np
from rich.console import Console

from agent.config import Config, from_omegaconf
from agent.experiment import CONF, start_rpc
from agent.peer import Peer
from agent.status import Status
from benchmarks.env import bare_simulations
from envs.go2 import model


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
        targets = model.DEFAULT_JOINT_POS + config.env.control.action_scale * actions
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
        peer.round()
        spent[2] += time.perf_counter() - began
        spent[0] += physics.seconds()
    peer.round(learn=False)  # learns what is pending
    began = time.perf_counter()
    for _ in range(rollouts):
        peer.round(learn=False)
    spent[1] += time.perf_counter() - began
    return spent[0], spent[1], spent[2]


def measure(config: Config, warm: float, turns: int, rollouts: int) -> None:
    with Status("throughput", 1.0, Console(quiet=True)) as status:
        rpc, broker = start_rpc(config, status)
        peer = Peer(config, rpc, status)
        peer.join()
        until = time.monotonic() + warm
        while time.monotonic() < until:
            peer.round()
        physics = Physics(peer)
        seconds, shares = [], []
        for _ in range(turns):
            peer.clock.shares()
            seconds.append(turn(peer, physics, rollouts))
        for _ in range(rollouts):
            peer.clock.shares()
            peer.round()
            shares.append(peer.clock.shares())
        peer.close()
        del broker
    steps = rollouts * config.sequences * config.unroll_length
    rates = [steps / statistics.median(times) for times in zip(*seconds, strict=True)]
    for name, rate, column in zip(("physics", "acting", "training"), rates, range(3), strict=True):
        ratio = statistics.median(times[0] / times[column] for times in seconds)
        print(f"{name:9} {rate:9,.0f} policy steps/s   {ratio:5.2f} x physics")
    split = {name: statistics.mean(share[name] for share in shares) for name in shares[0]}
    print(
        "training: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in split.items()), flush=True
    )


def main(arguments: list[str]) -> None:
    given = dict(argument.split("=", 1) for argument in arguments)
    warm, turns, rollouts = (
        float(given.pop("warm", "20")), int(given.pop("turns", "5")), int(given.pop("rollouts", "4")),
    )  # fmt: skip
    overrides = [f"{key}={value}" for key, value in given.items()]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {' '.join(overrides) or 'defaults'}")
    with tempfile.TemporaryDirectory() as directory:
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            composed = hydra.compose("config", [*overrides, f"savedir={directory}"])
        config = from_omegaconf(composed)
        os.makedirs(config.localdir)
        os.chdir(directory)
        measure(config, warm, turns, rollouts)


if __name__ == "__main__":
    main(sys.argv[1:])
