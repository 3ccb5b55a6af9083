"""A peer of `benchmarks.scaling`, which sleeps while a real one would step its robots and learn."""

from __future__ import annotations

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch

import moolib
from agent.cli.arguments import option
from envs.schema import Count, Positive


@dataclass(frozen=True)
class Options:
    least: Count = option(1, "peers to begin with")
    most: Count = option(32, "peers to end with")
    seconds: Positive = option(4.0, "of each measurement")
    compute: Positive = option(0.05, "seconds of sleep for a contribution")
    parameters: Count = option(50_000, "of the model; about as many as the Go2's policy has")
    virtual: Count = option(16, "contributions of an update, at least")


def main(options: Options, address: str, name: str, parallel: int, rig: Connection) -> None:
    """Train, sleeping instead of computing.

    Args:
        options: Of the benchmark.
        address: The broker's.
        name: Of the peer.
        parallel: Gradients that may be under way at once.
        rig: Receives the number of members whenever it changes, sends when to begin and to end counting, and
            receives the contributions and the batch sizes of updates in between.
    """
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
    accumulator.set_parallel_gradients(parallel)
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
