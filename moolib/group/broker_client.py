"""A peer's dealings with the broker about one group: it announces itself, pings, and follows the epochs.

The broker pushes each new epoch (see `moolib.broker`); the loop thread takes it at once, ends the
operations of the previous epoch and wakes the subscribers. A lost broker changes nothing: the epoch goes
on, and the client announces itself again, with its epoch, when the broker is back.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from moolib.future import RpcError
from moolib.group.epoch import Epoch
from moolib.group.process_group import Alone, EpochGroup, ProcessGroup
from moolib.limits import MAX_IDENTITY
from moolib.log import log
from moolib.rpc.rpc import Rpc
from moolib.weak import repeat, weak

DEFAULT_TIMEOUT = 5.0  # s without a ping after which the broker drops a member
PINGS_PER_TIMEOUT = 10
MAX_PING_INTERVAL = 1.0  # s
ASKS_PER_TIMEOUT = 4  # of the broker for a sign of life
OPERATION_TIMEOUTS = 4  # of the group, after which gloo gives up an operation; we never wait that long
MIN_OPERATION_TIMEOUT = 20.0  # s


class BrokerClient:
    """A peer's side of one group's membership: the internal interface of `Group` to accumulators.

    Attributes:
        epoch: The current epoch, None if we are not a member. The loop thread may replace it at any time.
        refusal: The reason why the group refused us, "" if it did not.
        broker: The broker's name.
        timeout: Seconds without a sign of life after which the broker drops us.
        sort_order: Our place in the roster; see `Group.set_sort_order`.
        advertise: The local address at which the others connect; None for the one that reaches the broker.
    """

    def __init__(self, rpc: Rpc, group: str, on_epoch: Callable[[Epoch | None], None]) -> None:
        """Prepare to join; `join` does it.

        Args:
            on_epoch: Called on the loop thread with each new epoch, before the subscribers.
        """
        self.epoch: Epoch | None = None
        self.refusal = ""
        self.broker = "broker"
        self.timeout = DEFAULT_TIMEOUT
        self.sort_order = 0
        self.advertise: str | None = None
        self._rpc, self._group, self._on_new_epoch = rpc, group, on_epoch
        self._joining = False
        self._host = ""  # our address for the other members' connections
        self._identity: dict[str, str] = {}  # accumulator -> description of its model
        self._status: dict[str, Callable[[], dict[str, Any]]] = {}
        self._subscribers: list[Callable[[], None]] = []
        self._heard = time.monotonic()  # when the broker last gave a sign of life
        messages = rpc.messages
        messages.define(f"group.epoch/{group}", weak(self._on_epoch))
        messages.define(f"group.rendezvous/{group}", weak(self._on_rendezvous))
        messages.define(f"group.refused/{group}", weak(self._on_refused))
        messages.on_peer_change(weak(self._on_peer_change))
        repeat(messages.call_later, self._ping)

    @property
    def name(self) -> str:
        """Our own name."""
        return self._rpc.get_name()

    def join(self) -> None:
        """Begin to announce ourselves, unless we already do."""
        if not self._joining:
            self._joining = True
            self.announce()

    def leave(self) -> None:
        """Tell the broker that we leave, and stop listening to it."""
        self._send("broker.leave")
        for message in ("epoch", "rendezvous", "refused"):
            self._rpc.undefine(f"group.{message}/{self._group}")

    def announce(self) -> None:
        """Tell the broker who we are; repeated by itself when the broker comes back."""
        if not self._joining:
            return
        with contextlib.suppress(RpcError):  # not connected: the announcement is repeated when we are
            self._host = self.advertise or self._rpc.messages.local_host(self.broker)
        epoch = self.epoch
        sync_id, members = (epoch.sync_id, epoch.members) if epoch else (0, [])
        self._send("broker.join", sync_id, members, self.sort_order, self.timeout, self._identity)

    def add_accumulator(self, name: str, description: str, status: Callable[[], dict[str, Any]]) -> None:
        """Announce an accumulator.

        Args:
            description: Must be the same on all members, which are refused otherwise.
            status: Returns the state that `python -m moolib.broker --status` shows.

        Raises:
            RpcError: Its description and those of the group's other accumulators are too long together.
        """
        identity = {**self._identity, name: description}
        if sum(map(len, identity.values())) > MAX_IDENTITY:
            raise RpcError(f"accumulator {name!r}: the models of group {self._group!r} have too many tensors")
        self._identity = identity
        self._status[name] = status
        self.announce()

    def broker_lost_for(self) -> float:
        """See `Group.broker_lost_for`."""
        heard = self._rpc.messages.heard(self.broker)
        silence = time.monotonic() - max(self._heard, heard or 0.0)
        return silence if heard is None or silence > self.timeout else 0.0

    def subscribe(self, subscriber: Callable[[], None]) -> None:
        """Call `subscriber` on the loop thread at each new epoch, and if the group refuses us."""
        self._subscribers.append(subscriber)

    def connect(self, epoch: Epoch, channel: str, over: Callable[[], bool]) -> ProcessGroup:
        """Form the process group of an epoch for one purpose; block until all members have connected.

        Args:
            channel: Names the purpose, such as one accumulator.
            over: Returns True to give up.

        Raises:
            EpochOver: `over()` before all members had connected.
            PeerLost: Connecting failed.
        """
        if epoch.size == 1:
            return Alone()
        timeout = max(OPERATION_TIMEOUTS * self.timeout, MIN_OPERATION_TIMEOUT)
        epoch.forming = True
        group = EpochGroup(epoch.rendezvous(channel), epoch.rank, epoch.size, self._host, over, timeout)
        epoch.forming = False
        return group

    def report_failure(self, epoch: Epoch) -> None:
        """Ask the broker for a new epoch because an operation of this one failed."""
        epoch.failed = True
        self._send("broker.report", epoch.sync_id)

    def _send(self, message: str, *args: Any) -> None:
        self._rpc.messages.send(self.broker, message, self._group, *args)

    def _publish(self, sync_id: int, key: str, value: bytes) -> None:
        self._send("broker.rendezvous", sync_id, key, value)

    # The rest runs on the loop thread.

    def _ping(self) -> float:
        epoch = self.epoch
        self._heard = max(self._heard, self._rpc.messages.heard(self.broker) or 0.0)
        if time.monotonic() - self._heard > self.timeout / ASKS_PER_TIMEOUT:
            self._rpc.messages.ask_for_life(self.broker)
        if self._joining:
            status = {name: state for name, get in self._status.items() if (state := get())}
            self._send("broker.ping", epoch.sync_id if epoch else 0, status)
            if epoch and epoch.failed:
                self.report_failure(epoch)
        return min(self.timeout / PINGS_PER_TIMEOUT, MAX_PING_INTERVAL)

    def _on_peer_change(self, peer: str, connected: bool) -> None:
        if peer != self.broker:
            return
        if connected:
            self.announce()
        elif self.epoch and self.epoch.forming:
            self.epoch.failed = True

    def _on_epoch(self, peer: str, sync_id: int, members: list[str]) -> None:
        if peer != self.broker:
            return
        if self.name not in members:
            self._enter(None)
            self.announce()
        elif self.epoch is None or (sync_id, members) != (self.epoch.sync_id, self.epoch.members):
            self._enter(Epoch(sync_id, members, self.name, weak(self._publish)))

    def _enter(self, epoch: Epoch | None) -> None:
        previous, self.epoch = self.epoch, epoch
        if previous:
            previous.end()
        self._on_new_epoch(epoch)
        self._notify_subscribers()

    def _on_rendezvous(self, peer: str, sync_id: int, key: str, value: bytes) -> None:
        if peer == self.broker and self.epoch and self.epoch.sync_id == sync_id:
            self.epoch.receive(key, value)

    def _on_refused(self, peer: str, member: str, accumulator: str, description: str) -> None:
        if peer != self.broker:
            return
        self._joining = False
        ours = self._identity.get(accumulator, "")
        self.refusal = (
            f"cannot join group {self._group!r}: model {accumulator!r} of {self.name!r} differs from that "
            f"of {member!r}: {_difference(self.name, ours, member, description)}"
        )
        log("error", "%s", self.refusal)
        self._notify_subscribers()

    def _notify_subscribers(self) -> None:
        for subscriber in self._subscribers:
            subscriber()


def _difference(name: str, ours: str, other: str, theirs: str) -> str:
    """Return the first difference of two descriptions, which have one line per parameter or buffer."""
    our_lines, their_lines = ours.splitlines(), theirs.splitlines()
    for i in range(max(len(our_lines), len(their_lines))):
        here = our_lines[i] if i < len(our_lines) else "nothing more"
        there = their_lines[i] if i < len(their_lines) else "nothing more"
        if here != there:
            break
    return f"{name!r} has {here}; {other!r} has {there}"
