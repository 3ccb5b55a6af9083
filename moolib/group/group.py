"""A peer's membership of a group as its program sees it, and reductions of small values among the members.

The loop thread follows the broker's epochs at once (see `moolib.group.broker_client`); the program sees a new
epoch from its next `update()` on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moolib.future import RpcError
from moolib.group.allreduce import AllReduce, Reductions
from moolib.group.broker_client import BrokerClient
from moolib.group.epoch import Epoch
from moolib.limits import MAX_GROUP_NAME
from moolib.rpc.rpc import Rpc
from moolib.transport import address
from moolib.weak import weak


class Group:
    """Membership of the group `name`, through the broker that `rpc` is connected to.

    The group joins at the first `update()` and leaves when it is garbage-collected or the process ends. If
    the broker is lost, the members go on with their epoch; nobody can join or leave until it is back.

    Attributes:
        client: Internal: the interface for `Accumulator`.
    """

    def __init__(self, rpc: Rpc, name: str) -> None:
        """Prepare to join.

        Raises:
            RpcError: The name has more than 200 characters, or some that are not UTF-8.
        """
        if len(name) > MAX_GROUP_NAME:
            shown = f"{name[:20]}… ({len(name)} characters)"
            raise RpcError(f"group name {shown}: at most {MAX_GROUP_NAME} characters are allowed")
        if name != name.encode(errors="replace").decode():
            raise RpcError(f"group name {name!r}: characters that are not UTF-8 are not allowed")
        self._name = name
        self._seen: Epoch | None = None  # as the program knows it since its last update()
        self._reductions = Reductions(rpc, name)
        self.client = BrokerClient(rpc, name, weak(self._on_epoch))

    def name(self) -> str:
        """Return the group's name."""
        return self._name

    def set_broker_name(self, name: str) -> None:
        """Set the broker's name, if it is not "broker"."""
        self.client.broker = name

    def set_timeout(self, seconds: float) -> None:
        """Set the silence after which the broker drops us, in seconds; also the time limit of reductions."""
        self.client.timeout = float(seconds)
        self.client.announce()

    def set_sort_order(self, order: int) -> None:
        """Set our place in `members()`: smaller orders come first; among equal orders, earlier joiners."""
        self.client.sort_order = int(order)
        self.client.announce()

    def set_advertise(self, host: str | None) -> None:
        """Let the others connect to this local address; None: the one that reaches the broker.

        Raises:
            ValueError: `host` is not an IP address of this machine.
        """
        if host is not None:
            host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
            address.check_own(host)
        self.client.advertise = host
        self.client.announce()

    def update(self) -> bool:
        """Take in recent events; never wait. Return True if the members changed since the last call.

        Raises:
            RuntimeError: The group has refused us, because our model differs from its members'.
        """
        if self.client.refusal:
            raise RpcError(self.client.refusal)
        self.client.join()
        previous, self._seen = self._seen, self.client.epoch
        return self._seen is not previous

    def members(self) -> list[str]:
        """Return the names of all members in the group's order; [] if we are not a member."""
        return list(self._seen.members) if self._seen else []

    def sync_id(self) -> int:
        """Return the number of the epoch, 1 to 2³² − 1; 0 if we are not a member."""
        return self._seen.sync_id if self._seen else 0

    def active(self) -> bool:
        """Return True if we are a member."""
        return self._seen is not None

    def broker_lost_for(self) -> float:
        """Return the seconds since the broker was last heard; 0.0 while it answers.

        A broken connection is noticed at once, silence after the group's time-out. If the broker was never
        heard, the time counts from the making of the group.
        """
        return self.client.broker_lost_for()

    def all_reduce(self, name: str, data: Any, op: Callable[[Any, Any], Any] | None = None) -> AllReduce:
        """Combine the data of all members; each must call this with the same `name`.

        Args:
            name: Distinguishes reductions that run at the same time.
            data: Without `op`, a tensor or nested dicts, lists and tuples of tensors or numbers, which are
                summed. With `op`, anything that an `Rpc` can carry. It is never changed.
            op: `op(a, b)` combines two values; applied from left to right in the order of the members.

        Returns:
            A future of the result, the same on all members. It ends with a RuntimeError when the members
            change or the group's time-out passes.

        Raises:
            RuntimeError: We are not a member, or a reduction of that name is in progress.
        """
        epoch = self.client.epoch
        if epoch is None:
            raise RpcError(f"all_reduce {name!r}: not a member of group {self._name!r}")
        return self._reductions.start(epoch.sync_id, epoch.members, name, data, op, self.client.timeout)

    def _on_epoch(self, epoch: Epoch | None) -> None:
        self._reductions.change_epoch(epoch.sync_id if epoch else 0)

    def __del__(self) -> None:
        if hasattr(self, "client"):
            self.client.leave()
            self._reductions.close()
