"""Members of one group within one process, driven by the loop of a test."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

import moolib


class Member:
    """A peer with an Accumulator of one small model.

    Args:
        address: The broker's.
        name: Of the peer.
        parameters: Of the model; by default, three zeros.
        timeout: Seconds, of the group.
        options: `buffers` of the model, `security` options of `Rpc`, and any options of `Accumulator`.
    """

    def __init__(
        self, address: str, name: str, *parameters: torch.Tensor, timeout: float = 5.0, **options: Any
    ) -> None:
        self.parameters = list(parameters) or [torch.zeros(3, requires_grad=True)]
        self.buffers = options.pop("buffers", [])
        self.rpc = moolib.Rpc(**options.pop("security", {}))
        self.rpc.set_name(name)
        self.rpc.connect(address)
        self.group = moolib.Group(self.rpc, "group")
        self.group.set_timeout(timeout)
        self.accumulator = moolib.Accumulator("model", self.parameters, self.buffers, self.group, **options)
        self.given: dict[str, Any] = {"from": name}  # the state for joiners
        self.states: list[Any] = []  # those that we received

    def update(self) -> None:
        """Do what every program does in its loop."""
        self.group.update()
        self.accumulator.update()
        if self.accumulator.wants_state():
            self.accumulator.set_state(self.given)
        if self.accumulator.has_new_state():
            self.states.append(self.accumulator.state())

    def reduce(self, value: float, batch_size: int = 1) -> None:
        """Contribute gradients that are `value` everywhere."""
        for p in self.parameters:
            p.grad = torch.full_like(p, value)
        self.accumulator.reduce_gradients(batch_size)

    def step(self) -> None:
        """Gradient descent with a step size of 1."""
        with torch.no_grad():
            for p in self.parameters:
                if p.grad is not None:
                    p -= p.grad
        self.accumulator.zero_gradients()

    def close(self) -> None:
        """Leave the group; may be called again."""
        for part in ("accumulator", "group"):
            vars(self).pop(part, None)
        self.rpc.close()


def run(members: Sequence[Member], condition: Callable[[], object], timeout: float = 10.0) -> None:
    """Update all members until the condition is true."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        for member in members:
            member.update()
        time.sleep(0.001)


def gather(members: Sequence[Member]) -> None:
    """Update all members until they, and nobody else, are one group with one model."""
    run(members, lambda: all(len(m.group.members()) == len(members) for m in members))
    run(members, lambda: all(m.accumulator.connected() for m in members) and agreed(members))


def agreed(members: Sequence[Member]) -> bool:
    """Return whether all members know the same leader in the same epoch."""
    epochs = {(m.group.sync_id(), m.accumulator.get_leader(), m.accumulator.model_version()) for m in members}
    return len(epochs) == 1 and "" not in next(iter(epochs))


def want(members: Sequence[Member]) -> None:
    """Update all members until all want gradients."""
    run(members, lambda: all(m.accumulator.wants_gradients() for m in members))


def have(members: Sequence[Member]) -> None:
    """Update all members until all have gradients."""
    run(members, lambda: all(m.accumulator.has_gradients() for m in members))
