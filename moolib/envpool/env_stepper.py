"""The parent's side of an `EnvPool`: worker processes, the memory shared with them, and their failures.

Nobody spins: workers sleep in `recv`, the parent in `poll`. The end of its socket reveals that a worker died.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection
from typing import Any

import cloudpickle
import msgpack
import numpy as np

from moolib.envpool import env_memory
from moolib.envpool.env_memory import ACTION, Field, Fields
from moolib.envpool.env_runner import DONE, ERROR, MAX_PACKET, SPEC
from moolib.future import RpcError

SLICE = 0.1  # s after which a waiting thread lets another one wait
CLOSE_TIMEOUT = 2.0  # s that workers have to close their environments
START = "import sys; sys.path[:] = {path!r}; from moolib.envpool.env_runner import main; main({descriptor})"
RESULTS: Fields = {
    "done": Field("|b1", ()),
    "reward": Field("<f4", ()),
    "terminated": Field("|b1", ()),
    "truncated": Field("|b1", ()),
}


class _Worker:
    """One process, the rows it steps and our end of its socket."""

    def __init__(
        self, create_env: Callable[..., Any], batch_size: int, num_batches: int, rows: range
    ) -> None:
        self.rows = rows
        order = cloudpickle.dumps((create_env, batch_size, num_batches, rows.start, rows.stop))
        self.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            code = START.format(path=sys.path, descriptor=other.fileno())
            self.process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, pass_fds=[other.fileno()]
            )
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died: its socket will tell
            self.process.stdin.write(order)
            self.process.stdin.flush()

    def __str__(self) -> str:
        return f"environment process {self.process.pid} (rows {self.rows.start} to {self.rows.stop - 1})"

    def death(self) -> str:
        """Describe how the process ended."""
        try:
            code = self.process.wait(CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            return f"{self} closed its connection"
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"{self} {how}"


class EnvStepper:
    """Runs batches of environments in processes, each of which steps some rows of every batch.

    After the first failure (an environment raised, a process died or hung) every wait raises it.

    Attributes:
        timeout: Seconds that a step may take.
        failure: The first failure, "" if there was none.
    """

    def __init__(
        self,
        create_env: Callable[..., Any],
        num_processes: int,
        batch_size: int,
        num_batches: int,
        timeout: float | None,
    ) -> None:
        """Start the processes; they make their environments in the background.

        Raises:
            RpcError: The system is not supported.
        """
        _check_system()
        self._batch_size, self._num_batches = batch_size, num_batches
        self.timeout = math.inf if timeout is None else timeout
        self.failure = ""
        self._lock = threading.Lock()  # of receiving, and of all that it changes
        self._packet = bytearray(MAX_PACKET)
        self._poll = select.poll()
        self._workers: dict[int, _Worker] = {}  # by the descriptor of the socket
        self._specs: dict[int, bytes] = {}
        self._pending: list[set[int]] = [set() for _ in range(num_batches)]  # workers still at a batch
        self._deadlines = [math.inf] * num_batches
        self._finalizer = weakref.finalize(self, _close, self._workers)
        shares = np.linspace(0, batch_size, min(num_processes, batch_size) + 1).astype(int).tolist()
        for start, stop in itertools.pairwise(shares):
            worker = _Worker(create_env, batch_size, num_batches, range(start, stop))
            self._workers[worker.socket.fileno()] = worker
            self._poll.register(worker.socket, select.POLLIN)

    def spec(self) -> tuple[Fields, Field | None]:
        """Wait for the processes; return the fields of an observation, and that of an action if known.

        Raises:
            RpcError: An environment could not be made or reset, or the environments differ.
        """
        self._wait_for(lambda: self._workers.keys() - self._specs, time.monotonic() + self.timeout)
        if len(set(self._specs.values())) > 1:
            both = sorted({str(msgpack.unpackb(spec)) for spec in self._specs.values()})
            self.failure = f"environments differ in their observations or actions: {' and '.join(both)}"
            raise RpcError(self.failure)
        observation, action = msgpack.unpackb(next(iter(self._specs.values())))
        fields = {name: Field(dtype, tuple(shape)) for name, (dtype, shape) in observation.items()}
        return fields, Field(action[0], tuple(action[1])) if action else None

    def begin(self, observation: Fields, action: Field) -> list[dict[str, np.ndarray]]:
        """Share memory with the processes; return, for each batch, the arrays of actions and results."""
        final = {f"final_{name}": field for name, field in observation.items()}
        fields = {ACTION: action, **RESULTS, **observation, **final}
        descriptor = env_memory.create(env_memory.size(fields, self._batch_size, self._num_batches))
        try:
            message = msgpack.packb([fields, self._batch_size])
            for worker in self._workers.values():
                with contextlib.suppress(OSError):  # it died: noticed while waiting for its answer
                    socket.send_fds(worker.socket, [message], [descriptor])
            return env_memory.arrays(descriptor, fields, self._batch_size, self._num_batches)
        finally:
            os.close(descriptor)

    def step(self, batch: int) -> None:
        """Let the processes step a batch whose actions are in place."""
        self._deadlines[batch] = time.monotonic() + self.timeout
        self._pending[batch] = set(self._workers)
        message = batch.to_bytes(2, "big")
        for worker in self._workers.values():
            with contextlib.suppress(OSError):  # as above
                worker.socket.send(message)

    def busy(self, batch: int) -> bool:
        """Return True if a batch is being stepped."""
        if self._pending[batch] and not self.failure:
            with self._lock:
                self._receive(0)
        return bool(self._pending[batch])

    def wait(self, batch: int, timeout: float | None = None) -> None:
        """Wait until a batch is stepped.

        Raises:
            RpcError: `The operation timed out` (after `timeout` seconds), or the first failure.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        self._wait_for(lambda: self._pending[batch], self._deadlines[batch], until)

    def pids(self) -> list[int]:
        """Return the process ids, in the order of their rows."""
        return [worker.process.pid for worker in self._workers.values()]

    def close(self) -> None:
        """End the processes; bounded in time."""
        self.failure = self.failure or "the environment pool is closed"
        self._finalizer()

    def _wait_for(
        self, pending: Callable[[], Collection[int]], deadline: float, until: float = math.inf
    ) -> None:
        """Receive until no worker is pending. At `deadline` the workers fail; at `until`, only this wait."""
        while pending() and not self.failure:
            now = time.monotonic()
            with self._lock:
                if pending():
                    self._receive(max(0.0, min(SLICE, deadline - now, until - now)))
            if pending() and now >= deadline:
                hung = ", ".join(str(self._workers[descriptor]) for descriptor in pending())
                self.failure = self.failure or f"no answer within {self.timeout} s from {hung}"
            elif pending() and now >= until:
                raise RpcError("The operation timed out")
        if self.failure:
            raise RpcError(self.failure)

    def _receive(self, seconds: float) -> None:
        """Handle the packets that arrive within `seconds`; the caller holds the lock."""
        for descriptor, _ in self._poll.poll(math.ceil(1000 * seconds)):
            worker = self._workers[descriptor]
            try:
                count = worker.socket.recv_into(self._packet)
            except ConnectionError:
                count = 0
            kind, rest = bytes(self._packet[: min(count, 1)]), self._packet[1:count]
            if kind == DONE:
                self._pending[int.from_bytes(rest, "big")].discard(descriptor)
            elif kind == SPEC:
                self._specs[descriptor] = bytes(rest)
            elif not self.failure:
                text = (
                    f"{worker} raised\n{rest.decode(errors='replace')}" if kind == ERROR else worker.death()
                )
                self.failure = text


def _check_system() -> None:
    """Raise RpcError if the system lacks sockets that keep packets apart: macOS does, and Windows."""
    try:
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except (AttributeError, OSError) as error:
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            raise
        raise RpcError(f"EnvPool runs on Linux only: no packet sockets on {sys.platform}") from error
    for end in ends:
        end.close()


def _close(workers: dict[int, _Worker]) -> None:
    """Let the processes end by themselves; kill those that do not."""
    for worker in workers.values():
        worker.socket.close()
        if worker.process.stdin:
            with contextlib.suppress(BrokenPipeError):
                worker.process.stdin.close()
    deadline = time.monotonic() + CLOSE_TIMEOUT
    for worker in workers.values():
        try:
            worker.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
