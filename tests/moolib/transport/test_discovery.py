"""Peers find each other through a common one."""

from __future__ import annotations

import gc

from rigs.rpcs import named, serving


def test_peers_find_each_other_through_a_common_one():
    broker, address = serving("broker")
    one, two = named("one", address), named("two", address)
    one.define("name", lambda: "one")
    two.define("name", lambda: "two")
    assert (one.sync("two", "name"), two.sync("one", "name")) == ("two", "one")
    assert "two" in one.debug_info()["peers"]
    assert all(a.startswith("127.0.0.1:") for a in two.debug_info()["listening"])
    del broker
    gc.collect()
    assert one.sync("two", "name") == "two"


def test_peers_that_listen_are_found_where_they_do():
    _broker, address = serving("broker")
    one, two = named("one", address), named("two", address)
    two.define("name", lambda: "two")
    where = two.listen("*:0")
    assert one.sync("two", "name") == "two"
    assert two.debug_info()["listening"] == [where]
