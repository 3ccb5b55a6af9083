"""Faults that a group of peers may suffer. Each function injects one, watches the group and repairs it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from benchmarks.chaos.rig import Peer, Rig, Watch
from rigs.processes import Broker, Hang, wait_until

HICCUP = 0.3  # of the group's time-out: too short to be noticed
LONG_STOP = 1.5  # time-outs: the peer is dropped, and comes back
OUTAGE = 3.0  # seconds without a broker
SLOW = 1.0  # seconds in which a peer is slow
LEADERS = 3  # killed one after the other

Fault = Callable[[Rig], Watch]


def _lose(rig: Rig, victim: Peer, harm: Callable[[], None], status: int) -> Watch:
    """Let a peer go and the others go on."""
    with rig.watch(victim) as watch:
        harm()
        if victim.end() != status:
            raise Hang(f"{victim.id} ended with {victim.end()}, not {status}: {victim.errors()}")
        rig.drop(victim)
        rig.train_together()
    return watch


def peer_killed(rig: Rig) -> Watch:
    """SIGKILL at any moment."""
    victim = rig.anyone()
    return _lose(rig, victim, victim.kill, -signal.SIGKILL)


def peer_leaves(rig: Rig) -> Watch:
    """SIGTERM: it says goodbye."""
    victim = rig.anyone()
    return _lose(rig, victim, lambda: victim.signal(signal.SIGTERM), 0)


def killed_in_a_reduction(rig: Rig) -> Watch:
    """SIGKILL while gradients are being reduced."""
    victim = rig.anyone()
    return _lose(rig, victim, lambda: victim.tell("die in a reduction"), -signal.SIGKILL)


def leader_killed_in_a_state_transfer(rig: Rig) -> Watch:
    """SIGKILL of the leader while a joiner receives its model."""
    victim = rig.leader()

    def harm() -> None:
        victim.tell("die in a state transfer")
        rig.start()

    return _lose(rig, victim, harm, -signal.SIGKILL)


def joiner_killed_in_a_state_transfer(rig: Rig) -> Watch:
    """SIGKILL of a joiner while it receives the model."""
    victim = rig.start()
    victim.tell("die in a state transfer")
    return _lose(rig, victim, lambda: None, -signal.SIGKILL)


def leaders_killed(rig: Rig) -> Watch:
    """SIGKILL of the leader, and of its successors as soon as they lead."""
    longest = Watch()
    for _ in range(LEADERS):
        victim = rig.leader()
        watch = _lose(rig, victim, victim.kill, -signal.SIGKILL)
        longest.pause = max(longest.pause, watch.pause)
    return longest


def peer_stopped(rig: Rig) -> Watch:
    """SIGSTOP for longer than the time-out: the peer is dropped, and returns after SIGCONT."""
    victim = rig.anyone()
    with rig.watch(victim) as watch:
        victim.signal(signal.SIGSTOP)
        stopped = time.monotonic()
        rig.train_together([one for one in rig.peers if one is not victim])
    time.sleep(max(0.0, stopped + LONG_STOP * rig.timeout - time.monotonic()))
    victim.signal(signal.SIGCONT)
    return watch


def peer_hiccups(rig: Rig) -> Watch:
    """SIGSTOP for less than the time-out: all wait, and no peer is dropped."""
    victim = rig.anyone()
    with rig.watch() as watch:
        victim.signal(signal.SIGSTOP)
        time.sleep(HICCUP * rig.timeout)
        victim.signal(signal.SIGCONT)
        rig.train_together()
    return watch


def peer_slow(rig: Rig) -> Watch:
    """A peer takes ten times as long for a gradient."""
    victim = rig.anyone()
    with rig.watch() as watch:
        victim.tell("slow")
        time.sleep(SLOW)
        victim.tell("fast")
        rig.train_together()
    return watch


def broker_restarted(rig: Rig) -> Watch:
    """SIGKILL of the broker; later, another one starts at its address, and joiners find it."""
    with rig.watch() as watch:
        rig.broker.kill()
        rig.train_together()
        rig.broker = Broker(rig.broker.address)
        rig.train_together()
    return watch


def broker_unreachable(rig: Rig, seconds: float = OUTAGE) -> Watch:
    """SIGSTOP of the broker."""
    with rig.watch() as watch:
        rig.broker.signal(signal.SIGSTOP)
        time.sleep(seconds)
        rig.train_together()
        rig.broker.signal(signal.SIGCONT)
        rig.train_together()
    return watch


def broker_unreachable_for_a_minute(rig: Rig) -> Watch:
    """SIGSTOP of the broker for so long that all peers give up their connections to it."""
    return broker_unreachable(rig, 60.0)


def broker_and_peer_killed(rig: Rig) -> Watch:
    """SIGKILL of both at once: the survivors have to wait for the next broker."""
    victim = rig.anyone()

    def harm() -> None:
        rig.broker.kill()
        victim.kill()
        rig.broker = Broker(rig.broker.address)

    return _lose(rig, victim, harm, -signal.SIGKILL)


def two_of_one_name(rig: Rig) -> Watch:
    """Start a second peer under the name of a live one: it is refused, and gives the reason in one line."""
    with rig.watch() as watch:
        twin = rig.start(rig.anyone().settings.name)
        rig.drop(twin)
        if twin.end() != 1 or "refused" not in twin.errors() or twin.errors().count("\n") > 2:
            raise Hang(f"{twin.id} ended with {twin.end()}: {twin.errors()}")
        rig.train_together()
    return watch


def _told(peer: Peer, since: int) -> list[str]:
    """Return the events of a peer after the first `since`, other than updates."""
    return [event["event"] for event in peer.read()[since:] if event["event"] != "update"]


def parameter_corrupted(rig: Rig) -> Watch:
    """Change a parameter of one replica: the checksums reveal it, and the leader's model replaces it."""
    victim = rig.follower()
    with rig.watch(victim) as watch:
        before = len(victim.read())
        victim.tell("corrupt")
        wait_until(
            lambda: _told(victim, before) == ["corrupted", "took"], f"{victim.id} is told that it differs"
        )
        rig.train_together()
    if "differ from the leader's" not in victim.errors():
        raise Hang(f"{victim.id} did not log that it had diverged")
    return watch


def clock_jumps(rig: Rig) -> Watch:
    """Let the wall clock of a peer, as Python tells it, jump by a day at every call."""
    with rig.watch() as watch:
        rig.anyone().tell("jump")
        time.sleep(SLOW)
        rig.train_together()
    return watch


FAULTS: dict[str, tuple[Fault, int]] = {  # name -> the fault, and its weight in the schedule
    "peer killed": (peer_killed, 6),
    "peer leaves": (peer_leaves, 4),
    "peer killed in a reduction": (killed_in_a_reduction, 6),
    "leader killed in a state transfer": (leader_killed_in_a_state_transfer, 4),
    "joiner killed in a state transfer": (joiner_killed_in_a_state_transfer, 4),
    "three leaders killed in a row": (leaders_killed, 2),
    "peer stopped beyond the time-out": (peer_stopped, 3),
    "peer stopped for less": (peer_hiccups, 3),
    "peer ten times slower": (peer_slow, 2),
    "broker killed and restarted": (broker_restarted, 3),
    "broker stopped for 3 s": (broker_unreachable, 1),
    "broker and peer killed": (broker_and_peer_killed, 2),
    "two peers of one name": (two_of_one_name, 2),
    "parameter corrupted": (parameter_corrupted, 2),
    "wall clock jumps": (clock_jumps, 1),
}
ONCE: dict[str, Fault] = {"broker stopped for 60 s": broker_unreachable_for_a_minute}  # in the long form
