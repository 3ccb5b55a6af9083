"""Several runs in one command: a directory for each, a table at the end, mistakes before the first run."""

import json
import os
import signal
import subprocess
import sys

import pytest
from rich.console import Console

from agent.cli.sweep import Outcome, choices, flags_first, table
from agent.experiment import check_overrides
from rigs.settings import TINY


def start(directory, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "agent.experiment", *TINY, *arguments]
    pipes = dict(
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "120"}
    )
    return subprocess.Popen(command, cwd=directory, **pipes)


def test_each_run_has_its_directory_and_a_failing_one_stops_no_other(tmp_path):
    process = start(tmp_path, "seed=1,2", "-m", "device=cuda:7,cpu", "total_steps=96")
    out, err = process.communicate(timeout=120)
    (sweep,) = (tmp_path / "multirun").iterdir()
    for number, seed in ((1, 1), (3, 2)):  # the runs 0 and 2 are those on cuda:7
        assert (sweep / str(number) / "checkpoint.safetensors").exists()
        (meta,) = (sweep / str(number) / "peers").glob("*/meta.json")
        config = json.loads(meta.read_text())["config"]
        assert (config["seed"], config["group"]) == (seed, f"{sweep.name}-{number}")
    assert not (tmp_path / "outputs").exists()
    rows = [line for line in out.splitlines() if line.startswith("seed=")]
    assert [row.split()[:2] for row in rows] == [
        [f"seed={seed}", f"device={device}"] for seed in (1, 2) for device in ("cuda:7", "cpu")
    ]
    assert [row.split()[6] for row in rows] == ["failed", "finished"] * 2
    steps = [int(row.split()[4]) for row in rows]
    assert steps[0] == steps[2] == 0 and min(steps[1], steps[3]) >= 96
    assert "compare them: python plot.py multirun/" in out
    assert err.count("herd: device=cuda:7: must be cpu, or cuda:N") == 2 and "Traceback" not in err
    assert process.returncode == 1


def test_ctrl_c_saves_the_run_and_starts_no_other(tmp_path):
    process = start(tmp_path, "-m", "seed=1,2", "total_steps=1e9")
    for line in process.stdout:
        if line.startswith("training"):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "stopped" in out and "run 1" not in out and "Traceback" not in err
    (saved,) = (tmp_path / "multirun").glob("*/*/checkpoint.safetensors")
    assert saved.parent.name == "0"
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["seed=1,2"], "seed=1,2: several values are several runs: add -m; a list is written seed=[1,2]"),
        (["-m", "seed=1,x"], "seed='x': must be a whole number"),
        (["-m", "sed=1,2"], "Could not override 'sed'"),
        (["-m", "seed"], "seed: write settings as key=value"),
        (["-m", "env=go2,spot"], "Could not find 'env/spot'"),
        (["-m", "seed=1,2", "savedir=here"], "savedir=here: with -m each run needs its own"),
        (["-m", "seed=1,2", "connect=127.0.0.1:1"], "group=null: with connect and -m each run needs its own"),
    ],
)
def test_a_mistake_is_one_line_before_the_first_run(capsys, arguments, message):
    with pytest.raises(SystemExit):
        check_overrides(arguments, several=arguments[0] == "-m")
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("herd: ") and message in captured.err
    assert captured.err.count("\n") == 1


def test_directories_that_differ_are_allowed():
    check_overrides(["-m", "seed=1,2", "savedir=runs/${seed}"], several=True)
    check_overrides(["-m", "seed=1,2", "connect=127.0.0.1:1", "group=s${seed}"], several=True)


def test_flags_may_stand_anywhere():
    assert flags_first(["seed=1,2", "-m", "env=go2"]) == ["-m", "seed=1,2", "env=go2"]
    assert flags_first(["b=1", "--config-dir", "here", "a=2"]) == ["--config-dir", "here", "b=1", "a=2"]


def test_every_value_is_tried_once():
    found = choices(["seed=range(1,4)", "env=go2", "model=mlp,lstm", "model.hidden_sizes=[8,8]"])
    same = "env=go2", "model.hidden_sizes=[8,8]"
    assert [sorted(choice) for choice in found] == [
        sorted([*same, f"seed={seed}", f"model={model}"])
        for seed, model in ((1, "mlp"), (2, "mlp"), (3, "mlp"), (1, "lstm"))
    ]


def test_the_table_shows_the_settings_that_differ():
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    outcomes = [Outcome("/a/0", "finished", 3_000_000, 181.4, 0.05123, 0.064), Outcome("/a/1", "failed")]
    console.print(table([["env=go2", "seed=1"], ["env=go2", "seed=2"]], outcomes))
    *_, first, second = console.export_text().splitlines()
    assert first.split()[:6] == ["seed=1", "0.051", "0.064", "3,000,000", "181", "finished"]
    assert second.split()[:6] == ["seed=2", "-", "-", "0", "0", "failed"]
