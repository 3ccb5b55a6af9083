"""Models on their way from the leader to those who need them.

A model is a package of parameters, buffers and the program's state in the format of `moolib.transport.wire`, a body
and a payload, broadcast over gloo.
"""

from __future__ import annotations

from typing import Any

import torch

from moolib.group.process_group import Alone, EpochGroup
from moolib.transport import wire

Link = Alone | EpochGroup
Package = tuple[torch.Tensor, torch.Tensor]  # body and payload, uint8


def pack(value: Any) -> Package:
    """A copy of a value as bytes.

    Raises:
        TypeError: The value holds something that cannot travel.
    """
    body, payload = wire.pack(value)
    return _bytes(bytearray(body)), _bytes(payload)


def unpack(package: Package) -> Any:
    """The value; tensors are views of the package.

    Raises:
        WireError: It is malformed.
    """
    body, payload = package
    return wire.unpack(body.numpy().tobytes(), payload.numpy().data)


def spread(link: Link, source: int, package: Package | None) -> Package:
    """Bring the package of the member of rank `source` to all members, each of which must call this.

    Args:
        link: The epoch's operations.
        source: Who has the package.
        package: The package of `source`, None on the others.
    """
    sizes = torch.tensor([len(part) for part in package] if package else [0, 0])
    link.broadcast(sizes, source)
    body, payload = package or [torch.empty(size, dtype=torch.uint8) for size in sizes.tolist()]
    for part in (body, payload):
        if len(part):
            link.broadcast(part, source)
    return body, payload


def _bytes(data: bytearray | memoryview) -> torch.Tensor:
    return torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)
