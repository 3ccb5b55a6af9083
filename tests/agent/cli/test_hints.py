"""The lines that are printed for the user to type are command lines that the commands accept."""

import os
import shlex
import subprocess
import sys

from agent import evaluate, export, play
from agent.cli import arguments, hints
from agent.cli.overrides import check, compose
from agent.config import from_omegaconf
from agent.storage.paths import REPOSITORY
from plots import command as plot

ODD = "Müller (a) b=#[{;'&~$,"


def words(line: str) -> list[str]:
    """The arguments of a printed line, behind `python -m NAME`."""
    python, flag, _, *rest = shlex.split(line)
    assert (python, flag) == ("python", "-m")
    return rest


def test_what_to_type_after_training(tmp_path, monkeypatch):
    directory = tmp_path / ODD
    monkeypatch.chdir(tmp_path)
    to_plot, to_evaluate, to_play, to_export = hints.after_training(
        f"{ODD}/checkpoint.safetensors", f"{ODD}/logs.tsv"
    )
    assert to_plot.startswith("python -m plot ")
    assert [str(path) for path in plot.parse_arguments(words(to_plot)).files] == [f"{directory}/logs.tsv"]
    for line, command in ((to_evaluate, evaluate), (to_play, play), (to_export, export)):
        assert line.startswith(f"python -m {command.__name__} ")
        options = arguments.parse(command.Options, words(line))
        assert options.checkpoint == f"{directory}/checkpoint.safetensors"


def test_plot_is_a_module_that_runs_from_any_directory(tmp_path):
    run = subprocess.run(
        [sys.executable, *shlex.split(hints.plot("--help"))[1:]],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0 and "usage" in run.stdout


def test_how_to_join_and_to_go_on():
    assert hints.join("127.0.0.1:4431", "herd", "go2") == (
        "python -m agent.experiment connect=127.0.0.1:4431 project=herd group=go2"
    )
    check(words(hints.join("127.0.0.1:4431", "herd", "a b; $(c)")))
    settings = shlex.split(hints.resume(f"/tmp/{ODD}", "12e5", "anna"))
    check(settings)
    config = from_omegaconf(compose(*settings))
    assert (config.savedir, config.group, config.local_name) == (f"/tmp/{ODD}", "12e5", "anna")
