"""A training peer whose every update can be checked afterwards, and that misbehaves on command.

Its gradients are whole numbers, small enough that float32 adds them exactly. Each contribution of a peer
carries a serial number, and its gradient has three parts:

- body `[BODY]`: `pattern(slot) + serial * RAMP`, where the slot is a number of the process;
- count `[SLOTS]`: 1 at the slot;
- serial `[SLOTS]`: the serial number at the slot.

The count and serial parts of a reduced gradient thus say which contributions it should hold, and the body
shows that it holds exactly these: a part of a sum that is missing, doubled or of another step does not fit.

Each event becomes a line of JSON in the peer's log, as `benchmarks.chaos.ledger` reads it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TextIO

import torch

import moolib
from moolib.accumulator import state_transfer
from moolib.group import process_group

BODY = 50_000  # parameters: about those of the Go2's policy, 0.2 MB
SLOTS = 1024  # most processes of one run
MODULUS = 8191.0  # the body is kept below it, where float32 is exact
RAMP = torch.arange(BODY) % 5 - 2.0
SLOWER = 10  # times, of a slow peer
SKIPS = 0.2  # of all turns
DEATH = 2e-3  # seconds, at most, from the start of the operation during which the peer dies
REFUSAL_PATIENCE = 2.0  # seconds; until then, a peer of our name that has just died may be the reason
DAY = 86_400.0  # seconds


@dataclass
class Settings:
    """Settings of a peer on the same machine as the rig."""

    address: str  # of the broker
    name: str
    slot: int
    directory: str  # for NAME-SLOT.jsonl and NAME-SLOT.err
    timeout: float = 5.0  # seconds, of the group
    pause: float = 0.01  # seconds that a gradient takes
    virtual_batch_size: int = 4
    netns: str | None = None  # network namespace to enter
    advertise: str | None = None  # address for the other peers

    def path(self, suffix: str) -> Path:
        """Return the path of a file of this peer."""
        return Path(self.directory) / f"{self.name}-{self.slot}.{suffix}"


def pattern(slot: int) -> torch.Tensor:
    """Return whole numbers from -3 to 3 `[BODY]`."""
    return torch.arange(BODY) * (slot + 1) % 7 - 3.0


class Model:
    """Parameters, and the record of what was applied to them, which a joiner receives with them."""

    def __init__(self) -> None:
        self.body = torch.zeros(BODY, requires_grad=True)
        self.count = torch.zeros(SLOTS, requires_grad=True)
        self.serial = torch.zeros(SLOTS, requires_grad=True)
        self.applied = torch.zeros(SLOTS, 2, dtype=torch.int64)  # contributions, and the sum of their serials

    @property
    def parameters(self) -> list[torch.Tensor]:
        """The parameters in the order of the accumulator."""
        return [self.body, self.count, self.serial]

    def set_gradient(self, slot: int, serial: int) -> None:
        """Set the gradient of one contribution."""
        self.body.grad = pattern(slot) + serial * RAMP
        self.count.grad, self.serial.grad = torch.zeros(SLOTS), torch.zeros(SLOTS)
        self.count.grad[slot], self.serial.grad[slot] = 1.0, float(serial)

    @torch.no_grad()
    def apply(self, contributions: int) -> tuple[dict[int, list[int]], bool]:
        """Apply one update with the mean gradient of so many contributions.

        Returns:
            The number of contributions and the sum of their serials for each slot that took part; and whether
            the body is exactly the sum of these.
        """
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        body, count, serial = ((gradient * contributions).round() for gradient in gradients)
        slots = count.nonzero().flatten().tolist()
        parts = {slot: [int(count[slot]), int(serial[slot])] for slot in slots}
        expected = torch.zeros(BODY)
        for slot, (n, s) in parts.items():
            expected += n * pattern(slot) + s * RAMP
        self.body.add_(body).remainder_(MODULUS)
        for slot, (n, s) in parts.items():
            self.applied[slot] += torch.tensor([n, s])
        complete = sum(n for n, _ in parts.values()) == contributions
        return parts, complete and torch.equal(body, expected)

    def checksum(self) -> int:
        """Return the CRC-32 of everything."""
        body, applied = (tensor.detach().numpy().tobytes() for tensor in (self.body, self.applied))
        return zlib.crc32(applied, zlib.crc32(body))


class Peer:
    """The loop, and the misbehaviour that the rig may ask for."""

    def __init__(self, settings: Settings, log: TextIO) -> None:
        self.settings, self.log = settings, log
        self.model, self.serial, self.slower = Model(), 0, 1
        self.random = random.Random(settings.slot)
        self.rpc = moolib.Rpc()
        self.rpc.set_name(settings.name)
        self.rpc.connect(settings.address)
        self.group = moolib.Group(self.rpc, "chaos")
        self.group.set_timeout(settings.timeout)
        self.group.set_advertise(settings.advertise)
        self.accumulator = moolib.Accumulator("model", self.model.parameters, group=self.group)
        self.accumulator.set_virtual_batch_size(settings.virtual_batch_size)

    def tell(self, event: str, **fields: Any) -> None:
        """Write an event to the log, in one system call."""
        fields |= {"event": event, "time": time.monotonic(), "version": self.accumulator.model_version()}
        self.log.write(json.dumps(fields) + "\n")
        self.log.flush()

    def turn(self) -> None:
        """Do what every program does in its loop."""
        accumulator, model = self.accumulator, self.model
        self.group.update()
        accumulator.update()
        if accumulator.wants_state():
            accumulator.set_state({"applied": model.applied})
        if accumulator.has_new_state():
            model.applied = accumulator.state()["applied"].clone()
            self.tell("took", model=model.checksum())
        if accumulator.has_gradients():
            contributions = accumulator.get_gradient_stats()["num_gradients"]
            parts, right = model.apply(contributions)
            accumulator.zero_gradients()
            where = {"members": len(self.group.members()), "leads": accumulator.is_leader()}
            self.tell("update", model=model.checksum(), parts=parts, right=right, **where)
        elif accumulator.wants_gradients():
            self.contribute()
        else:
            accumulator.wait(0.05)

    def contribute(self) -> None:
        """Contribute a gradient, or now and then skip."""
        if self.random.random() < SKIPS:
            return self.accumulator.skip_gradients()
        time.sleep(self.settings.pause * self.slower)
        self.serial += 1
        self.model.set_gradient(self.settings.slot, self.serial)
        self.accumulator.reduce_gradients(1)

    def obey(self, command: str) -> None:
        """Do what the rig asks for."""
        if command == "slow":
            self.slower = SLOWER
        elif command == "fast":
            self.slower = 1
        elif command == "corrupt":
            with torch.no_grad():
                self.model.body[BODY // 2] += 1
            self.tell("corrupted")
        elif command == "jump":
            real = time.time
            time.time = lambda: real() + random.choice([-DAY, DAY])
        elif command == "die in a reduction":
            _die_within(process_group.EpochGroup, "all_reduce")
        elif command == "die in a state transfer":
            _die_within(state_transfer, "broadcast")

    def refused(self, since: float) -> str:
        """Return the reason for a refusal to let us join, once that is final; otherwise an empty text."""
        if self.accumulator.connected() or time.monotonic() - since < REFUSAL_PATIENCE:
            return ""
        return str(self.rpc.debug_info()["refused"])


def _die_within(where: Any, name: str) -> None:
    """Let the process die somewhere in the middle of the next call of a function."""
    original: Callable[..., Any] = getattr(where, name)

    def deadly(*arguments: Any) -> Any:
        threading.Timer(random.uniform(0, DEATH), os.kill, (os.getpid(), signal.SIGKILL)).start()
        return original(*arguments)

    setattr(where, name, deadly)


def main(settings: Settings, commands: Connection) -> None:
    """Train until SIGTERM; exit with 1 and one line if the group refuses us."""
    os.dup2(os.open(settings.path("err"), os.O_WRONLY | os.O_CREAT | os.O_APPEND), sys.stderr.fileno())
    if settings.netns:
        from rigs.network_namespaces import enter

        enter(settings.netns)
    torch.set_num_threads(1)
    faulthandler.register(signal.SIGUSR1)  # the rig asks for the stacks of all threads when there is a hang
    with open(settings.path("jsonl"), "w") as log:
        ended = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the rig, which ends us
        peer, since = Peer(settings, log), time.monotonic()
        peer.tell("start")
        while not ended.is_set():
            if commands.poll():
                peer.obey(commands.recv())
            peer.turn()
            if refusal := peer.refused(since):
                sys.exit(f"{settings.name}: we were refused: {refusal}")
        peer.tell("end")
        del peer
