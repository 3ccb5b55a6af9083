"""What may happen to a group of peers. Each fault is injected, watched and repaired again."""

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
    """A peer goes, the others go on, and another one comes."""
    with rig.watch(victim) as watch:
        harm()
        if victim.end() != status:
            raise Hang(f"{victim.id} ended with {victim.end()}, not {status}: {victim.said()}")
        rig.drop(victim)
        rig.train_together()
    return watch


def peer_killed(rig: Rig) -> Watch:
    """SIGKILL at any moment."""
    victim = rig.anyone()
    return _lose(rig, victim, victim.kill, -signal.SIGKILL)


def peer_leaves(rig: Rig) -> Watch:
    """SIGTERM: it says good-bye."""
    victim = rig.anyone()
    return _lose(rig, victim, lambda: victim.signal(signal.SIGTERM), 0)


def killed_in_a_reduction(rig: Rig) -> Watch:
    """SIGKILL while the gradients are being added."""
    victim = rig.anyone()
    return _lose(rig, victim, lambda: victim.tell("die in a reduction"), -signal.SIGKILL)


def leader_killed_in_a_hand_over(rig: Rig) -> Watch:
    """SIGKILL of the leader while a joiner takes its model."""
    victim = rig.leader()

    def harm() -> None:
        victim.tell("die in a hand-over")
        rig.start()

    return _lose(rig, victim, harm, -signal.SIGKILL)


def joiner_killed_in_a_hand_over(rig: Rig) -> Watch:
    """SIGKILL of a peer that takes the model."""
    victim = rig.start()
    victim.tell("die in a hand-over")
    return _lose(rig, victim, lambda: None, -signal.SIGKILL)


def leaders_killed(rig: Rig) -> Watch:
    """The leader is killed, and its successors as soon as they lead."""
    longest = Watch()
    for _ in range(LEADERS):
        victim = rig.leader()
        watch = _lose(rig, victim, victim.kill, -signal.SIGKILL)
        longest.pause = max(longest.pause, watch.pause)
    return longest


def peer_stopped(rig: Rig) -> Watch:
    """SIGSTOP for longer than the time-out: dropped, and back after SIGCONT."""
    victim = rig.anyone()
    with rig.watch(victim) as watch:
        victim.signal(signal.SIGSTOP)
        stopped = time.monotonic()
        rig.train_together([one for one in rig.peers if one is not victim])
    time.sleep(max(0.0, stopped + LONG_STOP * rig.timeout - time.monotonic()))
    victim.signal(signal.SIGCONT)
    return watch


def peer_hiccups(rig: Rig) -> Watch:
    """SIGSTOP for less than the time-out: all wait, and nobody is dropped."""
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
    """SIGKILL of the broker; after a while there is another one at its address, and a joiner finds it."""
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
    """SIGSTOP of the broker, for so long that all connections to it are given up."""
    return broker_unreachable(rig, 60.0)


def broker_and_peer_killed(rig: Rig) -> Watch:
    """Both at once: the survivors have to wait for the next broker."""
    victim = rig.anyone()

    def harm() -> None:
        rig.broker.kill()
        victim.kill()
        rig.broker = Broker(rig.broker.address)

    return _lose(rig, victim, harm, -signal.SIGKILL)


def two_of_one_name(rig: Rig) -> Watch:
    """A second peer takes the name of a live one: it is refused and says why in one line."""
    with rig.watch() as watch:
        twin = rig.start(rig.anyone().settings.name)
        rig.drop(twin)
        if twin.end() != 1 or "refused" not in twin.said() or twin.said().count("\n") > 2:
            raise Hang(f"{twin.id} ended with {twin.end()}: {twin.said()}")
        rig.train_together()
    return watch


def _told(peer: Peer, since: int) -> list[str]:
    """What else than updates a peer has logged since it had so many events."""
    return [event["event"] for event in peer.read()[since:] if event["event"] != "update"]


def parameter_corrupted(rig: Rig) -> Watch:
    """A bit of a replica changes by itself: found by the checksums, and cured from the leader."""
    victim = rig.follower()
    with rig.watch(victim) as watch:
        before = len(victim.read())
        victim.tell("corrupt")
        wait_until(
            lambda: _told(victim, before) == ["corrupted", "took"], f"{victim.id} is told that it differs"
        )
        rig.train_together()
    if "differ from the leader's" not in victim.said():
        raise Hang(f"{victim.id} did not log that it had diverged")
    return watch


def clock_jumps(rig: Rig) -> Watch:
    """The wall clock of a peer, as Python tells it, jumps by a day at every look."""
    with rig.watch() as watch:
        rig.anyone().tell("jump")
        time.sleep(SLOW)
        rig.train_together()
    return watch


FAULTS: dict[str, tuple[Fault, int]] = {  # name -> the fault, and how often it comes compared with others
    "peer killed": (peer_killed, 6),
    "peer leaves": (peer_leaves, 4),
    "peer killed in a reduction": (killed_in_a_reduction, 6),
    "leader killed in a hand-over": (leader_killed_in_a_hand_over, 4),
    "joiner killed in a hand-over": (joiner_killed_in_a_hand_over, 4),
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
