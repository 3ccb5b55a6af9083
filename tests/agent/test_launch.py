"""The Slurm launcher: the broker is asked first, the script is what bash and sbatch can read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent import launch
from agent.errors import ConfigError
from rigs.experiments import experiments

ROOT = Path(__file__).parents[2]


def run(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "agent.launch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60)


def test_the_script_starts_one_peer_for_each_task(tmp_path):
    settings = "group='a b' model.hidden_sizes=[64,64]"
    options = launch.Options(connect="10.0.0.1:4431", peers=3, settings=settings, partition="cpu")
    directory = tmp_path / "a place"
    directory.mkdir()
    text = launch.script(options, directory, "python")
    assert "#SBATCH --array=0-2\n" in text and "#SBATCH --partition=cpu\n" in text
    assert "#SBATCH --signal=B:TERM@60\n" in text  # the shell has become the peer by then
    python = tmp_path / "python"  # says where it is and what it was given
    python.write_text('#!/bin/bash\npwd\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    environment = {
        "SLURM_ARRAY_JOB_ID": "7",
        "SLURM_ARRAY_TASK_ID": "2",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    output = subprocess.run(["bash"], input=text, env=environment, capture_output=True, text=True, check=True)
    where, *arguments = output.stdout.splitlines()
    assert where == str(directory)
    assert arguments[:3] == ["-m", "agent.experiment", "connect=10.0.0.1:4431"]
    assert arguments[3:7] == [
        "physics_threads=4",
        "learner_threads=4",
        "group=a b",
        "model.hidden_sizes=[64,64]",
    ]
    assert arguments[7].startswith("local_name=") and arguments[7].endswith("-7-2")


def test_an_address_that_only_this_machine_reaches_is_refused():
    for address in ("127.0.0.1:4431", "localhost:4431", "[::1]:4431"):
        with pytest.raises(ConfigError, match="no other machine can reach this address"):
            launch.check_broker(address)


def test_an_address_without_a_port_is_refused():
    for address in ("somewhere", "::1", "10.0.0.1"):
        with pytest.raises(ConfigError, match=f"connect={address}: no port"):
            launch.check_broker(address)
    closed = run("connect=[::ffff:0:1]:1", "--dry")
    assert closed.returncode == 2 and "no broker answered at [::ffff:0:1]:1" in closed.stderr


def test_mistakes_are_one_line():
    missing = run("peers=2")
    assert (missing.returncode, missing.stderr) == (
        2, "agent.launch: connect: must be the broker's IP:PORT, as the nodes reach it\n",
    )  # fmt: skip
    wrong = run("connect=10.0.0.1:4431", "settings=unroll=3")
    assert wrong.returncode == 2 and "unroll" in wrong.stderr and "Traceback" not in wrong.stderr


def test_it_asks_the_broker_and_submits(tmp_path, monkeypatch, capsys):
    with experiments(tmp_path) as group:
        address = group.broker()
        monkeypatch.setattr(launch, "is_local", lambda host: False)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["launch"])
        launch.run(launch.Options(connect=address, dry=True))
        assert capsys.readouterr().out.startswith("#!/bin/bash\n#SBATCH --job-name=herd\n")
        assert not (tmp_path / "herd.sbatch").exists()
        sbatch = tmp_path / "sbatch"
        sbatch.write_text('#!/bin/bash\n[ -r "$1" ] && echo Submitted batch job 1\n')
        sbatch.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        launch.run(launch.Options(connect=address))
        assert capsys.readouterr().out == "Submitted batch job 1\n"
        sbatch.write_text("#!/bin/bash\necho no such partition >&2; exit 1\n")
        with pytest.raises(ConfigError, match=r"sbatch refuses herd\.sbatch: no such partition"):
            launch.run(launch.Options(connect=address))
    with pytest.raises(ConfigError, match="no broker answered"):
        launch.run(launch.Options(connect=address, dry=True))
