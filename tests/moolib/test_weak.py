"""Callbacks that do not keep their object alive."""

import gc

from moolib.weak import repeat, weak


class Counter:
    def __init__(self):
        self.count = 0

    def add(self, number=1):
        self.count += number
        return 0.5


def test_a_weak_callback_does_nothing_once_its_object_is_gone():
    counter = Counter()
    add = weak(counter.add)
    assert add(3) == 0.5 and counter.count == 3
    del counter
    gc.collect()
    assert add(3) is None


def test_a_repeated_call_ends_with_its_object():
    counter, scheduled = Counter(), []
    repeat(lambda seconds, function: scheduled.append((seconds, function)), counter.add)
    for _ in range(3):
        scheduled.pop()[1]()
    assert counter.count == 3 and [seconds for seconds, _ in scheduled] == [0.5]
    del counter
    gc.collect()
    scheduled.pop()[1]()
    assert scheduled == []
