"""Calls between named peers.

>>> host = Rpc(); host.set_name("host"); host.define("double", lambda x: 2 * x)
>>> address = host.listen("127.0.0.1:0")
>>> client = Rpc(); client.connect(address); client.sync("host", "double", 21)
42

Peers that are connected to a common peer find each other by name. Values are nested tuples, lists and dicts
of None, bool, int, float, str, bytes, NumPy arrays and scalars, and tensors (see `moolib.transport.wire`);
they are copied when the call is made.
"""

from __future__ import annotations

import secrets
import socket
import sys
import traceback
import weakref
from collections.abc import Callable
from typing import Any

from moolib.future import Future, RpcError
from moolib.log import log
from moolib.rpc import threads
from moolib.rpc.calls import Calls
from moolib.rpc.handlers import Handlers
from moolib.rpc.messages import Messages
from moolib.rpc.queue import Queue, batched, in_thread, queued
from moolib.transport import address, security, wire
from moolib.transport.link import MAX_NAME, Link
from moolib.transport.node import Node

DEFAULT_TIMEOUT = 120.0  # s
DEFAULT_MAX_MESSAGE = 1 << 32  # bytes
TRANSPORTS = ("tcp", "tcp/ip", "ipc", "shm", "ibv", "uv")


def create_uid() -> str:
    """Return a random name: 16 hex digits."""
    return secrets.token_hex(8)


class _Events:
    """The events of a node, for an Rpc that may have been collected."""

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
        except Exception:  # from a callback; the connection is fine
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
    """A named peer that offers functions and calls those of others. It closes when it is collected.

    Attributes:
        messages: Internal: the interface for `Broker` and `Group`.
    """

    def __init__(
        self,
        *,
        key_file: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        allow_pickle: bool = False,
        max_message: int = DEFAULT_MAX_MESSAGE,
    ) -> None:
        """Start the engine, under a random name.

        Args:
            key_file: File with a secret that all peers share (default: the file that MOOLIB_KEY_FILE names,
                if set). A peer with another key, or none, can neither connect nor learn a name.
            tls_cert: Certificate (PEM) to present and to trust; connections are encrypted.
            tls_key: Its private key (PEM), needed to listen.
            allow_pickle: Send and accept any Python object, which lets every peer run any code here.
            max_message: Bytes of the largest message accepted.

        Raises:
            RpcError: A file is missing or empty, or the system is not supported.
        """
        if not hasattr(socket, "AF_UNIX"):
            raise RpcError(f"moolib runs on Linux only: no Unix sockets on {sys.platform}")
        self._node = Node(security.load(key_file, tls_cert, tls_key), max_message)
        self._handlers = Handlers(self._node, allow_pickle)
        self._calls = Calls(self._node, allow_pickle)
        self._timeout = DEFAULT_TIMEOUT
        self.messages = Messages(self._node, self._handlers)
        self._node.start(_Events(self._calls, self._handlers))
        self._finalizer = weakref.finalize(self, self._node.close)  # also runs when the interpreter ends

    def set_name(self, name: str) -> None:
        """Be known as `name` from now on.

        Raises:
            RpcError: Empty or longer than 256 characters.
        """
        if not 0 < len(name) <= MAX_NAME:
            raise RpcError(f"name {name!r}: 1 to {MAX_NAME} characters are allowed")
        self._node.rename(name)

    def get_name(self) -> str:
        """Return the name of this peer."""
        return self._node.name

    def set_timeout(self, seconds: float) -> None:
        """Let calls made from now on fail after `seconds` without an answer (default 120)."""
        self._timeout = seconds

    def set_transports(self, transports: list[str]) -> None:
        """Accept the names of transports, for compatibility; the addresses choose TCP or Unix sockets.

        Raises:
            RpcError: An unknown transport.
        """
        if unknown := set(transports) - set(TRANSPORTS):
            raise RpcError(f"transports {sorted(unknown)}: allowed are {', '.join(TRANSPORTS)}")

    def listen(self, address_: str) -> str:
        """Accept connections at an address (see `moolib.transport.address`), bound when this returns.

        Returns:
            The bound address, with its actual port.

        Raises:
            RpcError: Malformed, taken, or TLS without a private key.
        """
        if not self._node.endpoints.can_listen:
            raise RpcError("listening with TLS needs tls_key")
        return str(self._node.endpoints.listen(address.parse(address_, listening=True)))

    def connect(self, address_: str) -> None:
        """Connect to an address in the background; retry forever, also after a connection is lost.

        Raises:
            RpcError: Malformed.
        """
        self._node.connect(address.parse(address_))

    def close(self) -> None:
        """Close all connections, as garbage collection does; bounded in time."""
        self._finalizer()

    def define(
        self, name: str, function: Callable[..., Any], *, batch_size: int | None = None, device: Any = None
    ) -> None:
        """Offer `function(*args, **kwargs)`, run on one of the handler threads (`set_max_threads`).

        Args:
            batch_size: Call it once for that many calls, with their arguments stacked (see
                `moolib.rpc.queue`).
            device: Move tensors there first.

        Raises:
            RpcError: The name is taken, or `batch_size` is below 1.
        """
        self._define(name, function, batch_size, device, deferred=False)

    def define_deferred(
        self, name: str, callback: Callable[..., Any], *, batch_size: int | None = None, device: Any = None
    ) -> None:
        """Offer `callback(ret, *args, **kwargs)`, which answers by calling `ret(value)`, at any time.

        Args and errors as `define`.
        """
        self._define(name, callback, batch_size, device, deferred=True)

    def define_queue(
        self, name: str, *, batch_size: int | None = None, device: Any = None, dynamic_batching: bool = False
    ) -> Queue:
        """Offer a function whose calls the program takes from a queue.

        Args:
            batch_size: Take that many calls at a time, stacked.
            device: Move tensors there first.
            dynamic_batching: Take the calls that wait, stacked: 1 to `batch_size` (default: all) of them.

        Raises:
            RpcError: As `define`.
        """
        queue = Queue(batch_size, device, dynamic_batching)
        self._handlers.define(name, queued(queue))
        return queue

    def undefine(self, name: str) -> None:
        """Withdraw a function; do nothing if there is none."""
        self._handlers.undefine(name)

    def async_(self, peer: str, function: str, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function of a peer.

        Returns:
            Its result; or RpcError if it raises (with the remote traceback), does not exist or does not
            answer in time.

        Raises:
            RpcError: The peer is this one.
            TypeError, ValueError: An argument cannot be sent.
        """
        return self._calls.start(peer, function, args, kwargs, self._timeout)

    def async_callback(
        self, peer: str, function: str, callback: Callable[[Any, Any], None], /, *args: Any, **kwargs: Any
    ) -> None:
        """As `async_`, then call `callback(result, None)` or `callback(None, error)` on a handler thread."""

        def done(future: Future[Any]) -> None:
            error = future.exception()
            threads.submit(callback, None if error else future.result(), error)

        self.async_(peer, function, *args, **kwargs).add_done_callback(done)

    def sync(self, peer: str, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """Return `async_(…).result()`."""
        return self.async_(peer, function, *args, **kwargs).result()

    def debug_info(self) -> dict[str, Any]:
        """Return name, addresses, connected peers, last refusal, functions and the number of open calls."""
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
        self,
        name: str,
        function: Callable[..., Any],
        batch_size: int | None,
        device: Any,
        deferred: bool,
    ) -> None:
        if batch_size is None:
            handler = in_thread(function, device, deferred)
        else:
            handler = batched(function, batch_size, device, deferred)
        self._handlers.define(name, handler)
