"""The data that an accumulator's training thread (`Accumulator`) and its `ControlThread` exchange.

Each of the two waits for an `AutoResetEvent` of its own. A `threading.Condition` costs three sleeps per
wake-up instead of one, in total a fifth of the time of a step of a small model.
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

from moolib.accumulator.gradient_buffer import Counts, GradientBuffer
from moolib.accumulator.state_transfer import Package


class AutoResetEvent:
    """An event that wakes one waiting thread and is then reset. Setting it several times counts as once."""

    def __init__(self) -> None:
        self._unset = threading.Lock()
        self._unset.acquire()

    def set(self) -> None:
        """Wake the thread that waits, or the next one that will."""
        with contextlib.suppress(RuntimeError):  # it is set already
            self._unset.release()

    def wait_for(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `condition()`, checked at each `set`, at most `timeout` seconds; return its value."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not condition():
            left = -1 if deadline is None else deadline - time.monotonic()
            if deadline is not None and left <= 0:
                return False
            self._unset.acquire(timeout=left)
        return True


@dataclass
class Contribution:
    """The program's part in one round."""

    gradients: GradientBuffer | None  # None for a skip
    batch_size: int
    version: int  # of the model that the gradients were computed with
    generation: int  # `Exchange.generation`, as known to the program
    checksum: int | None = None  # of the parameters, if one is due at this version
    buffers: Package | None = None  # the model's, from time to time


@dataclass
class Result:
    """One finished step."""

    gradients: GradientBuffer  # the mean
    counts: Counts


@dataclass
class Model:
    """A model that the leader sent."""

    parameters: list[torch.Tensor]
    buffers: list[torch.Tensor]
    state: Any


@dataclass
class Exchange:
    """The shared data. All attributes are guarded by `lock`."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    program: AutoResetEvent = field(default_factory=AutoResetEvent)  # set when `events` was increased
    control: AutoResetEvent = field(default_factory=AutoResetEvent)  # set when the control thread must look
    events: int = 0  # counts everything that the program may want to act on
    inbox: deque[Contribution] = field(default_factory=deque)
    busy: int = 0  # contributions in the current round
    results: deque[Result] = field(default_factory=deque)  # steps that the program has not taken yet
    model: Model | None = None  # the leader's, for the program to load
    buffers: list[torch.Tensor] | None = None  # the leader's, for the program to load
    generation: int = 0  # counts the models received; a contribution to an older one is void
    version: int = 0  # of the model, with all of `results` applied
    lineage: int = 0  # distinguishes models of one version; 0: there is no model
    behind: bool = False  # the program missed so many results that it needs a model from the leader
    leader: tuple[int, str] = (0, "")  # sync id of an epoch, and the name of its leader
    state_wanted: bool = False  # a member needs our model
    package: Package | None = None  # the program's answer to that
    virtual_batch_size: int = 1
    parallel_gradients: int = 1
    error: Exception | None = None  # the error that ended the control thread

    def notify_program(self) -> None:
        """Make the program's next `update()` look at the exchange."""
        with self.lock:
            self.events += 1
        self.program.set()

    def notify_all(self) -> None:
        """Make both threads look: the membership changed."""
        self.notify_program()
        self.control.set()

    def put(self, contribution: Contribution) -> None:
        """Contribute to the next round."""
        with self.lock:
            self.inbox.append(contribution)
        self.control.set()

    def has_room(self) -> bool:
        """Return True if another contribution may be put."""
        return len(self.inbox) + self.busy + len(self.results) < self.parallel_gradients
