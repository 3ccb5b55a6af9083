"""A training peer for tests with whole processes: `python peer.py ADDRESS NAME SEED TIMEOUT PAUSE`.

It trains with gradients that are random and different on each peer, and after each step prints a line of
JSON: the time (`time.monotonic`, comparable between processes) of the step and of the peer's start, the
model version, a checksum of all parameters and momenta, the number of members and of contributions. It ends
when its standard input does.
"""

import json
import sys
import threading
import time
import zlib

import torch

import moolib


def main(address: str, name: str, seed: int, timeout: float, pause: float) -> None:
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
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
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
            momentum.mul_(0.9).add_(p.grad)
            p.sub_(momentum, alpha=1e-3)


def report(
    start: float, accumulator: moolib.Accumulator, group: moolib.Group, tensors: list[torch.Tensor]
) -> None:
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
