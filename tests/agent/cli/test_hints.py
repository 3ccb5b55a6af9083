"""The lines that are printed for the user to type are command lines that the commands accept."""

import shlex

from agent import evaluate, export, play
from agent.cli import arguments, hints
from agent.cli.overrides import check
from plots import command as plot


def words(line: str) -> list[str]:
    """The arguments of a printed line, behind `python -m NAME` or `python plot.py`."""
    python, second, *rest = shlex.split(line)
    assert python == "python"
    return rest[1:] if second == "-m" else rest


def test_what_to_type_after_training():
    to_plot, to_evaluate, to_play, to_export = hints.after_training(
        "run/checkpoint.safetensors", "run/logs.tsv"
    )
    assert [str(path) for path in plot.parse_arguments(words(to_plot)).files] == ["run/logs.tsv"]
    for line, command in ((to_evaluate, evaluate), (to_play, play), (to_export, export)):
        assert line.startswith(f"python -m {command.__name__} ")
        assert arguments.parse(command.Options, words(line)).checkpoint == "run/checkpoint.safetensors"


def test_how_to_join_and_to_go_on():
    assert hints.join("127.0.0.1:4431", "herd", "go2") == (
        "python -m agent.experiment connect=127.0.0.1:4431 project=herd group=go2"
    )
    check(words(hints.join("127.0.0.1:4431", "herd", "go2")))
    check(hints.resume("outputs/herd/go2", "anna").split())
