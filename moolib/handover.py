"""Models on their way from the leader to those who need them.

A model is a package of parameters, buffers and the program's state in the format of `moolib.wire`: sizes,
body, payload. It goes down a binary tree of the leader and the peers that need it, over gloo; the other
members are not involved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from moolib import wire
from moolib.gloo import Alone, EpochGroup

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
    return wire.unpack(body.numpy().tobytes(), memoryview(payload.numpy()))


def spread(link: Link, ranks: Sequence[int], package: Package | None) -> Package:
    """Bring the package of the member `ranks[0]` to all of `ranks`; blocking, to be called by exactly these.

    Args:
        link: The epoch's operations.
        ranks: The source and then those who receive, in the same order on all.
        package: What the source sends, None on the others.
    """
    me = ranks.index(link.rank)
    if me > 0:
        parent = ranks[(me - 1) // 2]
        sizes = torch.empty(2, dtype=torch.int64)
        link.receive(sizes, parent)
        parts = [torch.empty(size, dtype=torch.uint8) for size in sizes.tolist()]
        for part in parts:
            if len(part):
                link.receive(part, parent)
        package = (parts[0], parts[1])
    assert package is not None
    for child in ranks[2 * me + 1 : 2 * me + 3]:
        link.send(torch.tensor([len(part) for part in package]), child)
        for part in package:
            if len(part):
                link.send(part, child)
    return package


def _bytes(data: bytearray | memoryview) -> torch.Tensor:
    return torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)
