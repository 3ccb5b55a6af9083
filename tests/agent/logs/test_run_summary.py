"""Modeled against measured: a log worked out by hand, and every mistake in one line."""

import json
import re
from pathlib import Path

import pytest

from agent.errors import LogError
from agent.logs.run_model import from_settings
from agent.logs.run_summary import compare, describe, read
from rigs.run_logs import FIRST, write_run


def test_a_log_is_summed_up(tmp_path):
    run = read(write_run(tmp_path))
    assert (run.seconds, run.step, run.transitions, run.updates) == (5.0, 5700, 4700, 10)
    assert run.batch_size == pytest.approx((94.0, 80.0, 120.0))  # (4 x 100 + 6 x 90) / 10
    assert run.transitions == pytest.approx(94.0 * 10 * 10 / 2)
    assert run.skipped == pytest.approx(0.2)  # (4 x 0.5 + 6 x 0) / 10
    assert run.ended == {"falls": 3, "timeouts": 6, "blowups": 1}
    assert run.shares["acting"] == pytest.approx(0.3)  # 2 s and 1 s of 5 s at a half
    assert run.policy_rate == pytest.approx(50.0)


def shown(log: Path, **changes: str) -> dict[str, list[str]]:
    """The table of a run against the model as it was asked for: quantity to the cells behind it."""
    run = read(log)
    lines = describe(compare(from_settings(run.as_asked_for() | changes), run)).splitlines()[1:]
    cells = [re.split(r"  +", line) for line in lines]
    return {name: rest for name, *rest in cells}


def test_modeled_against_measured_line_by_line(tmp_path):
    rows = shown(write_run(tmp_path))
    # asked for: 80 sequences x 10 steps x 5 updates = 4000 policy steps in 5 s
    overshoot = "overshoot: updates held 80 to 120, at least 80 asked for"
    assert rows["robots (sequences per update)"] == ["80", "94", "1.175", overshoot]
    assert rows["policy steps learned from"] == [
        "4,000", "4,700", "1.175", "the three lines above",
    ]  # fmt: skip
    assert rows["policy steps simulated"] == [
        "4,000",
        "5,700",
        "1.425",
        "1,000 were not learned from: 3 s of warm-up at each start, and rollouts that were not finished or "
        "came too late",
    ]
    assert rows["updates"][-1] == "10 optimizer steps over 2 epochs, 1 of them dropped"
    assert rows["learned from per second"] == ["800", "940", "1.175"]
    assert rows["contributions left out"][:2] == ["-", "0.2"]
    assert rows["episodes ended"] == [
        "-", "10", "3 falls, 6 time-outs, 1 blow-ups; the model knows no resets",
    ]  # fmt: skip


def test_the_model_may_differ_from_what_was_asked_for(tmp_path):
    rows = shown(write_run(tmp_path), training_time="10 s")
    assert rows["training time, s"][:3] == ["10", "5", "0.500"]
    assert rows["learned from per second"][:2] == ["400", "940"]


def test_the_time_of_other_steps(tmp_path):
    run = read(write_run(tmp_path))
    name, modeled, here, _ = compare(from_settings(run.as_asked_for()), run, steps=1e6)[-1]
    assert name == "minutes for 1,000,000 steps"
    assert modeled == pytest.approx(1e6 / 800 / 60)  # 4000 policy steps were asked for in 5 s
    assert here == pytest.approx(1e6 / (4700 / 5) / 60)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda log: log.unlink(), "logs.tsv: No such file or directory"),
        (lambda log: log.write_bytes(b"\xff\xfe\n"), "logs.tsv: no text file"),
        (lambda log: log.write_text(""), "no log of a training: it has no column time"),
        (lambda log: log.write_text("time\tstep\n1\t2\n"), "it has no column updates"),
        (lambda log: log.write_text(log.read_text().split("\n")[0] + "\n"), "there is no row yet"),
        (lambda log: log.write_text(log.read_text().replace("4700", "many")), "damaged: a cell is no number"),
        (lambda log: log.write_text(log.read_text() + "6\n"), "or a row is too short"),
        (lambda log: (log.parent / "meta.json").unlink(), "meta.json: missing; it lies beside the log"),
        (lambda log: (log.parent / "meta.json").write_text("{"), "meta.json: damaged"),
        (lambda log: (log.parent / "meta.json").write_text(json.dumps({"config": {}})), "meta.json: damaged"),
    ],
)
def test_a_log_that_cannot_be_used_is_one_line(tmp_path, spoil, message):
    log = write_run(tmp_path)
    spoil(log)
    with pytest.raises(LogError) as caught:
        read(log)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_no_update_yet_is_one_line(tmp_path):
    log = write_run(tmp_path, rows=[FIRST | {"updates": 1}])
    with pytest.raises(LogError, match="there is no whole update yet"):
        read(log)


def test_a_link_to_a_log_is_followed(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "logs.tsv").symlink_to(write_run(tmp_path / "run"))
    assert read(tmp_path / "logs.tsv").updates == 10
