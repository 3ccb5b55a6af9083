"""Gloo process groups that live for one membership epoch: the only use of `torch.distributed`.

A group is formed with a `Rendezvous` (gloo's store, which exchanges a few hundred bytes of addresses per
member) and is used by one control thread. Gloo cannot abort an operation: one that never finishes blocks its
group, including the group's destruction, until gloo's own time-out. So every wait is cut into short slices,
between which we check whether the epoch is `over`. If it is, `EpochOver` is raised and the group, with the
tensors that gloo may still write to, goes to a reaper thread. Those tensors must not be used again.

Only collective operations are used: with `send` and `recv`, an expired slice breaks the connection.

`ProcessGroupGloo` as a bare class is semi-public, so it is used in this module only.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import BroadcastOptions, ProcessGroupGloo
from torch.distributed.distributed_c10d import Store

SLICE = timedelta(milliseconds=10)  # interval at which a wait checks whether the epoch is over
SLICE_OVER = "Operation timed out!"  # gloo's message when a slice expires; the operation goes on
REAP_INTERVAL = 0.1  # s between two checks of abandoned operations
REAP_TIMEOUT = 1.0  # s that the exit waits for the reaper, and for threads that connect
THREADS = 4  # gloo's workers per group: with 2, small reductions of 4 members take almost twice as long


class EpochOver(Exception):
    """The membership changed: the operation will never finish."""


class PeerLost(RuntimeError):
    """A connection of the group broke, or gloo's time-out passed; the message is gloo's."""


class Rendezvous(Store):
    """The store through which the members of an epoch exchange their addresses.

    Args:
        publish: `publish(key, value)` brings `value` to `receive` of all other members.
    """

    def __init__(self, publish: Callable[[str, bytes], None]) -> None:
        super().__init__()
        self._publish = publish
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()
        self._closed = False

    def receive(self, key: str, value: bytes) -> None:
        """Store a value that another member published."""
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def close(self) -> None:
        """End all waiting, now and later: the epoch is over."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # The part of torch.distributed.Store that gloo uses; called on the thread that forms the group.

    def set(self, key: str, value: bytes) -> None:  # type: ignore[override]  # gloo hands over bytes
        self.receive(key, bytes(value))
        self._publish(key, bytes(value))

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._values[key]

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        seconds = timeout.total_seconds() if timeout else None
        with self._changed:
            there = self._changed.wait_for(
                lambda: self._closed or all(key in self._values for key in keys), seconds
            )
            if self._closed or not there:
                raise RuntimeError("rendezvous ended")


@functools.lru_cache(maxsize=8)
def _device(host: str) -> Any:
    """Return the listening device of a local address, one for the life of the process."""
    return ProcessGroupGloo.create_device(hostname=host)


