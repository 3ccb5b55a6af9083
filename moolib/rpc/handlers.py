"""The functions that an `Rpc` offers its peers, and the way that calls take to them.

An Rpc owns its handlers; its engine holds them only weakly, so that a handler that refers to its Rpc does not
keep it alive.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any

from moolib.future import RpcError
from moolib.log import log
from moolib.transport import wire
from moolib.transport.link import Link
from moolib.transport.node import Node

Handler = Callable[["RpcDeferredReturn", "Request"], None]
Args = tuple[Any, ...]
Kwargs = dict[str, Any]


class RpcDeferredReturn:
    """The answer to one call: `ret(value)` returns a value to the caller, `ret.error(text)` raises there."""

    def __init__(self, answer: Callable[[int, Any], None]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._answered = False

    def __call__(self, value: Any = None) -> None:
        """Return `value`.

        Raises:
            RpcError: The call was answered before.
            TypeError: The value cannot be sent (the caller gets an error, too).
        """
        self._once(wire.REPLY, value)

    def error(self, text: str) -> None:
        """Let the caller's future raise `RpcError(text)`.

        Raises:
            RpcError: The call was answered before.
        """
        self._once(wire.ERROR, text)

    def _once(self, kind: int, value: Any) -> None:
        with self._lock:
            if self._answered:
                raise RpcError("the call was answered before")
            self._answered = True
        self._answer(kind, value)


class Request:
    """One call that arrived; its arguments are decoded on the thread that needs them."""

    def __init__(self, frame: wire.Frame, allow_pickle: bool) -> None:
        self._frame, self._allow_pickle = frame, allow_pickle

    def arguments(self) -> tuple[Args, Kwargs]:
        """Return (args, kwargs).

        Raises:
            WireError: Malformed.
        """
        value = self._frame.value(self._allow_pickle)
        if not isinstance(value, list) or len(value) != 2:
            raise wire.WireError("malformed arguments")
        args, kwargs = value
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise wire.WireError("malformed arguments")
        return tuple(args), kwargs


class Handlers:
    """The functions by name. `on_frame` and `on_peer` belong to the loop thread."""

    def __init__(self, node: Node, allow_pickle: bool) -> None:
        self._node, self._allow_pickle = node, allow_pickle
        self._functions: dict[str, Handler] = {}
        self._inline: dict[str, Callable[..., Any]] = {}
        self._peer_callbacks: list[Callable[[str, bool], None]] = []

    def define(self, name: str, handler: Handler) -> None:
        """Offer a function.

        Raises:
            RpcError: The name is taken.
        """
        if name in self._inline or self._functions.setdefault(name, handler) is not handler:
            raise RpcError(f"function {name!r} is already defined")

    def define_inline(self, name: str, function: Callable[..., Any]) -> None:
        """Offer `function(peer, *args)`, which runs on the loop thread.

        Raises:
            RpcError: The name is taken.
        """
        if name in self._functions or self._inline.setdefault(name, function) is not function:
            raise RpcError(f"function {name!r} is already defined")

    def undefine(self, name: str) -> None:
        """Withdraw a function, if there is one."""
        self._functions.pop(name, None)
        self._inline.pop(name, None)

    def watch_peers(self, callback: Callable[[str, bool], None]) -> None:
        """Call `callback(peer, connected)` on the loop thread whenever a peer comes or goes."""
        self._peer_callbacks.append(callback)

    def names(self) -> list[str]:
        """Return the names of all functions."""
        return sorted([*self._functions, *self._inline])

    def on_peer(self, name: str, connected: bool) -> None:
        """Call the callbacks of `watch_peers`."""
        for callback in list(self._peer_callbacks):
            try:
                callback(name, connected)
            except Exception:
                log("error", "%s: a peer callback failed:\n%s", self._node.name, traceback.format_exc())

    def on_frame(self, link: Link, frame: wire.Frame) -> None:
        """Handle a CALL or a NOTIFY."""
        ret = RpcDeferredReturn(lambda kind, value: self._answer(link, frame, kind, value))
        request = Request(frame, self._allow_pickle)
        name = frame.name
        if name in self._inline:
            function = self._inline[name]
            run(ret, lambda: function(link.name, *request.arguments()[0]), ret)
        elif name in self._functions:
            self._functions[name](ret, request)
        else:
            ret.error(f"RPC remote function {self._node.name}::{name!r} does not exist")

    def _answer(self, link: Link, frame: wire.Frame, kind: int, value: Any) -> None:
        if frame.kind == wire.NOTIFY:
            if kind == wire.ERROR:
                log("verbose", "%s: notification %r of %s: %s", self._node.name, frame.name, link.name, value)
            return
        try:
            link.send(wire.encode(kind, frame.call, "", value, self._allow_pickle))
        except Exception as error:  # TypeError, ValueError, or any error that torch raises for the tensor
            text = f"{self._node.name}::{frame.name!r} returned what cannot be sent: {error}"
            link.send(wire.encode(wire.ERROR, frame.call, "", text))
            raise


def run(ret: RpcDeferredReturn, function: Callable[[], Any], then: Callable[[Any], None]) -> None:
    """Call `then(function())`; an exception of the function goes to the caller, with the traceback."""
    try:
        value = function()
    except Exception as error:
        ret.error(f"remote function raised {error!r}\n{traceback.format_exc()}")
    else:
        then(value)
