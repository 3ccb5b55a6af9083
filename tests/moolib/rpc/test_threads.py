"""The threads of the handlers."""

from __future__ import annotations

import threading

import moolib
from rigs.rpcs import named, serving


def test_the_number_of_handlers_that_run_at_a_time():
    server, address = serving()
    client = named("client", address)
    running, most, lock = [0], [0], threading.Lock()

    def work():
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        together.wait(10)  # this many must run at a time
        with lock:
            running[0] -= 1

    server.define("work", work)
    try:
        for limit in (2, 5, 1):
            together = threading.Barrier(limit)
            moolib.set_max_threads(limit)
            most[0] = 0
            for future in [client.async_("server", "work") for _ in range(3 * limit)]:
                future.result()
            assert most[0] == limit  # and no more may
    finally:
        moolib.set_max_threads(16)
