"""Members of one group within one process, driven by the loop of a test."""

import time

import torch

import moolib


class Member:
    """A peer with an Accumulator of one small model."""

    def __init__(
        self, address: str, name: str, *parameters: torch.Tensor, timeout: float = 5.0, **options
    ) -> None:
        self.parameters = list(parameters) or [torch.zeros(3, requires_grad=True)]
        self.buffers = options.pop("buffers", [])
        self.rpc = moolib.Rpc(**options.pop("security", {}))
        self.rpc.set_name(name)
        self.rpc.connect(address)
        self.group = moolib.Group(self.rpc, "group")
        self.group.set_timeout(timeout)
        self.accumulator = moolib.Accumulator("model", self.parameters, self.buffers, self.group, **options)
        self.given = {"from": name}  # the state that we hand over
        self.states = []  # what we were given

    def update(self) -> None:
        """What every program does in its loop."""
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
        """Leave."""
        self.accumulator = self.group = None
        self.rpc._close()


def run(members, condition, timeout: float = 10.0) -> None:
    """Update all members until the condition is true."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        for member in members:
            member.update()
        time.sleep(0.001)


def gather(members) -> None:
    """Until all of these and nobody else are one group with one model."""
    run(members, lambda: all(len(m.group.members()) == len(members) for m in members))
    run(members, lambda: all(m.accumulator.connected() for m in members) and agreed(members))


def agreed(members) -> bool:
    """Whether all know the same leader in the same epoch."""
    epochs = {(m.group.sync_id(), m.accumulator.get_leader(), m.accumulator.model_version()) for m in members}
    return len(epochs) == 1 and "" not in next(iter(epochs))


def want(members) -> None:
    """Until all want gradients."""
    run(members, lambda: all(m.accumulator.wants_gradients() for m in members))


def have(members) -> None:
    """Until all have gradients."""
    run(members, lambda: all(m.accumulator.has_gradients() for m in members))
