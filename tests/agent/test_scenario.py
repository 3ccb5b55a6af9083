"""The calculator: what it prints, and the user's mistakes in one line."""

import re
import subprocess
import sys

import pytest

from agent.scenario import main
from rigs.run_logs import FIRST, write_run


@pytest.mark.parametrize(
    "arguments",
    [
        ["robots=4096", "steps_per_update=24", "updates=1500", "training_time=20 min", "policy_rate=50 Hz"],
        [
            "--robots",
            "4096",
            "--steps_per_update=24",
            "updates=1500",
            "training_time=20 min",
            "policy_rate=50 Hz",
        ],
        ["legged_gym"],
        ["unitree_rl_gym", "training_time=1200 s"],
    ],
)
def test_calculator(capsys, arguments):
    assert main(arguments) == 0
    assert "122,880 policy steps/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "robots is missing"),
        (["nobody"], "nobody: no published run; there are legged_gym, unitree_rl_gym"),
        (["none"], "none: no published run"),
        (["unitree_rl_gym"], "training_time is missing"),
        (["legged_gym", "robots"], "robots: write options as key=value"),
        (["legged_gym", "robot=3"], "robot=3: unknown key; allowed are published, robots, steps_per_update"),
        (["legged_gym", "robots=many"], "robots=many: must be a whole number greater than 0"),
        (["legged_gym", "robots=-1"], "robots=-1: must be"),
        (["legged_gym", "training_time=20"], "must be a time with its unit"),
        (["legged_gym", "training_time=20 kg"], "training_time=20 kilogram: must be a time"),
        (["legged_gym", "training_time=-20 min"], "training_time=-20 minute: must be greater than 0"),
        (["legged_gym", "training_time=soon"], "training_time=soon: no quantity; write it as '20 min'"),
        (["legged_gym", "training_time=1/0"], "training_time=1/0: no quantity"),
        (["legged_gym", "policy_rate=50 s"], "policy_rate=50 second: must be a rate"),
        (["legged_gym", "steps=0"], "steps=0: must be a number greater than 0"),
        (["legged_gym", "steps=all"], "steps=all: must be a number greater than 0"),
    ],
)
def test_calculator_stops_users_mistakes_in_one_line(capsys, arguments, message):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("agent.scenario: ") and message in captured.err
    assert captured.err.count("\n") == 1


def test_calculator_as_a_command():
    command = [sys.executable, "-m", "agent.scenario"]
    result = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and "python -m agent.scenario legged_gym steps=1e8" in result.stdout
    result = subprocess.run([*command, "legged_gym", "updates=0"], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "agent.scenario: updates=0: must be a whole number greater than 0\n"


def shown(capsys, *arguments: str) -> dict[str, list[str]]:
    """What the calculator prints: quantity to the cells that follow it."""
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    cells = [re.split(r"  +", line) for line in lines]
    return {name: rest for name, *rest in cells}


def test_a_published_run_against_ours(tmp_path, capsys):
    rows = shown(capsys, "legged_gym", "steps=1e6", f"from={write_run(tmp_path)}")
    assert rows["policy steps learned from"][:2] == ["147,456,000", "4,700"]
    minutes = rows["minutes for 1,000,000 steps"]
    assert minutes[:2] == ["0.1356", "17.73"]  # 1e6 / (4700 / 5) / 60


def test_single_settings_replace_those_of_the_run(tmp_path, capsys):
    rows = shown(capsys, f"--from={write_run(tmp_path)}", "training_time=10 s")
    assert rows["training time, s"][:3] == ["10", "5", "0.500"]
    assert rows["learned from per second"][:2] == ["400", "940"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from"], "--from: needs a value, as in from=value"),
        (["unitree_rl_gym", "--from", "LOG"], "training_time is missing"),
        (["--from", "LOG", "updates=0"], "updates=0: must be a whole number"),
        (["--form", "LOG"], "form: unknown key; allowed are"),
    ],
)
def test_a_wrong_command_is_one_line(tmp_path, capsys, arguments, message):
    log = str(write_run(tmp_path))
    assert main([log if word == "LOG" else word for word in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err and captured.err.count("\n") == 1


def test_a_log_that_cannot_be_used_ends_with_status_1(tmp_path, capsys):
    log = write_run(tmp_path, rows=[FIRST | {"updates": 1}])
    assert main(["--from", str(log)]) == 1
    assert capsys.readouterr().err == f"agent.scenario: {log}: there is no whole update yet\n"
