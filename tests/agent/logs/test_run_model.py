"""The model of a run: the published figures, mlsysim itself, and inputs that cannot be used."""

import dataclasses
import math

import pytest
import yaml

from agent.errors import ScenarioError
from agent.logs.run_model import ParallelSimRunScenario, describe, from_settings, preset, units
from agent.storage.paths import SCENARIOS

INPUTS = {
    "robots": 4096,
    "steps_per_update": 24,
    "updates": 1500,
    "training_time": units.Quantity(20, "min"),
    "policy_rate": units.Quantity(50, "Hz"),
}


def test_published_values_of_the_registry():
    scenario = ParallelSimRunScenario(**INPUTS)
    assert scenario.batch == 98_304
    assert scenario.samples == 147_456_000
    assert scenario.throughput == units.Quantity(122_880, "1/s")
    assert str(scenario.throughput.units) == "1 / second"
    assert scenario.simulated_experience.magnitude == pytest.approx(
        34.1333, abs=5e-5
    )  # 147,456,000 / 50 / 86,400
    assert str(scenario.simulated_experience.units) == "day"
    assert scenario.time_for(1e6).magnitude == pytest.approx(0.135634, abs=5e-7)  # 1e6 / 122,880 / 60
    assert str(scenario.time_for(1e6).units) == "minute"


def test_a_run_worked_out_by_hand_in_other_units():
    """2 robots x 3 steps x 5 updates in 0.01 hours at 100 per minute."""
    scenario = ParallelSimRunScenario(
        robots=2,
        steps_per_update=3,
        updates=5,
        training_time=units.Quantity(0.01, "hour"),  # 36 s
        policy_rate=units.Quantity(100, "1/min"),
    )
    assert (scenario.batch, scenario.samples) == (6, 30)
    assert scenario.throughput.magnitude == pytest.approx(30 / 36)
    assert scenario.simulated_experience.magnitude == pytest.approx(18 / 86_400)  # 30 steps of 0.6 s
    assert scenario.time_for(60).magnitude == pytest.approx(1.2)


def test_whole_run_takes_its_training_time():
    scenario = ParallelSimRunScenario(**INPUTS)
    assert scenario.time_for(scenario.samples).magnitude == pytest.approx(20)


def test_mlsysim_agrees():
    mlsysim = pytest.importorskip("mlsysim")
    published = mlsysim.Scenarios.LeggedGymQuadrupedRun
    settings = {
        "training_time": str(published.training_time),
        "policy_rate": str(published.policy_rate),
        **{name: getattr(published, name) for name in ("robots", "steps_per_update", "updates")},
    }
    assert from_settings(settings) == from_settings(preset("legged_gym"))
    for changes in ({}, {"robots": 7}, {"steps_per_update": 5, "updates": 11}):
        theirs, ours = published.model_copy(update=changes), from_settings(settings | changes)
        assert (ours.batch, ours.samples) == (theirs.batch, theirs.samples)
        for name in ("throughput", "simulated_experience"):
            assert getattr(ours, name).magnitude == getattr(theirs, name).magnitude
            assert str(getattr(ours, name).units) == str(getattr(theirs, name).units)
        assert ours.time_for(3e7).magnitude == theirs.time_for(3e7).magnitude


def test_inputs_are_keywords_and_fixed():
    with pytest.raises(TypeError):
        ParallelSimRunScenario(*INPUTS.values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        ParallelSimRunScenario(**INPUTS).robots = 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"robots": 0}, "robots=0: must be a whole number greater than 0"),
        ({"steps_per_update": -24}, "steps_per_update=-24: must be a whole number greater than 0"),
        ({"updates": 1.5}, "updates=1.5: must be a whole number greater than 0"),
        ({"updates": True}, "updates=True: must be"),
        ({"training_time": 20}, "training_time=20: must be a time with its unit, such as '20 min'"),
        ({"training_time": units.Quantity(20, "m")}, "training_time=20 meter: must be a time"),
        ({"training_time": units.Quantity(-1, "s")}, "training_time=-1 second: must be greater than 0"),
        ({"training_time": units.Quantity(math.inf, "s")}, "must be greater than 0 and finite"),
        ({"training_time": units.Quantity(math.nan, "s")}, "must be greater than 0 and finite"),
        ({"policy_rate": units.Quantity(0, "Hz")}, "policy_rate=0 hertz: must be greater than 0"),
        ({"policy_rate": units.Quantity(20, "ms")}, "policy_rate=20 millisecond: must be a rate"),
    ],
)
def test_wrong_inputs_are_one_line(changes, message):
    with pytest.raises(ScenarioError) as caught:
        ParallelSimRunScenario(**INPUTS | changes)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_settings_need_all_keys_and_no_others():
    settings = preset("legged_gym")
    with pytest.raises(ScenarioError, match=r"^robot: unknown; known are robots, steps_per_update"):
        from_settings(settings | {"robot": 1})
    with pytest.raises(ScenarioError, match=r"^policy_rate is missing"):
        from_settings(settings | {"policy_rate": None})


def test_presets_have_the_published_sizes():
    assert from_settings(preset("legged_gym")) == ParallelSimRunScenario(**INPUTS)
    unitree = preset("unitree_rl_gym")
    assert unitree.pop("training_time") is None
    assert unitree == {"robots": 4096, "steps_per_update": 24, "updates": 1500, "policy_rate": "50 Hz"}


def test_preset_files_have_the_same_commented_keys():
    for path in SCENARIOS.glob("*.yaml"):
        names = ["name", *(field.name for field in dataclasses.fields(ParallelSimRunScenario))]
        assert list(yaml.safe_load(path.read_text())) == names
        assert all("#" in line for line in path.read_text().splitlines() if not line.startswith("name:"))


def test_description():
    assert describe(from_settings(preset("legged_gym")), steps=1e8).splitlines() == [
        "robots                      4,096",
        "steps per update            24",
        "updates                     1,500",
        "training time               20 min",
        "policy rate                 50 Hz",
        "batch                       98,304 policy steps per update",
        "samples                     147,456,000 policy steps",
        "throughput                  122,880 policy steps/s "
        "(a lower bound if the training time is an upper bound)",
        "simulated experience        34.13 days",
        "time for 100,000,000 steps  13.56 min",
    ]
