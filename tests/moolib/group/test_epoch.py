"""One roster, and the stores with which its members connect."""

from datetime import timedelta

import pytest

from moolib.group.epoch import Epoch


def epoch(published=None):
    publish = published.append if published is not None else None
    return Epoch(7, ["b", "a", "c"], "a", lambda *what: publish(what))


def test_rank_and_size_follow_the_roster():
    one = epoch()
    assert (one.sync_id, one.rank, one.size, one.over) == (7, 1, 3, False)


def test_values_are_published_and_received_by_channel():
    published = []
    one = epoch(published)
    one.rendezvous("model").set("key", b"ours")
    assert published == [(7, "model/key", b"ours")]
    one.receive("other/key", b"theirs")
    assert one.rendezvous("other").get("key") == b"theirs"
    assert one.rendezvous("model").get("key") == b"ours"


def test_channels_may_have_any_name():
    published = []
    one, other = epoch(published), epoch()
    for channel in ("a/b", "a", "%", "a%2Fb", "\udce9", ""):
        one.rendezvous(channel).set("x/y", channel.encode(errors="replace"))
    for _, key, value in published:
        other.receive(key, value)
    for channel in ("a/b", "a", "%", "a%2Fb", "\udce9", ""):
        other.rendezvous(channel).wait(["x/y"], timedelta(seconds=5))
        assert other.rendezvous(channel).get("x/y") == channel.encode(errors="replace")


def test_the_end_of_the_epoch_ends_all_waiting_now_and_later():
    one = epoch()
    early = one.rendezvous("early")
    one.end()
    assert one.over
    for store in (early, one.rendezvous("late")):
        with pytest.raises(RuntimeError, match="rendezvous ended"):
            store.get("key")
