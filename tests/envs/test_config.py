"""Presets load, and every mistake is one line that names the key, its value and what is allowed."""

import copy
import dataclasses

import pytest

from envs import EnvConfig, make_pool
from rigs.go2_tasks import preset, task


@pytest.mark.parametrize("name", ["go2", "go2_unitree"])
def test_presets_load_and_keep_their_values(name):
    values = preset(name)
    config = EnvConfig.from_dict(values)
    assert config.name == name and config.control_dt == pytest.approx(0.02)
    for section, keys in values.items():
        if section in ("name", "backend", "device"):
            assert getattr(config, section) == keys
            continue
        for key, value in keys.items():
            got = getattr(getattr(config, section), key)
            if key == "terms":
                got = {k: {"scale": t.scale, "noise": t.noise} for k, t in got.items()}
                value = {
                    k: {**t, "scale": tuple(t["scale"]) if isinstance(t["scale"], list) else t["scale"]}
                    for k, t in value.items()
                }
            assert got == (tuple(value) if isinstance(value, list) else value), (section, key)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.control.kp = 1.0


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("physics.variant", "mars", "env.physics.variant='mars': must be one of fast, unitree, menagerie"),
        ("physics.decimation", 2.5, "env.physics.decimation=2.5: must be a whole number"),
        ("physics.decimation", 0, "env.physics.decimation=0: must be finite and >= 1 and <= 100"),
        ("control.kp", -1, "env.control.kp=-1: must be finite and > 0"),
        ("control.kp", "strong", "env.control.kp='strong': must be a number"),
        ("control.kp", True, "env.control.kp=True: must be a number"),
        ("control.kd", float("nan"), "env.control.kd=nan: must be finite"),
        ("episode.stagger", 1, "env.episode.stagger=1: must be true or false"),
        ("commands.vx", [1, -1], "env.commands.vx=[1, -1]: must be a list [low, high] with low <= high"),
        ("commands.vx", [1], "env.commands.vx=[1]: must be a list of 2 numbers"),
        ("commands.on_probability", [0.5, 0.5, 2], "env.commands.on_probability[2]=2: must be finite"),
        ("observations.terms", {}, "env.observations.terms={}: must be a mapping with at least one key"),
        ("resets", None, "env.resets=None: must be a mapping of keys to values"),
        (
            "randomization.action_delay",
            [0, 0.05],
            "env.randomization.action_delay=[0.0, 0.05]: must be at most",
        ),
        (
            "randomization.base_mass",
            [-7, 0],
            "env.randomization.base_mass=[-7.0, 0.0]: must be more than -6.921",
        ),
        ("rewards.gravity", 1, "env.rewards.gravity=1: unknown key; allowed are times_dt"),
        ("name", True, "env.name=True: must be a text"),
    ],
)
def test_mistakes_stop_in_one_line(path, value, message):
    values = copy.deepcopy(preset("go2"))
    section, _, key = path.partition(".")
    if key:
        values[section][key] = value
    else:
        values[section] = value
    with pytest.raises(ValueError) as error:
        EnvConfig.from_dict(values)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_missing_keys_are_named():
    values = preset("go2")
    del values["gait"]["frequency"]
    with pytest.raises(ValueError, match=r"env\.gait\.frequency: missing key"):
        EnvConfig.from_dict(values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rewards__weights": {"fun": 1.0}},
            r"env\.rewards\.weights\.fun: unknown term; allowed are tracking",
        ),
        (
            {"observations__terms": {"sky": {"scale": 1.0, "noise": 0.0}}},
            r"env\.observations\.terms\.sky: unknown",
        ),
        (
            {"observations__terms": {"command": {"scale": [1.0, 2.0], "noise": 0.0}}},
            r"env\.observations\.terms\.command\.scale=\[1\.0, 2\.0\]: must be a number or a list of 3",
        ),
        ({"terminations__base_contact": 1.0}, r"env\.physics\.variant='fast': must be unitree or menagerie"),
    ],
)
def test_inconsistent_tasks_stop_in_one_line(changes, message):
    with pytest.raises(ValueError, match=message):
        make_pool(task("go2", **changes), batch_size=1, num_batches=1, seed=0, num_threads=1)
