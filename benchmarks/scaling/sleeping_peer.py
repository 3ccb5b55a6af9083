"""A peer of `benchmarks.scaling`, which sleeps where a real one steps its robots and learns."""

from __future__ import annotations

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch

import moolib
from agent.config import Count
from envs.schema import Positive


@dataclass(frozen=True)
class Options:
    least: Count = 1
    most: Count = 32
    seconds: Positive = 4.0
    compute: Positive = 0.05
    parameters: Count = 50_000  # about those of the Go2's policy
    virtual: Count = 16


def main(options: Options, address: str, name: str, parallel: int, rig: Connection) -> None:
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
