"""Results of section C that the tests share."""

import pytest

from envs.lab import throughput


def _row(engine: str, state: str, robots: int, threads: int, per_second: float) -> dict:
    kind = dict(engine=engine, state=state, robots=robots, threads=threads)
    return kind | {"per_second": per_second, "per_processor_second": per_second / threads}


@pytest.fixture
def rows() -> list[dict]:
    return [
        _row(throughput.LOOP, "standing", 1, 1, 7e4),
        _row(throughput.LOOP, "training", 1, 1, 6e4),
        *(
            _row("herd", state, n, t, 1e4 * n * t)
            for state in throughput.STATES
            for n in (1, 8)
            for t in (1, 2)
        ),
    ]
