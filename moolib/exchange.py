"""What an accumulator's training thread (`Accumulator`) and control thread (`Reducer`) give each other."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import torch

from moolib.flat import Counts, Flat
from moolib.handover import Package


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

    flat: Flat  # the sum of the gradients
    counts: Counts


@dataclass
class Model:
    """A model that came from the leader."""

    parameters: list[torch.Tensor]
    buffers: list[torch.Tensor]
    state: Any


@dataclass
class Exchange:
    """All attributes are guarded by `changed`, which is notified by `wake`."""

    changed: threading.Condition = field(default_factory=threading.Condition)
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
    leader: str = ""  # "" until it is known in this epoch
    state_wanted: bool = False  # a member needs our model
    package: Package | None = None  # the program's answer to that
    virtual_batch_size: int = 1
    parallel_gradients: int = 1
    error: Exception | None = None  # what ended the control thread

    def wake(self) -> None:
        """Something changed."""
        with self.changed:
            self.events += 1
            self.changed.notify_all()

    def put(self, contribution: Contribution) -> None:
        """Contribute to the next count."""
        with self.changed:
            self.inbox.append(contribution)
            self.changed.notify_all()

    def room(self) -> bool:
        """Whether another contribution may be put."""
        return len(self.inbox) + self.busy + len(self.results) < self.parallel_gradients
