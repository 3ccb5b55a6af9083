"""Waiting for groups, within the process of a test."""

import time


def until(groups, condition, timeout=10.0):
    """Update the groups until the condition is true."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        for group in groups:
            group.update()
        time.sleep(0.001)


def gather(groups):
    until(groups, lambda: len({(g.sync_id(), len(g.members())) for g in groups}) == 1 and all_in(groups))


def all_in(groups):
    return len(groups[0].members()) == len(groups)