class Alone:
    """The operations of `EpochGroup` for a group of one member."""

    rank, size = 0, 1

    def all_reduce(self, tensors: Iterable[torch.Tensor]) -> None:
        """Leave the tensors as they are, having asked for each."""
        for _ in tensors:
            pass

    def all_gather(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return `[...]` as `[1, ...]`."""
        return tensor.unsqueeze(0)

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Do nothing: there is nobody to send to."""

    def abandon(self) -> None:
        """Do nothing: no operation can be pending."""


class EpochGroup:
    """The collective operations of one epoch, for one thread. Each blocks until it is done.

    Every operation raises EpochOver if the epoch ends first, and PeerLost if a connection breaks.

    Args:
        rendezvous: The store of this epoch.
        rank: Our place among the members.
        size: Number of members, at least 2.
        host: The local address that the other members can reach; never a host name.
        over: Returns True once the epoch is over.
        timeout: Seconds after which gloo itself gives up an operation.

    Raises:
        EpochOver: The epoch ended before all members had connected.
        PeerLost: Connecting failed.
    """

    def __init__(
        self,
        rendezvous: Rendezvous,
        rank: int,
        size: int,
        host: str,
        over: Callable[[], bool],
        timeout: float,
    ) -> None:
        self.rank, self.size = rank, size
        self._over = over
        options: Any = ProcessGroupGloo._Options()  # type: ignore[attr-defined]
        options._devices = [_device(host)]
        options._timeout = timedelta(seconds=timeout)
        options._threads = THREADS
        self._held: list[Any] = [rendezvous]  # everything that must outlive a pending operation
        self._pending: list[Any] = []
        self._gloo = self._connect(rendezvous, options)
        self._held.append(self._gloo)

    def all_reduce(self, tensors: Iterable[torch.Tensor]) -> None:
        """Replace each tensor (any shape, on the CPU) by its sum over all members: the same bits on each.

        The tensors are reduced concurrently; the reduction of each starts before the next one is requested.
        """
        self._run(self._gloo.allreduce, (([tensor],) for tensor in tensors))

    def all_gather(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the members' tensors `[...]` stacked in order of rank: `[size, ...]`."""
        outputs = [torch.empty_like(tensor) for _ in range(self.size)]
        self._run(self._gloo.allgather, [([outputs], [tensor])])
        return torch.stack(outputs)

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Overwrite `tensor` with that of the member with rank `source`."""
        options = BroadcastOptions()
        options.rootRank, options.rootTensor = source, 0
        self._run(self._gloo.broadcast, [([tensor], options)])

    def abandon(self) -> None:
        """Give the group up; never block."""
        _reaper.take(self._pending, self._held)
        self._pending, self._held, self._gloo = [], [], None

    def _run(self, operation: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> None:
        """Call `operation(*call)` for each of the calls, then wait for all of them."""
        del self._held[2:]
        try:
            for call in calls:
                self._held.append(call)
                self._pending.append(operation(*call))
            while self._pending:
                self._wait(self._pending[-1])
                self._pending.pop()
        except RuntimeError as error:
            raise PeerLost(str(error)) from None

    def _wait(self, work: Any) -> None:
        while True:
            try:
                work.wait(SLICE)
                return
            except RuntimeError as error:
                if SLICE_OVER not in str(error):
                    raise
            if self._over():
                raise EpochOver

    def _connect(self, rendezvous: Rendezvous, options: Any) -> Any:
        """Connect on a separate thread, which is left behind if the epoch ends in the meantime."""
        result: list[Any] = []
        done = threading.Event()

        def connect() -> None:
            try:
                result.append(ProcessGroupGloo(rendezvous, self.rank, self.size, options))
            except RuntimeError as error:
                result.append(error)
            done.set()

        _reaper.start(threading.Thread(target=connect, name="gloo-connect", daemon=True), rendezvous)
        while not done.wait(SLICE.total_seconds()):
            if self._over():
                rendezvous.close()
                raise EpochOver
        if isinstance(result[0], RuntimeError):
            if self._over():
                raise EpochOver
            raise PeerLost(str(result[0]))
        return result[0]


ProcessGroup = Alone | EpochGroup


class _Reaper:
    """Keeps abandoned groups until their last operation has ended: dropping them earlier would block.

    At exit it ends the threads that are inside gloo: if they returned to a finished interpreter, the process
    would abort.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connecting: list[tuple[threading.Thread, Rendezvous]] = []
        self._abandoned: list[tuple[list[Any], list[Any]]] = []
        self._thread: threading.Thread | None = None
        self._exiting = threading.Event()
        atexit.register(self._leave_behind)

    def take(self, works: list[Any], held: list[Any]) -> None:
        entry = (works, held)
        with self._lock:
            if self._exiting.is_set():
                return _keep_forever(entry)
            self._abandoned.append(entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gloo-reaper", daemon=True)
                self._thread.start()

    def start(self, thread: threading.Thread, rendezvous: Rendezvous) -> None:
        """Start a thread that connects a group and ends soon after its rendezvous is closed.

        Raises:
            EpochOver: The program is ending.
        """
        with self._lock:
            if self._exiting.is_set():
                raise EpochOver
            self._connecting = [entry for entry in self._connecting if entry[0].is_alive()]
            self._connecting.append((thread, rendezvous))
            thread.start()

    def _run(self) -> None:
        while not self._exiting.is_set():
            with self._lock:
                pending: list[tuple[list[Any], list[Any]]] = []
                ended: list[tuple[list[Any], list[Any]]] = []
                for entry in self._abandoned:
                    works, _ = entry
                    (ended if all(work.is_completed() for work in works) else pending).append(entry)
                self._abandoned = pending
                if not pending and not ended:
                    self._thread = None
                    return
            del entry, works
            ended.clear()  # destroys the groups, outside the lock
            self._exiting.wait(REAP_INTERVAL)

    def _leave_behind(self) -> None:
        """At exit, keep everything that is pending alive: otherwise the interpreter would wait for it."""
        with self._lock:
            self._exiting.set()
            for entry in self._abandoned:
                _keep_forever(entry)
        deadline = time.monotonic() + REAP_TIMEOUT
        for _, rendezvous in self._connecting:
            rendezvous.close()
        for thread in [self._thread, *(thread for thread, _ in self._connecting)]:
            if thread:
                thread.join(max(0.0, deadline - time.monotonic()))


def _keep_forever(value: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


_reaper = _Reaper()
