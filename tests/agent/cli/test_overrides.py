"""Command lines of training are checked before Hydra sees them."""

import os
import subprocess
import sys

import pytest

from agent.cli.overrides import check, compose, prepare
from agent.cli.sweep import choices
from agent.config import from_omegaconf
from agent.errors import ConfigError
from agent.storage.paths import REPOSITORY


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["seed=1,2"], "seed=1,2: several values are several runs: add -m; a list is written seed=[1,2]"),
        (["-m", "seed=1,x"], "seed='x': must be a whole number"),
        (["-m", "sed=1,2"], "sed: unknown key; did you mean seed?"),
        (["total_step=1"], "total_step: unknown key; did you mean total_steps?"),
        (["algorithm.learning_rate=1"], "did you mean algorithm.optimizer.learning_rate"),
        (["learning_rate=1"], "did you mean algorithm.optimizer.learning_rate"),
        (["alogrithm=ppo"], "alogrithm: unknown key; did you mean algorithm?"),
        (["qqqqq=1"], "qqqqq: unknown key; the keys are those of conf/config.yaml"),
        (["--multrun", "seed=1,2"], "--multrun: unknown flag; did you mean --multirun?"),
        (["--frobnicate"], "--frobnicate: unknown flag; write settings as key=value"),
        (["--config-dir"], "--config-dir: needs a value"),
        (["-m", "seed"], "seed: write settings as key=value"),
        (["-m", "env=go2,spot"], "Could not find 'env/spot'"),
        (["-m", "seed=1,2", "savedir=here"], "savedir=here: with -m each run needs its own"),
        (["-m", "seed=1,2", "connect=127.0.0.1:1"], "group=null: with connect and -m each run needs its own"),
    ],
)
def test_a_mistake_is_one_line_before_the_first_run(arguments, message):
    with pytest.raises(ConfigError) as caught:
        check(arguments, several=arguments[0] == "-m")
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_directories_that_differ_are_allowed():
    check(["-m", "seed=1,2", "savedir=runs/${seed}"], several=True)
    check(["-m", "seed=1,2", "connect=127.0.0.1:1", "group=s${seed}"], several=True)


def test_settings_are_composed():
    composed = compose("env=go2_unitree", "seed=7")
    assert (composed.env.name, composed.seed, composed.algorithm.name) == ("go2_unitree", 7, "ppo")


def test_a_directory_of_ones_own_configuration_is_searched(tmp_path):
    (tmp_path / "algorithm").mkdir()
    (tmp_path / "algorithm" / "mine.yaml").write_text("defaults: [ppo, _self_]\n")
    check(["--config-dir", str(tmp_path), "algorithm=mine"])
    with pytest.raises(ConfigError, match="algorithm/mine"):
        check(["algorithm=mine"])


ODD = [
    "Müller (a) b", "a=b", "#a", "[a]", "{a", "a;b", "it's", "a&b", "~", "$HOME", "a,b",
    'a"b', "a\\", "a\\'b",
    "12e5", "2026", "true", "1_000", "-1", "[::1]:4431", "key=a:b", "*", " a ",
]  # fmt: skip


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize(
    "key", ["savedir", "localdir", "key_file", "group", "connect", "advertise", "entity"]
)
def test_names_and_paths_are_taken_literally(key, text):
    assert compose(f"{key}={text}")[key] == text
    check([f"{key}={text}"])
    (prepared,) = prepare([f"{key}={text}"])
    assert prepare([prepared]) == [prepared]


def test_quotes_interpolations_and_null_keep_their_meaning():
    assert compose("savedir='a b'").savedir == "a b"
    assert compose('group="a,b"').group == "a,b"
    assert compose("savedir=runs (a)/${seed}", "seed=7").savedir == "runs (a)/7"
    assert compose("group=null").group is None
    assert compose("model.hidden_sizes=[8,8]").model.hidden_sizes == [8, 8]


@pytest.mark.parametrize(
    ("swept", "groups"),
    [
        ("group=a,b", ["a", "b"]),
        ("group=12e5, true", ["12e5", "true"]),
        ("group='a,b',c d", ["a,b", "c d"]),
        ("group=s${seed},x", ["s1", "x"]),
        ("group=choice(a,b)", ["a", "b"]),
        ("group=range(1,3)", ["1", "2"]),
    ],
)
def test_names_can_be_swept(swept, groups):
    _, *settings = prepare(["-m", swept])
    assert [from_omegaconf(compose(*choice)).group for choice in choices(settings)] == groups


def test_home_is_expanded_in_paths_alone(monkeypatch):
    monkeypatch.setenv("HOME", "/home/müller")
    config = from_omegaconf(compose("savedir=~/runs", "localdir=~", "key_file=~/key", "group=~"))
    assert (config.savedir, config.localdir) == ("/home/müller/runs", "/home/müller")
    assert (config.key_file, config.group) == ("/home/müller/key", "~")


def test_flags_may_stand_anywhere(tmp_path, monkeypatch):
    assert prepare(["seed=1,2", "-m", "env=go2"]) == ["-m", "seed=1,2", "env=go2"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/anna")
    assert prepare(["b=1", "--config-dir", "a=b", "-c", "job"]) == [
        f"--config-dir={tmp_path}/a=b", "--cfg=job", "b=1",
    ]  # fmt: skip
    assert prepare(["--config-dir=~/c", "--cfg=job"]) == ["--config-dir=/home/anna/c", "--cfg=job"]


@pytest.mark.parametrize("name", ["it's", "a=b", "Müller (a) b", "a\\'b"])
def test_a_directory_of_configuration_may_have_any_name(tmp_path, name):
    (tmp_path / name / "algorithm").mkdir(parents=True)
    (tmp_path / name / "algorithm" / "mine.yaml").write_text("defaults: [ppo, _self_]\n")
    check([f"--config-dir={tmp_path / name}", "algorithm=mine"])
    check(["--config-dir", str(tmp_path / name), "algorithm=mine"])
    command = [
        sys.executable,
        "-m",
        "agent.experiment",
        "--cfg=job",
        f"--config-dir={name}",
        "algorithm=mine",
    ]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert shown.returncode == 0 and "total_steps: " in shown.stdout, shown.stderr
