"""Hosts with addresses of their own on one machine, joined by a switch; links can be cut, slow and lossy.

A host is a network namespace. Its interface is a TAP device whose frames pass through the switch, a process
of ours. (A bridge with `tc netem` would do the same, but many kernels lack netem.) Needs root and
/dev/net/tun.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import ipaddress
import itertools
import multiprocessing
import os
import random
import select
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

NAMESPACES = Path("/run/netns")
TUN = Path("/dev/net/tun")
CLONE_NEWNET = 0x40000000  # linux/sched.h
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000  # linux/if_tun.h
MTU = 9000  # bytes; jumbo frames, which cost the switch less time
FRAME = MTU + 18  # bytes, with the Ethernet header
BROADCAST = 1  # bit in the first byte of a destination that stands for many


@dataclass(frozen=True)
class Condition:
    """Condition of the link between a host and the switch."""

    sends: bool = True  # frames of the host get through
    receives: bool = True  # frames for the host get through
    delay: float = 0.0  # seconds, of what the host sends
    loss: float = 0.0  # share of what the host sends


def missing() -> str:
    """Return why this machine allows no such network, or an empty text."""
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    if not TUN.exists():
        return f"needs {TUN}"
    return ""


def enter(namespace: str) -> None:
    """Move the calling thread, and all that it starts, to another host.

    Raises:
        OSError: There is no such namespace, or we may not enter it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with open(NAMESPACES / namespace) as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


class Network:
    """Hosts, numbered from 0, each with an interface in every one of some networks.

    Args:
        hosts: Their number.
        networks: Their number; interface `net0` of a host is in the first one.
        prefix: Of the names of the namespaces.
    """

    def __init__(self, hosts: int, networks: int = 1, prefix: str = f"herd{os.getpid()}-") -> None:
        self.names = [f"{prefix}{i}" for i in range(hosts)]
        self._conditions: dict[tuple[int, int], Condition] = {}
        for name in self.names:
            _ip("netns", "add", name)
        ports = [
            [_open_tap(name, f"net{n}", n, i) for i, name in enumerate(self.names)] for n in range(networks)
        ]
        theirs, self._control = multiprocessing.Pipe(duplex=False)
        fork = multiprocessing.get_context("fork")
        self._switch = fork.Process(target=_switch, args=(ports, theirs), daemon=True)
        self._switch.start()
        for port in itertools.chain(*ports):
            os.close(port)

    def address(self, host: int, network: int = 0, version: int = 4) -> str:
        """Return the IP address of a host."""
        return str(_address(host, network, version))

    def inside(self, host: int) -> list[str]:
        """Return the prefix that makes a command line run on a host."""
        return ["ip", "netns", "exec", self.names[host]]

    @contextlib.contextmanager
    def condition(self, host: int, condition: Condition, network: int = 0) -> Iterator[None]:
        """Put the link of a host into another condition for the block."""
        self._control.send((network, host, condition))
        yield
        self._control.send((network, host, Condition()))

    def close(self) -> None:
        """Remove all namespaces."""
        self._switch.kill()
        self._switch.join()
        for name in self.names:
            _ip("netns", "del", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _address(host: int, network: int, version: int) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    base = f"10.77.{network}.1" if version == 4 else f"fd77:{network}::1"
    return ipaddress.ip_address(base) + host


def _mac(host: int) -> bytes:
    return bytes([0x02, 0, 0, 0, 0, host])  # locally administered


def _open_tap(namespace: str, interface: str, network: int, host: int) -> int:
    """Create a TAP device in a namespace, up and with addresses; return the descriptor of its other end."""
    ends: list[int] = []

    def open_inside() -> None:  # on a thread of its own, since only that enters the namespace
        enter(namespace)
        end = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", interface.encode(), IFF_TAP | IFF_NO_PI))
        ends.append(end)

    thread = threading.Thread(target=open_inside)
    thread.start()
    thread.join()
    inside = ("-n", namespace)
    _ip(*inside, "link", "set", "lo", "up")
    mac = _mac(host).hex(":")
    _ip(*inside, "link", "set", interface, "mtu", str(MTU), "address", mac, "up")
    _ip(*inside, "addr", "add", f"{_address(host, network, 4)}/24", "dev", interface)
    _ip(*inside, "addr", "add", f"{_address(host, network, 6)}/64", "dev", interface, "nodad")
    return ends[0]


def _switch(ports: list[list[int]], control: Connection) -> None:
    """Carry frames between the ports of each network as the conditions allow."""
    where = {port: (n, host) for n, row in enumerate(ports) for host, port in enumerate(row)}
    conditions = dict.fromkeys(where.values(), Condition())
    waiting: list[tuple[float, int, int, bytes]] = []  # when it is due, order, port, frame
    order = itertools.count()
    poll = select.poll()
    for watched in (*where, control.fileno()):
        poll.register(watched, select.POLLIN)

    def deliver(port: int, frame: bytes) -> None:
        if conditions[where[port]].receives:
            with contextlib.suppress(OSError):  # its queue is full: lost, as by a real switch
                os.write(port, frame)

    def carry(source: int, frame: bytes) -> None:
        network, host = where[source]
        condition = conditions[network, host]
        if not condition.sends or random.random() < condition.loss:
            return
        to_all = frame[0] & BROADCAST
        for other, port in enumerate(ports[network]):
            if port == source or not (to_all or frame[:6] == _mac(other)):
                continue
            if condition.delay:
                heapq.heappush(waiting, (time.monotonic() + condition.delay, next(order), port, frame))
            else:
                deliver(port, frame)

    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) * 1000 if waiting else None
        for ready, _ in poll.poll(timeout):
            if ready == control.fileno():
                network, host, condition = control.recv()
                conditions[network, host] = condition
                continue
            with contextlib.suppress(BlockingIOError):
                carry(ready, os.read(ready, FRAME))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, port, frame = heapq.heappop(waiting)
            deliver(port, frame)
