"""Peers and waiting, for the tests of calls."""

from __future__ import annotations

import time

from moolib import Rpc

ANY = "127.0.0.1:0"


def named(name: str, address: str | None = None, **kwargs) -> Rpc:
    rpc = Rpc(**kwargs)
    rpc.set_name(name)
    rpc.set_timeout(20)
    if address:
        rpc.connect(address)
    return rpc


def serving(name: str = "server", address: str = ANY, **kwargs) -> tuple[Rpc, str]:
    rpc = named(name, **kwargs)
    rpc.define("echo", lambda *args, **kwargs: (args, kwargs))
    rpc.define("double", lambda x: 2 * x)
    return rpc, rpc.listen(address)


def eventually(condition, timeout: float = 10.0) -> bool:
    end = time.monotonic() + timeout
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(condition())
