"""Calls between named peers.

>>> host = Rpc(); host.set_name("host"); host.define("double", lambda x: 2 * x)
>>> address = host.listen("127.0.0.1:0")
>>> client = Rpc(); client.connect(address); client.sync("host", "double", 21)
42

Peers that are connected to a common peer find each other by name. Values are nested tuples, lists and dicts
of None, bool, int, float, str, bytes, NumPy arrays and scalars, and tensors (see `moolib.transport.wire`); they are
copied when the call is made.
"""

from __future__ import annotations

import secrets
import traceback
import weakref
from collections.abc import Callable
from typing import Any

from moolib.future import Future, RpcError
from moolib.log import log
from moolib.rpc import threads
from moolib.rpc.calls import Calls
from moolib.rpc.handlers import Handlers, RpcDeferredReturn
from moolib.rpc.queue import Queue, batched, in_pool, queued
from moolib.transport import address, security, wire
from moolib.transport.link import MAX_NAME, Link
from moolib.transport.node import Node

__all__ = ["Rpc", "RpcDeferredReturn", "RpcError", "create_uid"]

DEFAULT_TIMEOUT = 120.0  # s
DEFAULT_MAX_MESSAGE = 1 << 32  # bytes
TRANSPORTS = ("tcp", "tcp/ip", "ipc", "shm", "ibv", "uv")


def create_uid() -> str:
    """A random name: 16 hex digits."""
    return secrets.token_hex(8)


class _Events:
    """What the engine tells an Rpc that may have been collected."""

    def __init__(self, calls: Calls, handlers: Handlers) -> None:
        self._calls, self._handlers = calls, weakref.ref(handlers)

    def on_frame(self, link: Link, frame: wire.Frame) -> None:
        try:
            if frame.kind in (wire.REPLY, wire.ERROR):
                self._calls.on_reply(link, frame)
            elif handlers := self._handlers():
                handlers.on_frame(link, frame)
        except wire.WireError:
            raise
        except Exception:  # of a callback; the connection is in order
            log("error", "frame %s %r of %s:\n%s", frame.kind, frame.name, link.name, traceback.format_exc())

    def on_peer(self, name: str, connected: bool) -> None:
        if connected:
            self._calls.on_admitted()
        if handlers := self._handlers():
            handlers.on_peer(name, connected)

    def on_refused(self, reason: str) -> None:
        self._calls.on_refused(reason)

    def on_closed(self) -> None:
        self._calls.on_closed()


