"""Modeled against measured: a log worked out by hand, and every mistake in one line."""

import json
import re
from pathlib import Path

import pytest
from agent.logs.record import TsvLog

from agent.logs.columns import columns
from agent.logs.metadata import write_metadata
from agent.logs.run_summary import read
from agent.scenario import main

CONFIG = {
    "algorithm": {"epochs": 2},
    "unroll_length": 10,
    "warmup": 3.0,
    "env": {"physics": {"timestep": 0.005, "decimation": 4}},
}
FIRST = {  # 4 updates of 100 sequences on average, asked for were 80
    "time": 2.0, "step": 3000, "updates": 4, "virtual_batch_size": 80, "transitions": 2000,
    "gradient_batch_size": 100, "gradient_batch_size_min": 80, "gradient_batch_size_max": 120,
    "num_skipped": 0.5, "dropped_gradients": 0, "falls": 3, "timeouts": 1, "blowups": 0,
    "share_acting": 0.5, "share_waiting": 0.1, "share_learning": 0.2, "share_reducing": 0.0,
}  # fmt: skip
IDLE = FIRST | {  # an interval without updates
    "time": 3.0, "step": 3000, "gradient_batch_size": float("nan"), "gradient_batch_size_min": float("nan"),
    "gradient_batch_size_max": float("nan"), "num_skipped": float("nan"), "falls": 0, "timeouts": 0,
}  # fmt: skip
LAST = FIRST | {  # 6 more of 90: 1 x 540 + 4 x 100 sequences in all, x 10 steps / 2 epochs
    "time": 5.0, "step": 5700, "updates": 10, "transitions": 4700,
    "gradient_batch_size": 90, "gradient_batch_size_max": 100, "num_skipped": 0.0, "dropped_gradients": 1,
    "falls": 0, "timeouts": 5, "blowups": 1, "share_acting": 0.0,
}  # fmt: skip


def write(directory: Path, rows=(FIRST, IDLE, LAST), config=CONFIG) -> Path:
    log = TsvLog(directory / "logs.tsv", columns(()))
    for row in rows:
        log.write(row)
    log.close()
    write_metadata(directory / "meta.json", config)
    return directory / "logs.tsv"


def test_a_log_is_summed_up(tmp_path):
    run = read(write(tmp_path))
    assert (run.seconds, run.step, run.transitions, run.updates) == (5.0, 5700, 4700, 10)
    assert run.batch_size == pytest.approx((94.0, 80.0, 120.0))  # (4 x 100 + 6 x 90) / 10
    assert run.transitions == pytest.approx(94.0 * 10 * 10 / 2)
    assert run.skipped == pytest.approx(0.2)  # (4 x 0.5 + 6 x 0) / 10
    assert run.ended == {"falls": 3, "timeouts": 6, "blowups": 1}
    assert run.shares["acting"] == pytest.approx(0.3)  # 2 s and 1 s of 5 s at a half
    assert run.policy_rate == pytest.approx(50.0)


def shown(capsys, *arguments: str) -> dict[str, list[str]]:
    """What the calculator prints: quantity to the cells that follow it."""
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    cells = [re.split(r"  +", line) for line in lines]
    return {name: rest for name, *rest in cells}


def test_modeled_against_measured_line_by_line(tmp_path, capsys):
    rows = shown(capsys, "--from", str(write(tmp_path)))
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


def test_a_published_run_against_ours(tmp_path, capsys):
    rows = shown(capsys, "legged_gym", "steps=1e6", f"from={write(tmp_path)}")
    assert rows["policy steps learned from"][:2] == ["147,456,000", "4,700"]
    minutes = rows["minutes for 1,000,000 steps"]
    assert minutes[:2] == ["0.1356", "17.73"]  # 1e6 / (4700 / 5) / 60


def test_single_settings_replace_those_of_the_run(tmp_path, capsys):
    rows = shown(capsys, f"--from={write(tmp_path)}", "training_time=10 s")
    assert rows["training time, s"][:3] == ["10", "5", "0.500"]
    assert rows["learned from per second"][:2] == ["400", "940"]


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
def test_a_log_that_cannot_be_used_is_one_line(tmp_path, capsys, spoil, message):
    log = write(tmp_path)
    spoil(log)
    assert main(["--from", str(log)]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("agent.scenario: ") and message in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from"], "--from: write settings as key=value, and a log as --from logs.tsv"),
        (["unitree_rl_gym", "--from", "LOG"], "training_time is missing"),
        (["--from", "LOG", "updates=0"], "updates=0: must be a whole number"),
        (["--form", "LOG"], "--form: write settings as key=value"),
    ],
)
def test_a_wrong_command_is_one_line(tmp_path, capsys, arguments, message):
    log = str(write(tmp_path))
    assert main([log if word == "LOG" else word for word in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1


def test_no_update_yet_is_one_line(tmp_path, capsys):
    log = write(tmp_path, rows=[FIRST | {"updates": 1}])
    assert main(["--from", str(log)]) == 1
    assert "there is no whole update yet" in capsys.readouterr().err


def test_a_link_to_a_log_is_followed(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "logs.tsv").symlink_to(write(tmp_path / "run"))
    assert read(tmp_path / "logs.tsv").updates == 10
