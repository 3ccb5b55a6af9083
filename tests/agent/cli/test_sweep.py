"""Several runs in one command: a directory for each, and a table at the end."""

import json
import os
import signal
import subprocess
import sys

from rich.console import Console

from agent.cli.sweep import Outcome, choices, compared_by, table
from rigs.experiments import TINY


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
    assert f"compare them: python -m plot {sweep} --group device" in out.splitlines()
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


def test_runs_are_compared_by_the_swept_key():
    assert compared_by([["env=go2", "seed=1"], ["env=go2", "seed=2"]]) == "all"
    assert compared_by([["seed=1", "algorithm=ppo"], ["seed=2", "algorithm=vtrace"]]) == "algorithm.name"
    assert compared_by([["batch_size=64", "env=go2"], ["batch_size=128", "env=go2"]]) == "batch_size"
    assert compared_by([["seed=1"]]) == "all"