class Rpc:
    """A named peer that offers functions and calls those of others. It closes when it is collected."""

    def __init__(
        self,
        *,
        key_file: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        allow_pickle: bool = False,
        max_message: int = DEFAULT_MAX_MESSAGE,
    ) -> None:
        """Start the engine; its first name is a random one.

        Args:
            key_file: secret that all peers share (default: the file that MOOLIB_KEY_FILE names, if set).
                Whoever has not the same one can neither connect nor learn a name.
            tls_cert: certificate (PEM) to present and to trust; connections are encrypted.
            tls_key: its private key (PEM), needed to listen.
            allow_pickle: send and accept any Python object, and thereby trust all peers to run any code here.
            max_message: bytes of the largest message accepted.

        Raises:
            RpcError: a file is missing or empty.
        """
        self._node = Node(security.load(key_file, tls_cert, tls_key), max_message)
        self._handlers = Handlers(self._node, allow_pickle)
        self._calls = Calls(self._node, allow_pickle)
        self._timeout = DEFAULT_TIMEOUT
        self._node.start(_Events(self._calls, self._handlers))
        self._finalizer = weakref.finalize(self, self._node.close)  # also runs when the interpreter ends

    def set_name(self, name: str) -> None:
        """Be known as `name` from now on.

        Raises:
            RpcError: empty or longer than 256 characters.
        """
        if not 0 < len(name) <= MAX_NAME:
            raise RpcError(f"name {name!r}: 1 to {MAX_NAME} characters are allowed")
        self._node.rename(name)

    def get_name(self) -> str:
        """The name of this peer."""
        return self._node.name

    def set_timeout(self, seconds: float) -> None:
        """Let calls made from now on fail after `seconds` without an answer (default 120)."""
        self._timeout = seconds

    def set_transports(self, transports: list[str]) -> None:
        """Accepted for programs written for other engines; the addresses choose between TCP and Unix sockets.

        Raises:
            RpcError: an unknown transport.
        """
        if unknown := set(transports) - set(TRANSPORTS):
            raise RpcError(f"transports {sorted(unknown)}: allowed are {', '.join(TRANSPORTS)}")

    def listen(self, address_: str) -> str:
        """Accept connections at an address (see `moolib.transport.address`), which is bound when this returns.

        Returns:
            The bound address; its port is the real one.

        Raises:
            RpcError: malformed, taken, or TLS without a private key.
        """
        if not self._node.endpoints.can_listen:
            raise RpcError("listening with TLS needs tls_key")
        return str(self._node.endpoints.listen(address.parse(address_, listening=True)))

    def connect(self, address_: str) -> None:
        """Connect to an address, in the background; try again for ever, also after the connection was lost.

        Raises:
            RpcError: malformed.
        """
        self._node.connect(address.parse(address_))

    def define(
        self, name: str, function: Callable[..., Any], *, batch_size: int | None = None, device: Any = None
    ) -> None:
        """Offer `function(*args, **kwargs)`; it runs on a thread of the pool (`set_max_threads`).

        Args:
            batch_size: call it once for so many calls, with their arguments stacked (see `moolib.rpc.queue`).
            device: move tensors there first.

        Raises:
            RpcError: the name is taken, or `batch_size` is below 1.
        """
        self._define(name, function, batch_size, device, deferred=False)

    def define_deferred(
        self, name: str, callback: Callable[..., Any], *, batch_size: int | None = None, device: Any = None
    ) -> None:
        """Offer `callback(ret, *args, **kwargs)`, which answers by calling `ret(value)`, whenever it likes.

        Args and errors as `define`.
        """
        self._define(name, callback, batch_size, device, deferred=True)

    def define_queue(
        self, name: str, *, batch_size: int | None = None, device: Any = None, dynamic_batching: bool = False
    ) -> Queue:
        """Offer a function whose calls the program takes from a queue.

        Args:
            batch_size: take so many calls at a time, stacked.
            device: move tensors there first.
            dynamic_batching: take the calls that wait, stacked, 1 to `batch_size` (default: all) of them.

        Raises:
            RpcError: as `define`.
        """
        queue = Queue(batch_size, device, dynamic_batching)
        self._handlers.define(name, queued(queue))
        return queue

    def undefine(self, name: str) -> None:
        """Withdraw a function; nothing happens if there is none."""
        self._handlers.undefine(name)

    def async_(self, peer: str, function: str, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function of a peer.

        Returns:
            Its result; or RpcError if it raises (with the remote traceback), does not exist or does not
            answer in time.

        Raises:
            RpcError: the peer is this one.
            TypeError, ValueError: an argument cannot be sent.
        """
        return self._calls.start(peer, function, args, kwargs, self._timeout)

    def async_callback(
        self, peer: str, function: str, callback: Callable[[Any, Any], None], /, *args: Any, **kwargs: Any
    ) -> None:
        """As `async_`, but call `callback(result, None)` or `callback(None, error)` in the pool."""

        def done(future: Future[Any]) -> None:
            error = future.exception()
            threads.submit(callback, None if error else future.result(), error)

        self.async_(peer, function, *args, **kwargs)._add_done_callback(done)

    def sync(self, peer: str, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """As `async_(…).result()`."""
        return self.async_(peer, function, *args, **kwargs).result()

    def debug_info(self) -> dict[str, Any]:
        """Name, addresses, connected peers, the last refusal, functions and the number of calls that wait."""
        return {
            "name": self._node.name,
            "uid": self._node.uid,
            "listening": [str(bound) for bound in self._node.endpoints.listening()],
            "peers": {name: len(links) for name, links in list(self._node.peers.items())},
            "refused": self._node.refusal,
            "functions": self._handlers.names(),
            "calls": len(self._calls),
        }

    def _define(
        self, name: str, function: Callable, batch_size: int | None, device: Any, deferred: bool
    ) -> None:
        if batch_size is None:
            handler = in_pool(function, device, deferred)
        else:
            handler = batched(function, batch_size, device, deferred)
        self._handlers.define(name, handler)

    # For the other modules of this package.

    def _define_inline(self, name: str, function: Callable[..., Any]) -> None:
        """Offer `function(peer, *args)`, run on the loop thread; it must not block."""
        self._handlers.define_inline(name, function)

    def _notify(self, peer: str, function: str, *args: Any) -> bool:
        """Call a function without an answer, in order; dropped (False) if the peer is not connected."""
        return self._node.post(peer, wire.encode(wire.NOTIFY, 0, function, [list(args), {}]))

    def _on_peer_change(self, callback: Callable[[str, bool], None]) -> None:
        """Call `callback(peer, connected)` on the loop thread when a peer comes or goes."""
        self._handlers.watch_peers(callback)

    def _call_later(self, seconds: float, function: Callable[..., Any], *args: Any) -> None:
        """Run `function(*args)` on the loop thread after a while."""
        self._node.call_soon(self._node.loop.call_later, seconds, function, *args)

    def _local_host(self, peer: str) -> str:
        """The local IP address of the connection to a peer.

        Raises:
            RpcError: the peer is not connected.
        """
        links = self._node.peers.get(peer)
        if not links:
            raise RpcError(f"peer {peer!r} is not connected")
        return address.local_host(links[0].sock)

    def _close(self) -> None:
        """Close now; bounded in time."""
        self._finalizer()
