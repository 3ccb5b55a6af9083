"""Command lines of training are checked before Hydra sees them."""

import pytest

from agent.cli.overrides import check, compose
from agent.errors import ConfigError


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
