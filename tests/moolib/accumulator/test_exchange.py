"""The event that wakes the two threads of an accumulator, and the room for contributions."""

import threading

from moolib.accumulator.exchange import AutoResetEvent, Contribution, Exchange


def test_an_event_that_was_set_before_the_wait_wakes_it_once():
    event, conditions = AutoResetEvent(), iter([False, True])
    event.set()
    event.set()
    assert event.wait_for(lambda: next(conditions))
    assert not event.wait_for(lambda: False, timeout=0.01)


def test_waiting_ends_when_another_thread_makes_the_condition_true():
    event, ready = AutoResetEvent(), threading.Event()

    def make_it_true():
        ready.set()
        event.set()

    threading.Timer(0.05, make_it_true).start()
    assert event.wait_for(ready.is_set, timeout=20)


def test_a_condition_that_holds_needs_no_event():
    assert AutoResetEvent().wait_for(lambda: True, timeout=0)


def test_contributions_under_way_take_up_the_room():
    exchange = Exchange(parallel_gradients=2)
    assert exchange.has_room()
    exchange.put(Contribution(None, 0, 0, 0))
    assert exchange.has_room()
    exchange.put(Contribution(None, 0, 0, 0))
    assert not exchange.has_room()
    exchange.inbox.clear()
    exchange.busy = 2
    assert not exchange.has_room()


def test_the_program_sees_that_something_happened():
    exchange = Exchange()
    exchange.notify_all()
    exchange.notify_program()
    assert exchange.events == 2
    conditions = iter([False, True])
    assert exchange.control.wait_for(lambda: next(conditions), timeout=20)
