"""The configuration tree: every preset is valid, every mistake ends in one line that names the key."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent.cli.overrides import compose
from agent.config import ConfigError, differences, from_omegaconf
from agent.experiment import CONF


@pytest.mark.parametrize("env", ["go2", "go2_unitree"])
@pytest.mark.parametrize("algorithm", ["ppo", "vtrace"])
@pytest.mark.parametrize("model", ["mlp", "lstm"])
def test_every_combination_of_presets_is_valid(env, algorithm, model):
    config = from_omegaconf(compose(f"env={env}", f"algorithm={algorithm}", f"model={model}"))
    assert config.algorithm.name == algorithm
    assert config.model.name == model


def test_every_key_is_explained_by_a_comment():
    keys = 0
    for path in sorted(CONF.rglob("*.yaml")):
        settings = path.read_text().split("\nhydra:")[0]
        for line in settings.splitlines():
            if re.match(r"\s*(?!name:|defaults:)\w+: +[^#\s]", line):
                assert "#" in line, f"{path.name}: {line}"
                keys += 1
    assert keys > 100


def test_the_key_file_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("HERD_KEY_FILE", "/keys/herd")
    assert from_omegaconf(compose()).key_file == "/keys/herd"
    assert from_omegaconf(compose("key_file=/keys/other")).key_file == "/keys/other"
    monkeypatch.setenv("HERD_KEY_FILE", "")
    assert from_omegaconf(compose()).key_file is None


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("batch_size=0", "batch_size=0"),
        ("batch_size=100", "batch_size=100: must be a divisor"),
        ("unroll_length=-1", "unroll_length=-1"),
        ("algorithm.discounting=1.5", "algorithm.discounting=1.5: must be finite and >= 0 and <= 1"),
        (
            "algorithm.optimizer.schedule=cosine",
            "algorithm.optimizer.schedule='cosine': must be one of constant, linear, adaptive",
        ),
        ("model.hidden_sizes=[]", "model.hidden_sizes=[]"),
        ("model.hidden_sizes=[16,15]", "model.hidden_sizes=[16, 15]: must be even with model.mirror"),
        ("precision=fp8", "precision='fp8': must be one of auto, float32, tf32, bf16"),
        ("precision=tf32", "precision=tf32: must be auto, float32 or bf16 on a CPU"),
        ("actor_batch_size=many", "actor_batch_size"),
        ("group=a/b", "group=a/b"),
    ],
)
def test_a_bad_value_is_one_line_that_names_the_key(override, named):
    with pytest.raises(ConfigError) as error:
        from_omegaconf(compose(override))
    assert named in str(error.value)
    assert "\n" not in str(error.value)


def test_names_alone_and_in_a_group():
    alone = from_omegaconf(compose())
    assert re.fullmatch(r"\d{8}-\d{6}", alone.group)
    assert Path(alone.localdir).parent.parent == Path(alone.savedir)
    first, second = (from_omegaconf(compose("connect=127.0.0.1:1")) for _ in range(2))
    assert first.group == second.group == "default"
    assert first.local_name != second.local_name
    assert first.train_id == "herd/default"


@pytest.mark.parametrize(
    "override", ["actr_batch_size=3", "algorithm=a3c", "algorithm.clipp=1", "batch_size=x"]
)
def test_the_command_stops_in_one_line(override, tmp_path):
    command = [sys.executable, "-m", "agent.experiment", override]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1, result.stderr
    assert override.split("=")[0].split(".")[-1] in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_where_robots_may_live():
    config = from_omegaconf(compose("env.backend=warp", "device=cuda:3"))
    assert (config.env.backend, config.env.device) == ("warp", "cuda:3")
    assert from_omegaconf(compose("env.backend=warp", "env.device=cpu")).env.device == "cpu"
    assert from_omegaconf(compose()).env.device is None
    config = from_omegaconf(compose("machine=gpu", "env=go2_unitree", "device=cuda:1"))
    assert (config.env.name, config.env.backend, config.env.device) == ("go2_unitree", "warp", "cuda:1")
    assert (config.sequences, config.batch_size, config.unroll_length) == (4096, 1024, 16)
    with pytest.raises(ConfigError, match=r"env\.device=cuda:0: must be null with env\.backend=mjbatch"):
        from_omegaconf(compose("env.device=cuda:0"))
    with pytest.raises(ConfigError, match=r"env\.backend='brax': must be one of mjbatch, warp"):
        from_omegaconf(compose("env.backend=brax"))


def test_differences_name_the_key_and_both_values():
    ours = {"algorithm": {"clip": 0.2, "epochs": 5}, "unroll_length": 24}
    theirs = {"algorithm": {"clip": 0.3, "epochs": 5}, "unroll_length": 24}
    assert differences(ours, theirs) == ["algorithm.clip=0.2 (there: 0.3)"]
    assert differences(ours, ours) == []


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("group=..", "group=..: must be a name of its own"),
        ("group=.", "group=.: must be a name of its own"),
        ("project=..", "project=..: must be a name of its own"),
        ("local_name=..", "local_name=..: must be a name of its own"),
        ("group=../x", "group=../x: must be a name without '/'"),
        (f"local_name={'ü' * 128}", "must be a file name: at most 255 bytes"),
        (f"group={'g' * 196}", "must be shorter: PROJECT/GROUP has 201 characters, at most 200"),
        ("virtual_batch_size=20000000", "virtual_batch_size=20000000: must be at most 16777216"),
        ("connect=host", "connect=host: no port"),
        ("connect=::1", "connect=::1: no port"),
        ("connect=host:http", "connect=host:http: 'http' is not a port"),
    ],
)
def test_names_sizes_and_addresses_that_cannot_work_are_refused(override, message):
    with pytest.raises(ConfigError) as error:
        from_omegaconf(compose(override))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_names_up_to_the_limit_and_addresses_of_every_form():
    config = from_omegaconf(
        compose(f"group={'g' * 195}", "connect=[::1]:4431", "virtual_batch_size=16777216")
    )
    assert (len(config.train_id), config.connect) == (200, "[::1]:4431")


def test_names_that_look_like_numbers_stay_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("12e5", "true", "2026", "0x10", "1_0", "007"):
        config = from_omegaconf(compose(f"group={name}", f"savedir={name}", f"project={name}"))
        assert (config.group, config.project) == (name, name)
        assert config.savedir == str(tmp_path / name)
    composed = compose()
    composed.savedir = composed.project = 2026  # as a file of settings may have it
    config = from_omegaconf(composed)
    assert (config.project, config.savedir) == ("2026", str(tmp_path / "2026"))
