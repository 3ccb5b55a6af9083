"""The rules of membership, on a clock that the test moves by hand."""

import heapq
import itertools

import pytest

from moolib.group.membership import MAX_BACKOFF, MAX_SYNC_ID, RETURN_TIME, Membership


class World:
    """A membership, its clock, and the epochs that it pushed."""

    def __init__(self) -> None:
        self.time, self.told, self._timers, self._count = 0.0, [], [], itertools.count()
        self.group = self.restart()

    def restart(self) -> Membership:
        self.group = Membership("g", lambda *epoch: self.told.append(epoch), self._later, lambda: self.time)
        return self.group

    def _later(self, seconds, function):
        heapq.heappush(self._timers, (self.time + seconds, next(self._count), function))

    def run(self, seconds):
        """Let time pass; return the epochs pushed in that time."""
        self.told = []
        end = self.time + seconds
        while self._timers and self._timers[0][0] <= end:
            self.time, _, function = heapq.heappop(self._timers)
            function()
        self.time = end
        return self.told

    def join(self, name, sync_id=0, roster=(), order=0, timeout=5.0, identity=None):
        return self.group.join(name, sync_id, list(roster), order, timeout, identity or {})


@pytest.fixture
def world():
    return World()


def test_changes_within_a_moment_make_one_epoch(world):
    first = world.group.sync_id
    for name in "cab":
        world.join(name)
    assert world.run(1) == [(first + 1, ["c", "a", "b"])]
    world.group.leave("c", "left")
    world.join("d", order=-1)
    assert world.run(1) == [(first + 2, ["d", "a", "b"])]


def test_a_peer_that_is_replaced_at_once_makes_a_new_epoch_of_the_same_names(world):
    world.join("a")
    (before,) = world.run(1)
    world.group.leave("a", "left")
    world.join("a")
    assert world.run(1) == [(before[0] + 1, ["a"])]


def test_the_sync_id_is_never_0(world):
    world.group.sync_id = MAX_SYNC_ID
    world.join("a")
    assert world.run(1) == [(1, ["a"])]


def test_missing_pings(world):
    world.join("a", timeout=1.0)
    world.join("b", timeout=3.0)
    ((epoch, _),) = world.run(0.9)
    assert world.group.ping("a", epoch, {})
    assert not world.group.ping("a", epoch - 1, {})  # it needs the epoch again
    world.run(0.9)
    world.group.expire()
    assert world.run(0.2) == []
    assert world.group.ping("b", epoch, {})
    world.group.expire()
    assert world.run(0.2) == [(epoch + 1, ["b"])]
    assert not world.group.ping("a", epoch, {})  # it was stopped and comes back
    world.run(3.0)
    world.group.forgive(3.0)
    world.group.expire()
    assert world.run(1) == []


def test_a_broker_that_was_cut_off_drops_nobody(world):
    for name in "abc":
        world.join(name, timeout=2.0)
    ((epoch, _),) = world.run(1)
    for name in "abc":  # at different times
        world.group.ping(name, epoch, {})
        world.run(0.1)
    for _ in range(99):
        assert world.run(0.1) == []
        world.group.expire()
    assert world.group.ping("a", epoch, {})  # the first to get through again
    for turn in range(61):  # of 0.2 s: as long as it was cut off, and the time-out
        assert world.run(0.2) == []
        assert world.group.ping("a", epoch, {})
        if turn > 40:
            assert world.group.ping("b", epoch, {})
        world.group.expire()  # in the end c, which did not come back
    assert world.run(0.2) == [(epoch + 1, ["a", "b"])]


def test_a_member_that_announces_itself_again_and_again_makes_one_epoch(world):
    for name in "aab":
        world.join(name)
    assert len(world.run(1)) == 1
    for name in "abb":
        world.join(name)  # sent before the epoch came
    assert world.run(1) == []
    assert not world.group.ping("a", 0, {})  # a member that missed the epoch gets it again


def test_a_newcomer_does_not_wait_for_members_that_were_silent_before_it_came(world):
    world.join("a", timeout=2.0)
    ((epoch, _),) = world.run(10)
    world.group.expire()
    assert world.run(1) == []
    world.join("b", timeout=2.0)
    world.group.expire()
    assert world.run(1) == [(epoch + 1, ["b"])]


def test_failed_reductions_back_off_while_the_roster_stays(world):
    world.join("a")
    world.join("b")
    world.run(1)
    for _ in range(30):
        world.group.report("a", world.group.sync_id)
        world.group.report("b", world.group.sync_id)
        world.group.report("b", world.group.sync_id - 1)  # of a past epoch
        assert len(world.run(MAX_BACKOFF)) == 1
    world.group.report("a", world.group.sync_id)
    assert world.run(MAX_BACKOFF * 0.9) == []
    world.run(MAX_BACKOFF)
    world.join("c")
    assert len(world.run(0.01)) == 1
    world.group.report("a", world.group.sync_id)
    assert len(world.run(0.01)) == 1


def test_a_restarted_broker_takes_over_the_epoch(world):
    for name in "abc":
        world.join(name)
    (epoch,) = world.run(1)
    world.restart()
    for name in "cab":
        world.join(name, *epoch)
        assert world.run(0.1) == []
    assert world.run(RETURN_TIME * 2) == []
    assert (world.group.sync_id, world.group.roster) == epoch
    world.join("d")
    assert world.run(1) == [(epoch[0] + 1, ["a", "b", "c", "d"])]


def test_a_member_that_does_not_come_back_to_a_restarted_broker_is_dropped(world):
    world.join("b", 7, ["a", "b", "c"])
    world.join("c", 7, ["a", "b", "c"])
    world.join("d")
    assert world.run(RETURN_TIME * 0.9) == []
    assert world.run(RETURN_TIME) == [(8, ["b", "c", "d"])]


def test_a_failed_reduction_shortens_the_wait_for_missing_members(world):
    world.join("b", 7, ["a", "b"])
    world.group.report("b", 7)
    assert world.run(RETURN_TIME / 2) == [(8, ["b"])]


def test_peers_of_different_epochs_meet_in_a_new_one(world):
    world.join("a", 7, ["a", "b"])
    world.join("b", 6, ["b"])
    assert [roster for _, roster in world.run(1)] == [["a", "b"]]
    assert world.group.sync_id > 7


def test_a_different_model_is_refused(world):
    world.join("a", identity={"model": "3 weights"})
    world.run(1)
    conflict = world.join("b", identity={"model": "4 weights"})
    assert (conflict.member, conflict.accumulator, conflict.description) == ("a", "model", "3 weights")
    assert world.run(1) == []
    assert world.join("c", identity={"other": "4 weights"}) is None
    assert world.join("a", world.group.sync_id, identity={"model": "5 weights"}) is None  # its own may change
