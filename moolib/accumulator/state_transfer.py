"""The transfer of a model from the leader to the members that need it.

A model is packed, with the program's state, in the format of `moolib.transport.wire` (a body and a payload)
and broadcast over gloo.
"""

from __future__ import annotations

from typing import Any

import torch

from moolib.group.process_group import ProcessGroup
from moolib.transport import wire

Package = tuple[torch.Tensor, torch.Tensor]
"""Body and payload, uint8."""


def pack(value: Any) -> Package:
    """Return a copy of a value as bytes.

    Raises:
        TypeError: The value holds something that cannot travel.
    """
    body, payload = wire.pack(value)
    return _bytes(bytearray(body)), _bytes(payload)


def unpack(package: Package) -> Any:
    """Return the value of a package; its tensors are views of the package.

    Raises:
        WireError: The package is malformed.
    """
    body, payload = package
    return wire.unpack(body.numpy().tobytes(), payload.numpy().data)


def broadcast(group: ProcessGroup, source: int, package: Package | None) -> Package:
    """Send a package from one member to all others; every member must call this.

    Args:
        group: The process group of the epoch.
        source: The rank of the member that has the package.
        package: The package on `source`, None on the others.

    Raises:
        EpochOver, PeerLost: See `EpochGroup`.
    """
    sizes = torch.tensor([len(part) for part in package] if package else [0, 0])
    group.broadcast(sizes, source)
    body, payload = package or [torch.empty(size, dtype=torch.uint8) for size in sizes.tolist()]
    for part in (body, payload):
        if len(part):
            group.broadcast(part, source)
    return body, payload


def _bytes(data: bytearray | memoryview) -> torch.Tensor:
    return torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)
