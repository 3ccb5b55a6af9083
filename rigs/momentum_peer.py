"""A small training peer, and the handle for one that runs as a process of its own.

The program is `python -m rigs.momentum_peer ADDRESS NAME SEED TIMEOUT PAUSE`. It trains with gradients that
are random and different on each peer, and after each step prints a line of JSON: the time (`time.monotonic`,
comparable between processes) of the step and of the peer's start, the model version, a checksum of all
parameters and momenta, the number of members and of contributions. It ends when its standard input does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import zlib
from collections.abc import Sequence
from typing import Any

import torch

import moolib
from rigs.processes import Process, wait_until


class MomentumPeer(Process):
    """A running peer in the group of the broker at `address`.

    Args:
        address: The broker's.
        name: Of the peer.
        seed: Of its model and its gradients.
        timeout: Seconds, of the group.
        pause: Seconds that a gradient takes.
    """

    def __init__(
        self, address: str, name: str, seed: int, timeout: float = 5.0, pause: float = 0.003
    ) -> None:
        self.name = name
        super().__init__("-m", "rigs.momentum_peer", address, name, str(seed), str(timeout), str(pause))

    def steps(self, since: float = 0.0) -> list[dict[str, Any]]:
        """Return the steps that the peer has made since that time."""
        return [step for step in map(json.loads, list(self.lines)) if step["time"] >= since]


def train_together(peers: Sequence[MomentumPeer], steps: int = 20) -> float:
    """Wait until these peers, and nobody else, have made `steps` steps together; return the first one's time.

    Raises:
        AssertionError: They did not in time, or their models differ.
    """
    start = time.monotonic()

    def together(peer: MomentumPeer) -> list[dict[str, Any]]:
        return [s for s in peer.steps(start) if s["members"] == len(peers) == s["contributions"]]

    names = ", ".join(peer.name for peer in peers)
    wait_until(lambda: all(len(together(peer)) >= steps for peer in peers), f"{names} train together")
    _assert_equal_models(peers, start)
    return float(max(together(peer)[0]["time"] for peer in peers))


def _assert_equal_models(peers: Sequence[MomentumPeer], since: float) -> None:
    """Check that all peers had the same model at each version that they made together since that time."""
    models: dict[int, set[int]] = {}
    for peer in peers:
        for step in peer.steps(since):
            if step["contributions"] == len(peers):
                models.setdefault(step["version"], set()).add(step["checksum"])
    assert len(models) > 5
    assert all(len(checksums) == 1 for checksums in models.values()), models


def main(address: str, name: str, seed: int, timeout: float, pause: float) -> None:
    """Train until the standard input ends."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.BatchNorm1d(30), torch.nn.Linear(30, 5))
    start = time.monotonic()
    momenta = [torch.zeros_like(p) for p in model.parameters()]
    rpc = moolib.Rpc()
    rpc.set_name(name)
    rpc.connect(address)
    group = moolib.Group(rpc, "test")
    group.set_timeout(timeout)
    accumulator = moolib.Accumulator("model", model.parameters(), model.buffers(), group)
    ended = threading.Event()

    def watch_input() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=watch_input, daemon=True).start()
    while not ended.is_set():
        group.update()
        accumulator.update()
        if accumulator.wants_state():
            accumulator.set_state({"momenta": momenta})
        if accumulator.has_new_state():
            momenta = accumulator.state()["momenta"]
        if accumulator.has_gradients():
            step(model, momenta)
            accumulator.zero_gradients()
            report(start, accumulator, group, [*model.parameters(), *momenta])
        elif accumulator.wants_gradients():
            time.sleep(pause)
            model(torch.randn(8, 20)).pow(2).sum().backward()
            accumulator.reduce_gradients(8)
        else:
            accumulator.wait(0.1)


def step(model: torch.nn.Module, momenta: list[torch.Tensor]) -> None:
    """Gradient descent with momentum; `torch.optim` takes more than a second to import."""
    with torch.no_grad():
        for p, momentum in zip(model.parameters(), momenta, strict=True):
            assert p.grad is not None
            momentum.mul_(0.9).add_(p.grad)
            p.sub_(momentum, alpha=1e-3)


def report(
    start: float, accumulator: moolib.Accumulator, group: moolib.Group, tensors: list[torch.Tensor]
) -> None:
    """Print the line of one step."""
    checksum = 0
    for tensor in tensors:
        checksum = zlib.crc32(tensor.detach().numpy().tobytes(), checksum)
    line = {
        "start": start,
        "time": time.monotonic(),
        "version": accumulator.model_version(),
        "checksum": checksum,
        "members": len(group.members()),
        "contributions": accumulator.get_gradient_stats()["num_gradients"],
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
