"""What an accumulator's training thread (`Accumulator`) and control thread (`Reducer`) give each other.

Each of the two waits at a `Bell` of its own. A `threading.Condition` would do, but a hand-over costs it three
sleeps instead of one, together a fifth of the time of a step of a small model.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from moolib.accumulator.gradient_buffer import Counts, Flat
from moolib.accumulator.state_transfer import Package


class Bell:
    """Wakes one waiting thread; a ring while nobody waits is kept, but several count as one."""

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        """Wake who waits, or who will."""
        with contextlib.suppress(RuntimeError):  # it has been rung already
            self._silent.release()

    def wait_for(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `condition()`, asked again at each ring, at most `timeout` seconds; its value."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not condition():
            left = -1 if deadline is None else deadline - time.monotonic()
            if deadline is not None and left <= 0:
                return False
            self._silent.acquire(timeout=left)
        return True


@dataclass
class Contribution:
    """What the program gave for one count."""

    flat: Flat | None  # None for a skip
    batch_size: int
    version: int  # of the model that the gradients were computed with
    generation: int  # of `Exchange.generation`, as known to the program
    checksum: int | None = None  # of the parameters, if one is due at this version
    buffers: Package | None = None  # the model's, now and then


@dataclass
class Result:
    """One finished step."""

    flat: Flat  # the mean of the gradients
    counts: Counts


@dataclass
class Model:
    """A model that came from the leader."""

    parameters: list[torch.Tensor]
    buffers: list[torch.Tensor]
    state: Any


@dataclass
class Exchange:
    """All attributes are guarded by `lock`."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    program: Bell = field(default_factory=Bell)  # rung when `events` was counted up
    control: Bell = field(default_factory=Bell)  # rung when the control thread has something to look at
    events: int = 0  # counts whatever the program may want to act on
    inbox: deque[Contribution] = field(default_factory=deque)
    busy: int = 0  # contributions that are being counted
    results: deque[Result] = field(default_factory=deque)  # steps that the program has not taken yet
    model: Model | None = None  # taken from the leader, for the program to load
    buffers: list[torch.Tensor] | None = None  # the leader's, for the program to load
    generation: int = 0  # counts the models taken; a contribution to an older one is void
    version: int = 0  # of the model, with all of `results` applied
    lineage: int = 0  # tells models of one version apart; 0: there is no model
    behind: bool = False  # the program missed so many results that it needs the model anew
    leader: tuple[int, str] = (0, "")  # and the sync id of the epoch in which it leads
    state_wanted: bool = False  # a member needs our model
    package: Package | None = None  # the program's answer to that
    virtual_batch_size: int = 1
    parallel_gradients: int = 1
    error: Exception | None = None  # what ended the control thread

    def tell_program(self) -> None:
        """There is something for the program's next `update()`."""
        with self.lock:
            self.events += 1
        self.program.ring()

    def tell_all(self) -> None:
        """The membership changed: both threads must look."""
        self.tell_program()
        self.control.ring()

    def put(self, contribution: Contribution) -> None:
        """Contribute to the next count."""
        with self.lock:
            self.inbox.append(contribution)
        self.control.ring()

    def room(self) -> bool:
        """Whether another contribution may be put."""
        return len(self.inbox) + self.busy + len(self.results) < self.parallel_gradients
