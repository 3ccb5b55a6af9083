"""The command line of the commands: options, help, errors and exit statuses."""

import dataclasses
import errno
import os
from typing import Annotated, Literal

import pytest

from agent.cli import arguments
from agent.cli.arguments import option
from agent.errors import CheckpointError, ConfigError
from envs.schema import Bounds


@dataclasses.dataclass(frozen=True)
class Options:
    checkpoint: str = option("latest", "file to read")
    robots: Annotated[int, Bounds(low=1)] = option(64, "how many")
    port: Annotated[int, range(65536)] = option(8080, "where to listen")
    push: float = option(0.5, "m/s")
    kind: Literal["train", "menagerie"] = option("train", "physics " + 30 * "that is explained at length ")
    command: tuple[float, float, float] | None = option(None, "vx, vy, yaw rate")
    sizes: tuple[int, ...] = option((1, 2), "whole numbers")
    json: bool = option(False, "for programs")
    meshes: bool = option(True, "shown")
    out: str | None = option(None, "file to write")
    from_: str | None = option(None, "a key that is a keyword")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], {}),
        (["checkpoint=a=b/c.x", "--robots", "8", "--json", "--out=x.mp4"],
         {"checkpoint": "a=b/c.x", "robots": 8, "json": True, "out": "x.mp4"}),
        (["json=true", "meshes=false", "--push", "-1e-1"], {"json": True, "meshes": False, "push": -0.1}),
        (["command=[0.5,0,-1]", "sizes=7"], {"command": (0.5, 0.0, -1.0), "sizes": (7,)}),
        (["--sizes", "[4, 5,6]", "command=null"], {"sizes": (4, 5, 6), "command": None}),
        (["out=x", "out=null", "--from", "logs.tsv"], {"out": None, "from_": "logs.tsv"}),
        (["checkpoint=2026", "out=12e5"], {"checkpoint": "2026", "out": "12e5"}),
        (["checkpoint="], {"checkpoint": ""}),
    ],
)  # fmt: skip
def test_options_are_key_value_pairs_or_flags(given, expected):
    assert arguments.parse(Options, given) == Options(**expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("robot=8", "robot=8: unknown key; allowed are checkpoint, robots, port, push, kind, command, sizes, "
         "json, meshes, out, from"),
        ("--robot", "robot: unknown key; allowed are checkpoint,"),
        ("robots=many", "robots='many': must be a whole number"),
        ("robots=0", "robots=0: must be finite and >= 1"),
        ("port=65536", "port=65536: must be from 0 to 65535"),
        ("push=nan", "push='nan': must be finite"),
        ("kind=real", "kind='real': must be one of train, menagerie"),
        ("command=[1,2]", "command=[1,2]: must be a list of 3 numbers"),
        ("command=[1,2,x]", "command[2]='x': must be a number"),
        ("sizes=[1", None),
        ("json=maybe", "json='maybe': must be true or false"),
        ("video", "video: write options as key=value"),
        ("--out", "--out: needs a value, as in out=value"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_one_line_that_names_it(given, message, capsys):
    if message is None:  # brackets need not match
        assert arguments.parse(Options, [given]).sizes == (1,)
        return
    assert arguments.command("agent.tool", Options, print, None, [given]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith(f"agent.tool: {message}")
    assert captured.err.count("\n") == 1


@dataclasses.dataclass(frozen=True)
class Positional:
    name: str | None = option(None, "of a preset", positional=True)
    other: int = option(1, "number")


def test_the_first_word_may_be_an_option_without_its_key():
    assert arguments.parse(Positional, ["go2", "other=2"]) == Positional("go2", 2)
    assert arguments.parse(Positional, ["other=2", "name=go2"]) == Positional("go2", 2)
    assert arguments.parse(Positional, ["--other", "2"]) == Positional(None, 2)
    with pytest.raises(ConfigError, match="go2: write options as key=value"):
        arguments.parse(Positional, ["other=2", "go2"])


def test_help_shows_the_documentation_and_every_option(capsys):
    assert arguments.command("agent.tool", Options, print, "Does something.\n", ["--help", "robots=x"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "Does something." and max(map(len, lines)) <= 110
    text = "\n".join(lines)
    for line in (
        "robots      how many (default: 64)",
        "push        m/s (default: 0.5)",
        "sizes       whole numbers (default: [1,2])",
        "meshes      shown (default: true)",
        "json        for programs",
        "out         file to write",
        "from        a key that is a keyword",
    ):
        assert f"\n    {line}\n" in text + "\n"


def failing(error):
    def run(options):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (ConfigError("a=1: must be 2"), 2, "a=1: must be 2"),
        (CheckpointError("x: there is\nno such checkpoint"), 1, "x: there is no such checkpoint"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out"), 1, "out: No space left on device"),
        (OSError("somewhere: refused"), 1, "somewhere: refused"),
    ],
)
def test_expected_errors_are_one_line_and_a_status(capsys, error, status, line):
    assert arguments.command("agent.tool", Options, failing(error), None, []) == status
    assert capsys.readouterr().err == f"agent.tool: {line}\n"


def test_other_statuses(capsys):
    assert arguments.command("agent.tool", Options, lambda options: None, None, []) == 0
    assert arguments.command("agent.tool", Options, lambda options: 1, None, []) == 1
    assert arguments.command("agent.tool", Options, failing(KeyboardInterrupt()), None, []) == 130
    assert capsys.readouterr().err == ""
    with pytest.raises(ZeroDivisionError):  # a mistake of the program is no mistake of the user
        arguments.command("agent.tool", Options, failing(ZeroDivisionError()), None, [])


def test_further_exceptions_may_be_expected(capsys):
    class Refused(Exception):
        pass

    def refuse():
        raise Refused("no")

    assert arguments.guard("herd", refuse, Refused) == 1
    assert capsys.readouterr().err == "herd: no\n"
