"""Steps per second of `moolib.Accumulator`, next to a bare Gloo all-reduce of the same size in the same run.

    python -m benchmarks.accumulator --peers 2 --params 200000 2000000

Peers are processes on this machine. The two are measured in turns, `--turns` each, and medians are printed,
so that other work on the machine hits both alike. `--spin` lets the programs call `update()` without pause
instead of `wait()`. Each peer contributes whenever that is wanted, so that

    python -m benchmarks.accumulator --params 1000 --virtual-batch-size 64 --batch-size 32

shows by how much the virtual batch size is overshot.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import os
import statistics
import tempfile
import time
from multiprocessing.synchronize import Barrier
from typing import Any

WARM_UP = 20  # rounds that are not counted


def bare_gloo(rank: int, size: int, params: int, rounds: int, store: str) -> float:
    """Rounds per second of `all_reduce` alone."""
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
    """Steps per second, and their mean batch size, of a program that contributes whenever that is wanted."""
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
    time.sleep(0.2)  # let the others finish their last step before we leave
    return rounds / seconds, batches / steps


def peer(
    rank: int, size: int, params: int, rounds: int, arguments: Any, barrier: Barrier, results: Any
) -> None:
    """One process: wait for the others, then measure."""
    import torch

    torch.set_num_threads(1)
    kind, *rest = arguments
    barrier.wait()
    results.put((bare_gloo if kind == "gloo" else accumulated)(rank, size, params, rounds, *rest))


def measure(size: int, params: int, rounds: int, arguments: Any) -> list[Any]:
    """The results of `size` processes.

    Raises:
        RuntimeError: A process did not end in order.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=int, nargs="+", default=[2])
    parser.add_argument("--params", type=int, nargs="+", default=[200_000, 2_000_000])
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one turn, roughly")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=1, help="of each contribution")
    parser.add_argument("--virtual-batch-size", type=int, help="default: the number of peers")
    parser.add_argument("--spin", action="store_true", help="call update() without pause")
    options = parser.parse_args()
    from moolib import Broker

    broker = Broker()
    address = broker.listen("127.0.0.1:0")
    for size in options.peers:
        virtual = options.virtual_batch_size or size
        for params in options.params:
            rounds = max(20, int(options.seconds * min(500, 60e6 / params / size)))
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
    main()
