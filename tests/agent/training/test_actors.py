"""Acting alone, without learner or gradients: rollouts of known robots, and actions that are not finite."""

import math
from concurrent.futures import Future
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from agent.cli.overrides import compose
from agent.config import from_omegaconf
from agent.errors import TrainingError
from agent.logs.timer import Timer
from agent.models.gaussian import log_prob
from agent.models.policy import Policy, make_policy
from agent.training.actors import Actors
from agent.training.statistics import GroupStatistics
from envs import StepResult, make_pool
from rigs.go2_tasks import task

STEPS = 3


class CountingPool:
    """Two actor batches of two robots whose observation is their number plus ten times the step.

    Robot 1 is truncated at every second step; its final observation is then the negative one.
    """

    batch_size, num_batches, obs_dim, action_dim, reward_names, device = 2, 2, 1, 1, ("one",), None

    def __init__(self):
        self.steps, self.actions = [0, 0], []

    def _obs(self, i):
        return np.array([[2 * i], [2 * i + 1]], np.float32) + 10 * self.steps[i]

    def reset(self, i):
        return self._obs(i)

    def step(self, i, actions):
        self.steps[i] += 1
        self.actions.append((i, actions))
        robots, cut = np.arange(2) + 2 * i, self.steps[i] % 2 == 0
        truncated = (robots == 1) & cut
        zeros, future = np.zeros(2, np.float32), Future()
        result = StepResult(
            obs=self._obs(i), reward=robots + zeros, terminated=zeros > 0, truncated=truncated,
            final_obs=-self._obs(i), episode_return=zeros + 7, episode_length=zeros.astype(int) + 2,
            lin_vel_error=zeros + 0.5, yaw_rate_error=zeros, reward_terms=np.array([1.5]), diverged=zeros > 0,
        )  # fmt: skip
        future.set_result(result)
        return future


class Doubler(Policy):
    """The mean action is twice the observation; the standard deviation is 1."""

    def __init__(self):
        torch.nn.Module.__init__(self)
        self.log_std = torch.nn.Parameter(torch.zeros(1))
        self.normalizer = make_policy(
            from_omegaconf(compose("model.mirror=false")).model, 1, 1, None
        ).normalizer

    def act(self, obs, is_first, hidden):
        return 2 * obs, hidden


@pytest.fixture
def actors():
    generator = torch.Generator().manual_seed(0)
    return Actors(CountingPool(), Doubler(), GroupStatistics(1, 1), STEPS, generator, Timer())


def test_a_rollout_holds_what_the_robots_did(actors):
    versions = iter([5, 6, 7, 8])
    shares = list(actors.collect(lambda: next(versions)))
    assert shares == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3, 2 / 3, 1, 1, 1])
    rollout = actors.rollout
    assert rollout.obs[:, :, 0].tolist() == [[10 * t + robot for robot in range(4)] for t in range(4)]
    assert rollout.reward.tolist() == [[0, 1, 2, 3]] * STEPS
    assert rollout.truncated.tolist() == [[False] * 4, [False, True, False, False], [False] * 4]
    assert rollout.is_first.tolist() == [[True] * 4, [False] * 4, [False, True, False, False], [False] * 4]
    assert rollout.final_obs[1, 1].item() == -21.0
    assert rollout.version.tolist() == [5, 6, 7]
    expected = log_prob(2 * rollout.obs[:-1], torch.zeros(1), rollout.action)
    torch.testing.assert_close(rollout.log_prob, expected)
    i, actions = actors.pool.actions[3]  # the second batch, at its second step
    assert i == 1 and torch.equal(torch.from_numpy(actions), rollout.action[1, 2:])


def test_the_next_rollout_begins_where_the_last_one_ended(actors):
    list(actors.collect(lambda: 0))
    first = actors.rollout
    list(actors.collect(lambda: 0))
    assert actors.rollout is not first
    assert torch.equal(actors.rollout.obs[0], first.obs[-1])
    assert first.obs[0, 0] == 0.0, "still valid"


def test_statistics_of_a_rollout(actors):
    list(actors.collect(lambda: 4))  # the version stays, so the lag is 0
    pending = actors.group_statistics.pending
    assert pending.steps == 12 and pending.episodes == pending.timeouts == 1 and pending.falls == 0
    assert pending.episode_return == 7 and pending.lin_vel_error == 6.0 and pending.policy_lag == 0
    assert pending.reward_terms.tolist() == [18.0]
    assert pending.obs_moments.tolist()[:2] == [12.0, 3 * 6 + 4 * 30]


def test_it_goes_on_exactly_from_its_state(actors):
    actors.pool.state_dict = lambda i: {"steps": np.array(actors.pool.steps[i])}
    actors.pool.load_state_dict = lambda i, state: actors.pool.steps.__setitem__(i, int(state["steps"]))
    list(actors.collect(lambda: 0))
    state = actors.state_dict()
    list(actors.collect(lambda: 0))
    expected = actors.rollout.action.clone()
    list(actors.collect(lambda: 0))
    actors.load_state_dict(state)
    list(actors.collect(lambda: 0))
    assert torch.equal(actors.rollout.action, expected)


def test_actions_that_are_not_finite_end_training(actors):
    actors.policy.log_std.data += math.nan
    with pytest.raises(TrainingError, match="actions are not finite"):
        list(actors.collect(lambda: 0))


def test_on_a_device_acting_reads_nothing_back():
    """On the meta device, whose numbers nobody can read: torch would raise an error."""
    config = from_omegaconf(compose("model.hidden_sizes=[16,16]"))
    real = make_pool(task("go2"), batch_size=4, num_batches=1, seed=0, num_threads=1)
    arrays = real.step(0, np.zeros((4, 12), np.float32)).result()
    tensors = {f.name: torch.from_numpy(getattr(arrays, f.name)).to("meta") for f in fields(arrays)[:-1]}
    given, answer = [], Future()
    answer.set_result(StepResult(**tensors))
    pool = SimpleNamespace(
        device="meta", batch_size=4, num_batches=1, obs_dim=real.obs_dim, action_dim=12,
        reward_names=real.reward_names, reset=lambda i: tensors["obs"],
        step=lambda i, action: given.append(action) or answer,
    )  # fmt: skip
    policy = make_policy(config.model, real.obs_dim, 12, real.mirror).to("meta")
    statistics = GroupStatistics(real.obs_dim, len(real.reward_names))
    rollout = Actors(pool, policy, statistics, 6, None, Timer(), "meta").collect(lambda: 0)
    for _ in range(7):  # all steps; the end of a rollout reads
        next(rollout)
    assert [action.device.type for action in given] == ["meta"] * 6
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        next(rollout)
    real.close()
