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
from pathlib import Path

from agent.arguments import command
from benchmarks.chaos.rig import Broker, free_port
from benchmarks.scaling import peer
from benchmarks.scaling.peer import Options

SETTLE = 2.0  # seconds of training together before the measurement
TICKS = os.sysconf("SC_CLK_TCK")  # per second, of the processor times in /proc

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["benchmarks.scaling.peer"])


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
