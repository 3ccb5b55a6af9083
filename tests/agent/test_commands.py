"""What all commands have in common: help with examples, and Ctrl-C at any moment."""

import dataclasses
import importlib
import re
import signal
import subprocess
import sys

import pytest

from plots import command as plot

COMMANDS = ["evaluate", "play", "export", "playground", "scenario", "a2c", "doctor", "launch"]


@pytest.mark.parametrize("name", [*(f"agent.{name}" for name in ["experiment", *COMMANDS]), "moolib.broker"])
def test_help_has_examples(name, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    main = importlib.import_module(name).main
    try:
        assert not (main() if name == "agent.experiment" else main(["--help"]))
    except SystemExit as end:
        assert end.code == 0
    lines = capsys.readouterr().out.splitlines()
    examples = [line for line in lines if line.strip().startswith(f"python -m {name}")]
    assert len(examples) >= 2
    assert max(map(len, lines)) <= 115


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_every_option_and_says_what_it_does(name, capsys):
    module = importlib.import_module(f"agent.{name}")
    assert module.main(["--help"]) == 0
    listed = capsys.readouterr().out.split("\nOptions, as key=value or --key value:\n\n")[1]
    options = module.Config if name == "a2c" else module.Options
    names = [field.name.removesuffix("_") for field in dataclasses.fields(options)]
    assert re.findall(r"^    (\w+)  +\S", listed, re.M) == names


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_key_is_one_line_and_status_2(name, capsys):
    assert importlib.import_module(f"agent.{name}").main(["no_such_key=1"]) == 2
    captured = capsys.readouterr()
    start = f"agent.{name}: no_such_key=1: unknown key; allowed are "
    assert captured.out == "" and captured.err.startswith(start) and captured.err.count("\n") == 1


def test_the_plots_help_has_examples(capsys):
    with pytest.raises(SystemExit):
        plot.main(["--help"])
    assert capsys.readouterr().out.count("\n  python plot.py ") >= 5


def test_the_help_of_training_explains_every_key(capsys, monkeypatch):
    from agent import experiment
    from agent.config import Config

    monkeypatch.setattr(sys, "argv", ["agent.experiment", "--help"])
    experiment.main()
    out = capsys.readouterr().out
    groups = {"env", "algorithm", "model", "scenario"}
    assert [key for key in Config.__dataclass_fields__ if key not in groups and f"\n{key}: " not in out] == []


def test_ctrl_c_while_a_command_imports_leaves_no_traceback(tmp_path):
    (tmp_path / "pint.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    program = [sys.executable, "-m", "agent.scenario", "legged_gym"]
    environment = {"PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}"}
    with subprocess.Popen(program, stdout=-1, stderr=-1, text=True, env=environment) as process:
        try:
            assert process.stdout.readline() == "importing\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == -signal.SIGINT
            assert process.stderr.read() == ""
        finally:
            process.kill()
