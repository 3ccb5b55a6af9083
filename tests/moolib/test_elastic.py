"""Training outlives its processes: a real broker, real peers, and signals to both."""

import signal
import time

import pytest

from moolib.group.membership import RETURN_TIME
from rigs.momentum_peer import MomentumPeer, train_together
from rigs.processes import Broker, Process


@pytest.fixture
def start():
    """Start processes, and kill those that are left at the end."""
    started = []

    def start(kind, *args, **kwargs):
        process = kind(*args, **kwargs)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


def test_peers_come_and_go(start):
    broker = start(Broker)
    a, b, c = (
        start(MomentumPeer, broker.address, name, seed, timeout=2.0) for seed, name in enumerate("abc")
    )
    train_together([a, b, c])

    c.kill()  # the leader, as its name is the greatest of those with equal versions
    train_together([a, b])
    c = start(MomentumPeer, broker.address, "c", 7)  # under its old name
    d = start(MomentumPeer, broker.address, "d", 8)
    train_together([a, b, c, d])

    b.signal(signal.SIGSTOP)
    train_together([a, c, d])
    b.signal(signal.SIGCONT)
    train_together([a, b, c, d])

    d.kill()
    a.kill()
    train_together([b, c])
    for peer in (b, c):
        assert "Traceback" not in peer.errors  # b may log that it was counted as a skip
    assert c.end() == 0
    train_together([b])
    assert b.end() == 0
    assert broker.end() == 0


def test_the_broker_dies_and_returns_without_a_pause(start):
    broker = start(Broker)
    peers = [start(MomentumPeer, broker.address, name, seed) for seed, name in enumerate("abc")]
    train_together(peers)
    broker.kill()
    train_together(peers, 100)
    broker = start(Broker, broker.address)
    before = time.monotonic()
    time.sleep(RETURN_TIME + 0.5)
    train_together(peers)
    assert ": sync id" not in broker.errors, "the epoch should have gone on"
    for peer in peers:
        versions = [step["version"] for step in peer.steps(before)]
        assert versions == list(range(versions[0], versions[0] + len(versions)))

    broker.kill()  # now together with a peer
    peers.pop().kill()
    start(Broker, broker.address)
    train_together(peers)


def test_the_broker_as_a_program(start):
    broker = start(Broker)
    again = start(Process, "-m", "moolib.broker", broker.address)
    assert again.wait() != 0 and len(again.errors.splitlines()) == 1 and "in use" in again.errors
    wrong = start(Process, "-m", "moolib.broker", "nonsense")
    assert wrong.wait() != 0 and len(wrong.errors.splitlines()) == 1 and "nonsense" in wrong.errors
    assert broker.end() == 0 and "Traceback" not in broker.errors
