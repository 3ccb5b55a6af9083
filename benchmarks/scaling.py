"""How much of their time many peers lose to each other and to the broker, on one machine.

    python -m benchmarks.scaling [most=32] [seconds=5] [compute=0.05] [parameters=50000] [virtual=16]

1, 2, 4, ... peers, all real processes, whose stepping and learning are replaced by a sleep of `compute`
seconds for each contribution, so that the cores are free for what is measured: counts, reductions and the
broker.
Efficiency is the peers' contributions per second over those of peers that never wait. The overshoot is what
updates hold more than the virtual batch of `virtual` contributions, in the mean. All peers share this
machine's cores, which peers of their own machines would not.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch

import moolib
from agent.arguments import command
from agent.config import Count
from benchmarks.chaos.rig import Broker, free_port
from envs.schema import Positive

SETTLE = 2.0  # seconds of training together before the measurement
TICKS = os.sysconf("SC_CLK_TCK")  # per second, of the processor times in /proc

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["benchmarks.scaling"])


@dataclass(frozen=True)
class Options:
    most: Count = 32
    seconds: Positive = 5.0
    compute: Positive = 0.05
    parameters: Count = 50_000  # about those of the Go2's policy
    virtual: Count = 16


def peer(options: Options, address: str, name: str, rig: Connection) -> None:
    """A peer that sleeps; tells that it trains with all, is told when to count, and gives its counts back."""
    torch.set_num_threads(1)
    members, begin, end = 0, float("inf"), float("inf")
    contributions, batches = 0, list[int]()
    model = torch.zeros(options.parameters, requires_grad=True)
    rpc = moolib.Rpc()
    rpc.set_name(name)
    rpc.connect(address)
    group = moolib.Group(rpc, "scaling")
    accumulator = moolib.Accumulator("model", [model], group=group)
    accumulator.set_virtual_batch_size(options.virtual)
    while (now := time.monotonic()) < end:
        group.update()
        accumulator.update()
        if accumulator.wants_state():
            accumulator.set_state(None)
        if accumulator.has_new_state():
            accumulator.state()
        if len(group.members()) != members:
            members = len(group.members())
            rig.send(members)
        if rig.poll():
            begin, end = rig.recv()
        if accumulator.has_gradients():
            if now >= begin:
                batches.append(accumulator.get_gradient_stats()["batch_size"])
            accumulator.zero_gradients()
        elif accumulator.wants_gradients():
            time.sleep(options.compute)
            model.grad = torch.ones_like(model)
            accumulator.reduce_gradients(1)
            contributions += now >= begin
        else:
            accumulator.wait(1.0)
    rig.send((contributions, batches))
    rig.recv()  # stay until all have finished


def used(pid: int) -> tuple[float, float]:
    """Seconds of processor time and resident MB of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) / TICKS, pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(options: Options, count: int) -> str:
    """One row of the table."""
    broker = Broker(f"127.0.0.1:{free_port()}")
    pipes, processes = [], []
    try:
        for i in range(count):
            ours, theirs = _forks.Pipe()
            arguments = (options, broker.address, f"peer{i}", theirs)
            processes.append(_forks.Process(target=peer, args=arguments, daemon=True))
            processes[-1].start()
            theirs.close()
            pipes.append(ours)
        for pipe in pipes:
            while pipe.recv() != count:
                pass
        begin = time.monotonic() + SETTLE
        for pipe in pipes:
            pipe.send((begin, begin + options.seconds))
        time.sleep(SETTLE)
        before, _ = used(broker.process.pid)
        time.sleep(options.seconds)
        after, memory = used(broker.process.pid)
        results = [pipe.recv() for pipe in pipes]
    finally:
        for process in processes:
            process.kill()
        broker.kill()
    rounds = sum(contributions for contributions, _ in results) / count / options.seconds
    batch = statistics.mean(batch for _, batches in results for batch in batches)
    share, overshoot = (after - before) / options.seconds, batch / options.virtual - 1
    efficiency = rounds * options.compute
    return f"| {count} | {efficiency:.1%} | {rounds:.1f} | {share:.2%} | {memory:.0f} MB | {overshoot:.0%} |"


def run(options: Options) -> None:
    """Print the table."""
    print("| peers | efficiency | rounds/s of a peer | broker, of a core | its memory | overshoot |")
    print("|---|---|---|---|---|---|")
    count = 1
    while count <= options.most:
        print(measure(options, count), flush=True)
        count *= 2


if __name__ == "__main__":
    sys.exit(command("benchmarks.scaling", Options, run, __doc__, sys.argv[1:]))
