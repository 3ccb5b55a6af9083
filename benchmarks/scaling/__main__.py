"""How much of their time many peers lose to each other and to the broker, on one machine.

    python -m benchmarks.scaling [least=1] [most=32] [seconds=4] [compute=0.05] [virtual=16]

1, 2, 4, ... peers, all real processes, whose stepping and learning are replaced by a sleep of `compute`
seconds for each contribution, so that the cores are free for what is measured: counts, reductions and the
broker.
Efficiency is the peers' contributions per second over those of peers that never wait: once with peers that
wait for each reduction before they compute again, and once with peers that compute meanwhile
(`set_parallel_gradients(2)`). The other columns are of the latter. The overshoot is what updates hold more
than the virtual batch of `virtual` contributions, in the mean. All peers share this machine's cores, which
peers of their own machines would not.
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
from benchmarks.scaling import peer
from benchmarks.scaling.peer import Options
from rigs.processes import Broker

SETTLE = 1.0  # seconds of training together before the measurement
TICKS = os.sysconf("SC_CLK_TCK")  # per second, of the processor times in /proc

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["benchmarks.scaling.peer"])


def used(pid: int) -> tuple[float, float]:
    """Seconds of processor time and resident MB of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) / TICKS, pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass
class Measured:
    """What came out for so many peers."""

    rounds: float  # contributions per second of a peer
    batch: float  # contributions in an update, mean
    broker_share: float  # of a core
    broker_memory: float  # MB


def measure(options: Options, count: int, parallel: int) -> Measured:
    """Start so many peers, let them train, end them."""
    broker = Broker()
    pipes, processes = [], []
    try:
        for i in range(count):
            ours, theirs = _forks.Pipe()
            arguments = (options, broker.address, f"peer{i}", parallel, theirs)
            processes.append(_forks.Process(target=peer.main, args=arguments, daemon=True))
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
