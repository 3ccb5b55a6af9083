"""A log, the command, and a run of two peers."""

import pytest

from plots import command
from tests.plots.made_runs import write, write_peer


@pytest.fixture
def log(tmp_path):
    return write(tmp_path / "logs.tsv", [(1000 * i, 2 * i, 50 - i) for i in range(51)])


@pytest.fixture
def plot(monkeypatch, capsys):
    """Return a function that runs plot.py on an 80 x 24 terminal: status, output and error output."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def call(*arguments):
        try:
            status = command.main([str(argument) for argument in arguments])
        except SystemExit as exit:
            status = exit.code
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def run(tmp_path):
    """Return the directory of a run of two peers, whose updates hold 12 sequences of 10 steps, not 8."""
    rows = [
        {
            "time": 60 * i, "step": 3000 * i, "updates": 20 * i, "peers": 1 + (i > 1), "leader": 1,
            "mean_episode_return": i / 2, "episodes": 4, "falls": 1, "lin_vel_error": 0.5 / i,
            "virtual_batch_size": 8, "gradient_batch_size": 12, "gradient_batch_size_min": 8,
            "gradient_batch_size_max": 16, "transitions": 2400 * i, "modeled_transitions": 1600 * i,
            "modeled_throughput": 1600 / 60, "steps_per_second": 50, "share_acting": 0.5,
            "share_learning": 0.25, "checksum": f"aa{i}", "checksum_updates": 20 * i,
            "modeled_simulated_experience_days": 0.01, "local_steps": 2000 * i, "local_steps_per_second": 33,
            "dropped_gradients": 0, "num_skipped": 0, "timeouts": 3, "blowups": 0, "share_waiting": 0,
            "share_reducing": 0,
        }
        for i in range(1, 4)
    ]  # fmt: skip
    later = [{**rows[i], "leader": 0, "checksum": checksum} for i, checksum in ((1, "aa2"), (2, "bb3"))]
    versions = {"python": "3.11.7", "packages": {"torch": "2.13"}, "git_commit": "f00d", "host": "vm"}
    write_peer(tmp_path / "run" / "peers" / "first", rows, **versions)
    write_peer(tmp_path / "run" / "peers" / "second", later)
    return tmp_path / "run"
