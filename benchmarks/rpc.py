"""Latency of `moolib.Rpc`, plain and sealed with a key, next to bare echoes over sockets and asyncio streams.

    python -m benchmarks.rpc

Server and client are two processes on this machine. A small call carries one integer (8 bytes in the bare
echoes), a large one 1 MB; both come back. The variants take turns in the same run, and medians are printed,
so that other work on the machine affects all equally.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import multiprocessing as mp
import os
import secrets
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

import moolib
from agent.cli.arguments import command, option
from envs.schema import Count

SMALL, LARGE = 8, 1 << 20  # bytes
IN_FLIGHT = 64  # calls
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Options:
    turns: Count = option(9, "of each variant")


def serve(pipe: Connection, key_file: str) -> None:
    """Answer all variants until the pipe closes."""
    servers = [moolib.Rpc(), moolib.Rpc(key_file=key_file)]
    for rpc in servers:
        rpc.set_name("server")
        rpc.define("echo", lambda x: x)
    listener = socket.create_server((HOST, 0))
    threading.Thread(target=serve_sockets, args=(listener,), daemon=True).start()
    ready: list[int] = []
    threading.Thread(target=lambda: asyncio.run(serve_streams(ready)), daemon=True).start()
    while not ready:
        time.sleep(0.01)
    pipe.send(([rpc.listen(f"{HOST}:0") for rpc in servers], listener.getsockname()[1], ready[0]))
    pipe.poll(None)


def serve_sockets(listener: socket.socket) -> None:
    """Echo messages, whose size the first 8 bytes of a connection tell, on one connection after the other."""
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = bytearray(int.from_bytes(sock.recv(8, socket.MSG_WAITALL), "big"))
        while sock.recv_into(buffer, 0, socket.MSG_WAITALL) == len(buffer):
            sock.sendall(buffer)


async def serve_streams(ready: list[int]) -> None:
    """Do the same with asyncio streams."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(8), "big")
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                writer.write(await reader.readexactly(size))
                await writer.drain()

    server = await asyncio.start_server(handle, HOST, 0)
    ready.append(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def bare_echo(port: int, size: int) -> Callable[[], object]:
    """Return a function that makes a round trip to one of the bare servers."""
    sock = socket.create_connection((HOST, port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(size.to_bytes(8, "big"))
    message, buffer = bytes(size), bytearray(size)

    def call() -> None:
        sock.sendall(message)
        sock.recv_into(buffer, 0, socket.MSG_WAITALL)

    return call


def median_latency(call: Callable[[], object], count: int) -> float:
    """Return the median latency of `count` calls, s."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def throughput(rpc: moolib.Rpc, count: int) -> float:
    """Return the small calls per second with `IN_FLIGHT` of them in flight."""
    start = time.perf_counter()
    futures = [rpc.async_("server", "echo", 1) for _ in range(IN_FLIGHT)]
    for i in range(count):
        futures[i % IN_FLIGHT].result()
        futures[i % IN_FLIGHT] = rpc.async_("server", "echo", 1)
    for future in futures:
        future.result()
    return count / (time.perf_counter() - start)


@contextmanager
def clients() -> Iterator[tuple[moolib.Rpc, moolib.Rpc, int, int]]:
    """Start the server; yield a plain and a sealed client, and the ports of the sockets and the streams."""
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        key_file = os.path.join(folder, "key")
        with open(os.open(key_file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
        context.Process(target=serve, args=(theirs, key_file), daemon=True).start()
        theirs.close()
        addresses, socket_port, stream_port = ours.recv()
        rpc, sealed = moolib.Rpc(), moolib.Rpc(key_file=key_file)
    for client, address in zip((rpc, sealed), addresses, strict=True):
        client.connect(address)
    yield rpc, sealed, socket_port, stream_port
    ours.close()


def run(options: Options) -> None:
    """Print a line for each size."""
    with clients() as (rpc, sealed, socket_port, stream_port):
        for name, size, count in (("small call", SMALL, 500), ("1 MB echo", LARGE, 50)):
            value = 1 if size == SMALL else np.zeros(size, np.uint8)
            variants: dict[str, Callable[[], object]] = {
                "moolib.Rpc": functools.partial(rpc.sync, "server", "echo", value),
                "sealed": functools.partial(sealed.sync, "server", "echo", value),
                "socket": bare_echo(socket_port, size),
                "asyncio streams": bare_echo(stream_port, size),
            }
            turns = [
                [median_latency(call, count) for call in variants.values()] for _ in range(options.turns)
            ]
            medians = [statistics.median(column) for column in zip(*turns, strict=True)]
            figures = ", ".join(
                f"{variant} {1e6 * m:.0f} us (x{medians[0] / m:.1f})"
                for variant, m in zip(variants, medians, strict=True)
            )
            print(f"{name}, median: {figures}")
            if size == LARGE:
                continue
            rates = [throughput(rpc, 5000) for _ in range(3)]
            print(f"small calls, {IN_FLIGHT} in flight: {statistics.median(rates):.0f} calls/s")


if __name__ == "__main__":
    sys.exit(command("benchmarks.rpc", Options, run, __doc__, sys.argv[1:]))
