"""Steps per second of `moolib.Accumulator`, next to a bare Gloo all-reduce of the same size in the same run.

    python -m benchmarks.accumulator peers=2 params=[200000,2000000]

The two take turns, and medians are printed, so that other work on the machine affects both equally. Each peer
contributes whenever the group wants a contribution, so that

    python -m benchmarks.accumulator params=[1000] virtual_batch_size=64 batch_size=32

shows by how much updates exceed the virtual batch size.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Any

from agent.cli.arguments import command, option
from envs.schema import Count, Positive

WARM_UP = 20  # rounds that are not counted
MOST_ROUNDS = 500  # per second of a turn
PARAMETERS_PER_SECOND = 60e6  # that one peer reduces, roughly


@dataclass(frozen=True)
class Options:
    peers: Count = option(2, "processes on this machine")
    params: tuple[Count, ...] = option((200_000, 2_000_000), "sizes of the model")
    seconds: Positive = option(3.0, "length of one turn, roughly")
    turns: Count = option(3, "of each of the two")
    batch_size: Count = option(1, "sequences of each contribution")
    virtual_batch_size: Count | None = option(None, "sequences of an update; by default, the number of peers")
    spin: bool = option(False, "call `update()` without pause instead of `wait()`")


def bare_gloo(rank: int, size: int, params: int, rounds: int, store: str) -> float:
    """Return the rounds per second of `all_reduce` alone."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    buffer = torch.ones(params)
    for _ in range(WARM_UP):
        dist.all_reduce(buffer)
    start = time.perf_counter()
    for _ in range(rounds):
        dist.all_reduce(buffer)
    seconds = time.perf_counter() - start
    dist.barrier()  # otherwise one process may leave while another still receives
    dist.destroy_process_group()  # whose threads would abort the process at its exit
    return rounds / seconds


def accumulated(
    rank: int, size: int, params: int, rounds: int, address: str, spin: bool, batch_size: int, virtual: int
) -> tuple[float, float]:
    """Return the steps per second of a program with an Accumulator, and their mean batch size."""
    import torch

    import moolib

    tensors = [torch.zeros(params // 4, requires_grad=True) for _ in range(4)]
    for tensor in tensors:
        tensor.grad = torch.ones_like(tensor)
    rpc = moolib.Rpc()
    rpc.set_name(f"peer{rank}")
    rpc.connect(address)
    group = moolib.Group(rpc, "benchmark")
    accumulator = moolib.Accumulator("model", tensors, group=group)
    accumulator.set_virtual_batch_size(virtual)
    steps, batches, start = 0, 0, 0.0
    while steps < WARM_UP + rounds:
        group.update()
        accumulator.update()
        if accumulator.wants_state():
            accumulator.set_state(None)
        if accumulator.has_new_state():
            accumulator.state()
        if accumulator.has_gradients():
            steps += 1
            batches += accumulator.get_gradient_stats()["batch_size"]
            accumulator.zero_gradients()
            if steps == WARM_UP:
                start = time.perf_counter()
        elif accumulator.wants_gradients() and len(group.members()) == size:
            accumulator.reduce_gradients(batch_size)
        elif not spin:
            accumulator.wait(0.1)
    seconds = time.perf_counter() - start
    time.sleep(0.2)  # the others finish their last step before we leave
    return rounds / seconds, batches / steps


def peer(
    rank: int, size: int, params: int, rounds: int, arguments: Any, barrier: Barrier, results: Any
) -> None:
    """Measure in one process, once all others are ready."""
    import torch

    torch.set_num_threads(1)
    kind, *rest = arguments
    barrier.wait()
    results.put((bare_gloo if kind == "gloo" else accumulated)(rank, size, params, rounds, *rest))


def measure(size: int, params: int, rounds: int, arguments: Any) -> list[Any]:
    """Return the results of `size` processes.

    Raises:
        RuntimeError: A process failed at its exit.
    """
    context = mp.get_context("spawn")
    barrier, results = context.Barrier(size), context.Queue()
    work = [
        context.Process(target=peer, args=(rank, size, params, rounds, arguments, barrier, results))
        for rank in range(size)
    ]
    for process in work:
        process.start()
    found = [results.get(timeout=120) for _ in work]
    for process in work:
        process.join()
    if bad := [process.exitcode for process in work if process.exitcode]:
        raise RuntimeError(f"processes ended with {bad}")
    return found


def run(options: Options) -> None:
    """Print a line for each size of the model."""
    from moolib import Broker

    broker = Broker()
    address = broker.listen("127.0.0.1:0")
    size, virtual = options.peers, options.virtual_batch_size or options.peers
    for params in options.params:
        rounds = max(20, int(options.seconds * min(MOST_ROUNDS, PARAMETERS_PER_SECOND / params / size)))
        gloo, ours = [], []
        for _ in range(options.turns):
            with tempfile.TemporaryDirectory() as folder:
                store = os.path.join(folder, "store")
                gloo.append(min(measure(size, params, rounds, ("gloo", store))))
            arguments = ("ours", address, options.spin, options.batch_size, virtual)
            ours.append(min(measure(size, params, rounds, arguments)))
        bare, steps = statistics.median(gloo), statistics.median(rate for rate, _ in ours)
        print(
            f"{size} peers, {params} parameters: bare Gloo {bare:.0f}/s, Accumulator {steps:.0f}/s, "
            f"ratio {steps / bare:.2f}, mean batch {ours[0][1]:.2f} (virtual batch {virtual})",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(command("benchmarks.accumulator", Options, run, __doc__, sys.argv[1:]))
