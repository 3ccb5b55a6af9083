"""A peer's membership of a group: the epoch it is in, and reductions of small values among the members.

The broker pushes each new epoch (see `moolib.broker`); the loop thread takes it in at once, ends what the
previous one had under way and wakes whoever subscribed. Programs see it from their next `update()` on. A
lost broker changes nothing: the epoch goes on, and the group announces itself, with the epoch it has, when
the broker is back.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from moolib.future import RpcError
from moolib.group.allreduce import AllReduce, Reductions
from moolib.group.process_group import Alone, EpochGroup, Rendezvous
from moolib.log import log
from moolib.rpc.rpc import Rpc
from moolib.transport import address
from moolib.weak import repeat, weak

DEFAULT_TIMEOUT = 5.0  # seconds without a ping after which the broker drops a member
PINGS_PER_TIMEOUT = 10
MAX_PING_INTERVAL = 1.0  # seconds
OPERATION_TIMEOUTS = (
    4  # gloo gives up an operation after so many time-outs of the group; we never wait that long
)
MIN_OPERATION_TIMEOUT = 20.0  # seconds


class Epoch:
    """One roster. `over` is set for good when the next one comes."""

    def __init__(
        self, sync_id: int, members: list[str], name: str, publish: Callable[[int, str, bytes], None]
    ) -> None:
        self.sync_id, self.members = sync_id, members
        self.rank = members.index(name)
        self.over = False
        self.forming = False  # members are connecting, for which they need the broker
        self.failed = False  # a reduction failed; told to the broker until there is a new epoch
        self._lock = threading.Lock()
        self._rendezvous: dict[str, Rendezvous] = {}
        self._publish = publish

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.members)

    def rendezvous(self, channel: str) -> Rendezvous:
        """Where the members connect for one purpose, such as one accumulator."""
        with self._lock:
            if channel not in self._rendezvous:
                self._rendezvous[channel] = Rendezvous(
                    lambda key, value: self._publish(self.sync_id, f"{channel}/{key}", value)
                )
                if self.over:
                    self._rendezvous[channel].close()
            return self._rendezvous[channel]

    def receive(self, key: str, value: bytes) -> None:
        """Take in what another member published."""
        channel, _, key = key.partition("/")
        self.rendezvous(channel).receive(key, value)

    def end(self) -> None:
        """A new epoch has come, or we are no longer a member."""
        with self._lock:
            self.over = True
            for rendezvous in self._rendezvous.values():
                rendezvous.close()


class Group:
    """Membership of the group `name`, by way of the broker that `rpc` is connected to.

    The group joins at the first `update()` and leaves when it is garbage-collected or the process ends.
    """

    def __init__(self, rpc: Rpc, name: str) -> None:
        self._rpc = rpc
        self._name = name
        self._broker = "broker"
        self._timeout = DEFAULT_TIMEOUT
        self._sort_order = 0
        self._joining = False
        self._host = ""  # our address for the other members' connections
        self._advertise: str | None = None
        self._refusal: str | None = None
        self._identity: dict[str, str] = {}  # accumulator -> description of its model
        self._status: dict[str, Callable[[], dict[str, Any]]] = {}
        self._epoch: Epoch | None = None  # as the loop thread knows it
        self._seen: Epoch | None = None  # as the program knows it since its last update()
        self._listeners: list[Callable[[], None]] = []
        self._reductions = Reductions(rpc, name)
        rpc._define_inline(f"group.epoch/{name}", weak(self._on_epoch))
        rpc._define_inline(f"group.rendezvous/{name}", weak(self._on_rendezvous))
        rpc._define_inline(f"group.refused/{name}", weak(self._on_refused))
        rpc._on_peer_change(weak(self._on_peer_change))
        repeat(rpc._call_later, self._ping)

    def name(self) -> str:
        """The group's name."""
        return self._name

    def set_broker_name(self, name: str) -> None:
        """The broker's name, if it is not "broker"."""
        self._broker = name

    def set_timeout(self, seconds: float) -> None:
        """After so many seconds without a sign of life the broker drops us; reductions end after as many."""
        self._timeout = float(seconds)
        self._announce()

    def set_sort_order(self, order: int) -> None:
        """Members of smaller order come first in `members()`; of equal order, those who joined earlier."""
        self._sort_order = int(order)
        self._announce()

    def set_advertise(self, host: str | None) -> None:
        """Let the others connect to us at this address of ours; None: the one that reaches the broker.

        Raises:
            ValueError: `host` is no IP address of this machine.
        """
        if host is not None:
            address.check_own(host)
        self._advertise = host
        self._announce()

    def update(self) -> bool:
        """Take in what has happened; never waits. True if the members changed since the last call.

        Raises:
            RuntimeError: The group has refused us, because our model differs from its members'.
        """
        if self._refusal:
            raise RpcError(self._refusal)
        if not self._joining:
            self._joining = True
            self._announce()
        changed = self._seen is not self._epoch
        self._seen = self._epoch
        return changed

    def members(self) -> list[str]:
        """The names of all members in the group's order; [] if we are not one."""
        return list(self._seen.members) if self._seen else []

    def sync_id(self) -> int:
        """The number of the epoch, 1 to 2³² − 1; 0 if we are not a member."""
        return self._seen.sync_id if self._seen else 0

    def active(self) -> bool:
        """Whether we are a member."""
        return self._seen is not None

    def all_reduce(self, name: str, data: Any, op: Callable[[Any, Any], Any] | None = None) -> AllReduce:
        """Combine the data of all members; each must call this with the same `name`.

        Args:
            name: Tells reductions that are under way at the same time apart.
            data: Without `op`, a tensor or nested dicts, lists and tuples of tensors or numbers, which are
                summed. With `op`, anything that an `Rpc` can carry. It is never changed.
            op: `op(a, b)` combines two values; folded over the members in their order.

        Returns:
            A future of the result, the same on all members. It ends with a RuntimeError when the members
            change or the group's time-out passes.

        Raises:
            RuntimeError: We are not a member, or a reduction of that name is under way.
        """
        if self._epoch is None:
            raise RpcError(f"all_reduce {name!r}: not a member of group {self._name!r}")
        return self._reductions.start(self._epoch.sync_id, self._epoch.members, name, data, op, self._timeout)

    # For accumulators.

    def _identify(self, accumulator: str, description: str, status: Callable[[], dict[str, Any]]) -> None:
        """Members must have the same `description` for an accumulator; `status` is shown by the broker."""
        self._identity[accumulator] = description
        self._status[accumulator] = status
        self._announce()

    def _subscribe(self, listener: Callable[[], None]) -> None:
        """Call `listener` on the loop thread at each new epoch."""
        self._listeners.append(listener)

    def _connect(self, epoch: Epoch, channel: str, over: Callable[[], bool]) -> EpochGroup | Alone:
        """The collective operations of an epoch; blocks until all members have connected, or it is `over`."""
        if epoch.size == 1:
            return Alone()
        timeout = max(OPERATION_TIMEOUTS * self._timeout, MIN_OPERATION_TIMEOUT)
        epoch.forming = True
        link = EpochGroup(epoch.rendezvous(channel), epoch.rank, epoch.size, self._host, over, timeout)
        epoch.forming = False
        return link

    def _fail(self, epoch: Epoch) -> None:
        """A reduction of this epoch failed: ask the broker for a new one."""
        epoch.failed = True
        self._rpc._notify(self._broker, "broker.report", self._name, epoch.sync_id)

    def _publish(self, sync_id: int, key: str, value: bytes) -> None:
        self._rpc._notify(self._broker, "broker.rendezvous", self._name, sync_id, key, value)

    # What follows runs on the loop thread.

    def _announce(self) -> None:
        if not self._joining:
            return
        with contextlib.suppress(RpcError):  # not connected: the announcement is repeated when we are
            self._host = self._advertise or self._rpc._local_host(self._broker)
        epoch = self._epoch
        sync_id, members = (epoch.sync_id, epoch.members) if epoch else (0, [])
        about_us = (self._sort_order, self._timeout, self._identity)
        self._rpc._notify(self._broker, "broker.join", self._name, sync_id, members, *about_us)

    def _ping(self) -> float:
        epoch = self._epoch
        if self._joining:
            status = {name: told for name, tell in self._status.items() if (told := tell())}
            sync_id = epoch.sync_id if epoch else 0
            self._rpc._notify(self._broker, "broker.ping", self._name, sync_id, status)
            if epoch and epoch.failed:
                self._fail(epoch)
        return min(self._timeout / PINGS_PER_TIMEOUT, MAX_PING_INTERVAL)

    def _on_peer_change(self, peer: str, connected: bool) -> None:
        if peer != self._broker:
            return
        if connected:
            self._announce()
        elif self._epoch and self._epoch.forming:
            self._epoch.failed = True

    def _on_epoch(self, peer: str, sync_id: int, members: list[str]) -> None:
        if peer != self._broker:
            return
        if self._rpc.get_name() not in members:
            self._enter(None)
            self._announce()
        elif self._epoch is None or (sync_id, members) != (self._epoch.sync_id, self._epoch.members):
            self._enter(Epoch(sync_id, members, self._rpc.get_name(), weak(self._publish)))

    def _enter(self, epoch: Epoch | None) -> None:
        previous, self._epoch = self._epoch, epoch
        if previous:
            previous.end()
        self._reductions.change_epoch(epoch.sync_id if epoch else 0)
        for listener in self._listeners:
            listener()

    def _on_rendezvous(self, peer: str, sync_id: int, key: str, value: bytes) -> None:
        if peer == self._broker and self._epoch and self._epoch.sync_id == sync_id:
            self._epoch.receive(key, value)

    def _on_refused(self, peer: str, member: str, accumulator: str, description: str) -> None:
        if peer != self._broker:
            return
        self._joining = False
        self._refusal = _explain(
            self._name,
            self._rpc.get_name(),
            member,
            accumulator,
            self._identity.get(accumulator, ""),
            description,
        )
        log("error", "%s", self._refusal)
        for listener in self._listeners:
            listener()

    def __del__(self) -> None:
        if hasattr(self, "_reductions"):
            self._rpc._notify(self._broker, "broker.leave", self._name)
            self._reductions.close()
            for message in ("epoch", "rendezvous", "refused"):
                self._rpc.undefine(f"group.{message}/{self._name}")


def _explain(group: str, me: str, other: str, accumulator: str, mine: str, theirs: str) -> str:
    """What is different in two descriptions, each of which has one line per parameter or buffer."""
    ours, others = mine.splitlines(), theirs.splitlines()
    for i in range(max(len(ours), len(others))):
        here = ours[i] if i < len(ours) else "nothing more"
        there = others[i] if i < len(others) else "nothing more"
        if here != there:
            break
    return (
        f"cannot join group {group!r}: model {accumulator!r} of {me!r} differs from that of {other!r}: "
        f"{me!r} has {here}; {other!r} has {there}"
    )
