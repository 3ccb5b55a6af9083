"""Measure how much of their time many peers lose to each other and to the broker, on one machine.

    python -m benchmarks.scaling
    python -m benchmarks.scaling most=8 seconds=2

1, 2, 4, … peers run as real processes. A sleep of `compute` seconds for each contribution stands for stepping
and learning, so that the cores are free for counts, reductions and the broker, which are what is measured.
Efficiency is the peers' contributions per second, divided by those of peers that never wait: once for peers
that wait for each reduction before they compute again, and once for peers that compute meanwhile
(`set_parallel_gradients(2)`). The other columns belong to the latter. The overshoot is the mean size of
updates beyond the virtual batch of `virtual` contributions. All peers share this machine's cores, unlike
peers on machines of their own.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from agent.cli.arguments import command
from benchmarks.scaling import sleeping_peer
from benchmarks.scaling.sleeping_peer import Options
from rigs.processes import Broker

SETTLE = 1.0  # seconds of training together before the measurement
TICKS = os.sysconf("SC_CLK_TCK")  # per second, of the processor times in /proc

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["benchmarks.scaling.sleeping_peer"])


def used(pid: int) -> tuple[float, float]:
    """Return the processor time (s) and the resident memory (MB) of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) / TICKS, pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass
class Measured:
    """The results for one number of peers."""

    rounds: float  # contributions per second of a peer
    batch: float  # contributions in an update, mean
    broker_share: float  # of a core
    broker_memory: float  # MB


def measure(options: Options, count: int, parallel: int) -> Measured:
    """Start so many peers, let them train, and end them."""
    broker = Broker()
    pipes, processes = [], []
    try:
        for i in range(count):
            ours, theirs = _forks.Pipe()
            arguments = (options, broker.address, f"peer{i}", parallel, theirs)
            processes.append(_forks.Process(target=sleeping_peer.main, args=arguments, daemon=True))
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
        before, _ = used(broker.pid)
        time.sleep(options.seconds)
        after, memory = used(broker.pid)
        results = [pipe.recv() for pipe in pipes]
    finally:
        for process in processes:
            process.kill()
        broker.kill()
    rounds = sum(contributions for contributions, _ in results) / count / options.seconds
    batch = statistics.mean(batch for _, batches in results for batch in batches)
    return Measured(rounds, batch, (after - before) / options.seconds, memory)


def run(options: Options) -> None:
    """Print the table."""
    print("| peers | efficiency, waiting | computing | rounds/s | broker | its memory | overshoot |")
    print("|---|---|---|---|---|---|---|")
    count = options.least
    while count <= options.most:
        waiting, computing = (measure(options, count, parallel) for parallel in (1, 2))
        cells = (
            f"{waiting.rounds * options.compute:.1%}",
            f"{computing.rounds * options.compute:.1%}",
            f"{computing.rounds:.1f}",
            f"{computing.broker_share:.2%} of a core",
            f"{computing.broker_memory:.0f} MB",
            f"{computing.batch / options.virtual - 1:.0%}",
        )
        print(f"| {count} | {' | '.join(cells)} |", flush=True)
        count *= 2


if __name__ == "__main__":
    sys.exit(command("benchmarks.scaling", Options, run, __doc__, sys.argv[1:]))
