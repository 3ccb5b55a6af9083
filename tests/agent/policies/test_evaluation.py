"""The evaluation: its task, and robots that stand or fall."""

import math

import pytest

from agent.errors import ConfigError
from agent.policies import evaluation
from rigs import untrained_policies as policies
from rigs.go2_tasks import task


@pytest.mark.parametrize("name", ["go2", "go2_unitree"])
def test_menagerie_is_another_physics_at_the_same_policy_rate(name):
    config = task(name)
    here, there = evaluation.evaluation_task(config, "train"), evaluation.evaluation_task(config, "menagerie")
    assert here.physics == config.physics
    assert (there.physics.variant, there.physics.timestep, there.physics.decimation) == (
        "menagerie",
        0.002,
        10,
    )
    assert there.control == here.control == config.control
    assert here.randomization.friction == config.randomization.friction
    assert there.randomization.friction is None
    assert not here.observations.noise and not there.observations.noise
    assert there.terminations.base_contact == 1.0
    with pytest.raises(ConfigError, match=r"0\.002 s do not fit the policy's of 0\.015 s"):
        evaluation.evaluation_task(task(name, physics__timestep=0.005, physics__decimation=3), "menagerie")


@pytest.fixture(scope="module")
def motionless():
    """The report of a policy whose actions are 0, so that every robot stands where it is."""
    calm = ["env.randomization.joint_damping=null", "env.physics.timestep=0.005", "env.physics.decimation=4"]
    policy = policies.trained(0.0, *calm)
    return evaluation.evaluate(policy.policy, policy.env, robots=1)


def test_a_robot_that_stands_errs_by_its_command(motionless):
    for (vx, vy, yaw_rate), found in zip(evaluation.COMMANDS, motionless.per_command, strict=True):
        assert found.velocity_error == pytest.approx(math.hypot(vx, vy), abs=0.02)
        assert found.yaw_rate_error == pytest.approx(abs(yaw_rate), abs=0.02)
    # the squares of the nine commands' speeds sum to 2.22 (m/s)^2, those of their yaw rates to 1.53
    assert motionless.overall.velocity_error == pytest.approx(math.sqrt(2.22 / 9), abs=0.005)
    assert motionless.overall.yaw_rate_error == pytest.approx(math.sqrt(1.53 / 9), abs=0.005)


def test_a_robot_that_stands_does_not_walk(motionless):
    found = motionless.overall
    assert found.falls == 0
    assert found.seconds == pytest.approx(9 * 8.0)  # of 10 s the first 2 s do not count
    assert found.duty == pytest.approx([1.0] * 4)
    assert found.clearance == [None] * 4
    assert 0.25 < found.height < 0.35
    assert found.power < 1.0


def bent(joints, action):
    """A policy that holds some joints at a constant action."""
    policy = policies.trained(0.0)
    policy.policy.mirror = False
    policy.policy.actor[-1].bias[joints] = action
    return policy


@pytest.mark.parametrize("physics", ["train", "menagerie"])
def test_robots_fall_that_lift_their_left_legs(physics, monkeypatch):
    monkeypatch.setattr(evaluation, "SECONDS", 1.5)
    policy = bent([0, 1, 6, 7], 4.0)
    report = evaluation.evaluate(policy.policy, policy.env, physics, robots=1)
    assert all(found.falls > 0 for found in report.per_command)


def test_robots_fall_that_sink_into_a_floor_which_their_belly_cannot_touch(monkeypatch):
    monkeypatch.setattr(evaluation, "SECONDS", 1.5)
    policy = bent([1, 2, 7, 8], -4.0)
    report = evaluation.evaluate(policy.policy, policy.env, robots=1)
    assert all(found.falls > 0 for found in report.per_command)


def test_pushes_upset_a_robot_that_stands(monkeypatch):
    policy = policies.trained(0.0)
    monkeypatch.setattr(evaluation, "SECONDS", 3.0)
    pushed = evaluation.evaluate(policy.policy, policy.env, robots=1, push=1.0).overall
    assert pushed.slip > 0.01
    assert pushed.falls > 0 or pushed.velocity_error > 0.505
