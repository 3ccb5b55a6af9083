"""Named peers: renaming, duplicates, and peers that come, go, freeze or are collected."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

from rigs.processes import wait_until
from rigs.rpcs import ANY, named, serving

SERVER = """
import sys, moolib
rpc = moolib.Rpc()
rpc.set_name("server")
rpc.define("double", lambda x: 2 * x)
rpc.define("echo", lambda x: x)
print(rpc.listen(sys.argv[1]), flush=True)
sys.stdin.read()
assert "torch" not in sys.modules, "torch was imported"
print("end", flush=True)
"""


@pytest.fixture
def process():
    started = []

    def start(address: str = ANY) -> tuple[subprocess.Popen, str]:
        child = subprocess.Popen(
            [sys.executable, "-c", SERVER, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(child)
        return child, child.stdout.readline().strip()

    yield start
    for child in started:
        child.kill()
        child.communicate()


def test_a_second_live_peer_of_a_name_is_refused():
    _server, address = serving()
    first = named("twin", address)
    assert first.sync("server", "double", 1) == 2
    second = named("twin", address)
    with pytest.raises(RuntimeError, match="'twin'"):
        second.sync("server", "double", 1)
    assert first.sync("server", "double", 1) == 2
    first.close()
    wait_until(lambda: "server" in second.debug_info()["peers"])
    assert second.sync("server", "double", 1) == 2


def test_renaming_while_connected():
    server, address = serving()
    client = named("before", address)
    client.sync("server", "double", 1)
    client.define("hello", lambda: "hello")
    client.set_name("after")
    assert server.sync("after", "hello") == "hello"
    assert list(server.debug_info()["peers"]) == ["after"]


def test_collected_rpcs_close_and_their_callers_reconnect():
    server, address = serving()
    client = named("client", address)
    assert client.sync("server", "double", 1) == 2
    gone = weakref.ref(server)
    server.define("cycle", lambda rpc=server: rpc)
    del server
    gc.collect()
    wait_until(lambda: gone() is None)
    client.set_timeout(0.2)
    with pytest.raises(RuntimeError, match="timed out"):
        client.sync("server", "double", 1)
    client.set_timeout(20)
    _server, _ = serving(address=address)
    assert client.sync("server", "double", 3) == 6


def test_a_killed_process_is_noticed_and_its_successor_found(process):
    child, address = process()
    client = named("client", address)
    changes = []
    gone = threading.Event()

    def on_peer(name, connected):
        changes.append((name, connected))
        if not connected:
            gone.set()

    client.messages.on_peer_change(on_peer)
    assert client.sync("server", "double", 5) == 10
    child.send_signal(signal.SIGKILL)
    assert gone.wait(5)
    assert changes == [("server", True), ("server", False)]
    process(address)
    assert client.sync("server", "double", 6) == 12


def test_a_frozen_process_gives_way_to_its_successor(process):
    server, address = serving("broker")
    child, at = process()
    server.connect(at)
    assert server.sync("server", "double", 1) == 2
    child.send_signal(signal.SIGSTOP)
    successor = named("server", address)
    successor.define("who", lambda: "successor")
    wait_until(lambda: "broker" in successor.debug_info()["peers"])
    assert server.sync("server", "who") == "successor"
    child.send_signal(signal.SIGCONT)


def test_a_handler_that_never_returns_does_not_keep_a_process_alive():
    program = SERVER.replace("lambda x: 2 * x", "lambda x: __import__('time').sleep(1000)")
    child = subprocess.Popen(
        [sys.executable, "-c", program, ANY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        client = named("client", child.stdout.readline().strip())
        hanging = client.async_("server", "double", 1)
        assert client.sync("server", "echo", 5) == 5
        assert child.communicate("", timeout=10)[0] == "end\n"
        assert not hanging.done()
    finally:
        child.kill()
        child.communicate()


def test_a_process_without_torch_ends_quickly(process):
    child, address = process()
    client = named("client", address)
    assert client.sync("server", "echo", np.ones(100_000)).sum() == 100_000
    assert child.communicate("", timeout=10)[0] == "end\n"
    assert child.returncode == 0
