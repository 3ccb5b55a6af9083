"""Calls that wait for their replies, and their time-outs."""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
import time
from typing import Any, NamedTuple

from moolib.future import Future, RpcError
from moolib.transport import wire
from moolib.transport.link import Link
from moolib.transport.node import Node

CLOSED = "the Rpc was closed"


class _Call(NamedTuple):
    peer: str
    function: str
    future: Future[Any]
    deadline: float  # s, time.monotonic


class Calls:
    """The calls of one Rpc to its peers. `start` is thread-safe; the rest belongs to the loop thread."""

    def __init__(self, node: Node, allow_pickle: bool) -> None:
        self._node, self._allow_pickle = node, allow_pickle
        self._ids = itertools.count(1)
        self._calls: dict[int, _Call] = {}
        self._lock = threading.Lock()  # of the calls and of the next
        self._sweep_at = math.inf  # s; the time of the next check for time-outs
        self._timer: asyncio.TimerHandle | None = None
        self._refusal = ""  # the reason of the last peer that refused us, until another one lets us in
        self._closed = False

    def __len__(self) -> int:
        return len(self._calls)

    def start(
        self, peer: str, function: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float
    ) -> Future[Any]:
        """Call a function of a peer, now or as soon as it is connected; fail after `timeout` seconds.

        Raises:
            RpcError: The peer is this one.
            TypeError, ValueError: An argument cannot be sent.
        """
        if peer == self._node.name:
            raise RpcError(f"{peer!r} cannot call itself (function {function!r})")
        number = next(self._ids)
        frame = wire.encode(wire.CALL, number, function, [list(args), kwargs], self._allow_pickle)
        call = _Call(peer, function, Future(), time.monotonic() + timeout)
        with self._lock:
            self._calls[number] = call
            sweep = call.deadline < self._sweep_at
            if sweep:
                self._sweep_at = call.deadline
        call.future.add_done_callback(lambda _: self._forget(number))
        if sweep:
            self._node.call_soon(self._arm)
        if not self._node.post(peer, frame, number):
            self._node.call_soon(self._node.discovery.seek, peer)
            if call.future.done():  # it timed out in the meantime
                self._node.drop(peer, number)
            if self._refusal and not self._node.peers:
                call.future.set_exception(RpcError(self._refusal))
        if self._closed:
            call.future.set_exception(RpcError(CLOSED))
        return call.future

    def on_reply(self, link: Link, frame: wire.Frame) -> None:
        """Handle a REPLY or an ERROR. Only the peer that was called may answer.

        Raises:
            WireError: The answer is malformed.
        """
        call = self._calls.get(frame.call)
        if call is None or call.peer not in (link.name, link.former_name):
            return
        try:
            value = frame.value(self._allow_pickle)
        except wire.WireError as error:
            call.future.set_exception(RpcError(f"the answer of {link.name}::{call.function!r}: {error}"))
            raise
        if frame.kind == wire.REPLY:
            call.future.set_result(value)
        else:
            call.future.set_exception(RpcError(str(value)))

    def on_refused(self, reason: str) -> None:
        """Fail all calls with the reason of a peer that refuses us, if we have no other peer."""
        if not self._node.peers:
            self._refusal = f"refused by the peer: {reason}"
            self._fail(self._refusal)

    def on_admitted(self) -> None:
        """Forget the refusal: a peer let us in."""
        self._refusal = ""

    def on_closed(self) -> None:
        """Fail all calls: the Rpc is gone."""
        self._closed = True
        self._fail(CLOSED)

    def _fail(self, reason: str) -> None:
        for call in list(self._calls.values()):
            call.future.set_exception(RpcError(reason))

    def _forget(self, number: int) -> None:
        with self._lock:
            call = self._calls.pop(number)
        if self._node.waiting(call.peer):
            self._node.drop(call.peer, number)

    def _arm(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._sweep_at < math.inf:
            self._timer = self._node.loop.call_later(self._sweep_at - time.monotonic(), self._sweep)

    def _sweep(self) -> None:
        now = time.monotonic()
        with self._lock:
            expired = [(number, call) for number, call in self._calls.items() if call.deadline <= now]
            later = [call.deadline for call in self._calls.values() if call.deadline > now]
            self._sweep_at = min(later, default=math.inf)
        for number, call in expired:
            function = "<unknown>" if self._node.drop(call.peer, number) else call.function
            call.future.set_exception(RpcError(f"Call ({call.peer}::{function}) timed out"))
        self._arm()
