"""Shares of the wall clock by hand."""

from agent.logs.timer import Timer


def test_a_timer_counts_the_inner_activity_only(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("agent.logs.timer.time.perf_counter", lambda: now[0])
    timer = Timer()
    with timer("acting"):
        now[0] += 2.0
        with timer("learning"):
            now[0] += 1.0
        now[0] += 1.0
    now[0] += 4.0
    shares = timer.shares()
    assert shares == {"acting": 3 / 8, "waiting": 0.0, "learning": 1 / 8, "reducing": 0.0}
    now[0] += 1.0
    assert set(timer.shares().values()) == {0.0}
