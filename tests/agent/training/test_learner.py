"""The replica in a real group: updates from reduced quantities, and the end of a run that diverges."""

import math

import pytest
import torch

import moolib
from agent.algorithms.objective import Metrics
from agent.cli.overrides import compose
from agent.config import from_omegaconf
from agent.errors import TrainingError
from agent.logs.timer import Timer
from agent.models.policy import make_policy
from agent.training.gradient_worker import Gradient
from agent.training.learner import MAX_DROPPED_IN_A_ROW, Learner, checksum
from agent.training.statistics import GroupStatistics

OBS, ACTIONS = 5, 3
SETTINGS = (
    "model.hidden_sizes=[4]", "virtual_batch_size=8", "unroll_length=6", "model.mirror=false",
    "algorithm.epochs=2", "algorithm.optimizer.schedule=constant", "model.normalizer_interval=1",
)  # fmt: skip


@pytest.fixture
def learner():
    """A replica alone in its group, with a broker in this process."""
    broker = moolib.Broker(moolib.Rpc())
    broker.set_name("broker")
    rpc = moolib.Rpc()
    rpc.set_name("learner")
    rpc.connect(broker.listen("127.0.0.1:0"))
    config = from_omegaconf(compose(*SETTINGS))
    torch.manual_seed(0)
    policy = make_policy(config.model, OBS, ACTIONS, None)
    learner = Learner(config, policy, moolib.Group(rpc, "group"), GroupStatistics(OBS, 2), Timer())
    assert learner.wait_until_wanted()
    yield learner
    del broker


def gradient(learner, number):
    tensors = tuple(torch.full_like(p, number) for p in learner.parameters.tensors)
    return Gradient(tensors, Metrics(1.0, 2.0, 3.0, 4.0, 0.5), 8)


def contribute(learner, number):
    learner.contribute(gradient(learner, number))
    learner.wait_until_wanted()


def test_an_update_is_made_of_the_contribution_and_its_statistics(learner):
    pending = learner.statistics.pending
    pending.steps += 48
    pending.obs_moments += learner.policy.normalizer.moments(torch.full((4, OBS), 3.0)).numpy()
    before, changes = [p.detach().clone() for p in learner.parameters.tensors], learner.parameters.changes
    contribute(learner, 1e-3)
    rate = learner.config.algorithm.optimizer.learning_rate
    for old, new in zip(before, learner.parameters.tensors, strict=True):
        torch.testing.assert_close(new, old - rate, atol=1e-7, rtol=0)  # Adam's first step, along the sign
    assert learner.parameters.changes == changes + 1
    progress = learner.progress
    assert (progress.step, progress.updates, progress.transitions) == (48, 1, 8 * 6 / 2)
    assert learner.policy.normalizer.mean.tolist() == [3.0] * OBS
    (update,) = learner.take_updates()
    assert update.statistics.mean_metrics(1) == (1.0, 2.0, 3.0, 4.0, 0.5)
    assert (update.batch_size, update.num_gradients) == (8, 1) and learner.take_updates() == []


def test_a_run_of_gradients_that_are_not_finite_ends_training(learner):
    start = checksum(learner.parameters.tensors)
    for _ in range(MAX_DROPPED_IN_A_ROW - 1):
        contribute(learner, math.nan)
    assert checksum(learner.parameters.tensors) == start
    contribute(learner, 1e-3)
    after = checksum(learner.parameters.tensors)
    assert after != start and learner.progress.dropped_in_a_row == 0
    for _ in range(MAX_DROPPED_IN_A_ROW - 1):
        contribute(learner, math.inf)
    assert learner.progress.dropped == 2 * (MAX_DROPPED_IN_A_ROW - 1)
    with pytest.raises(TrainingError, match="the last 20 updates were not finite"):
        contribute(learner, math.nan)
    assert checksum(learner.parameters.tensors) == after


def test_its_state_brings_another_replica_to_the_same_next_update(learner):
    contribute(learner, 1e-3)
    state = learner.state_dict()
    assert state["settings"]["unroll_length"] == 6
    optimizer = torch.optim.Adam(learner.parameters.tensors, lr=1.0, fused=True)
    optimizer.load_state_dict(state["optimizer"])
    assert optimizer.param_groups[0]["lr"] == learner.progress.learning_rate
    learner.progress.step = 99
    learner.load_state_dict(state)
    assert learner.progress.step == 0 and learner.progress.updates == 1


def test_the_checksum_is_the_crc_of_all_bytes():
    """CRC-32 of 8 zero bytes, however they are divided among parameters."""
    assert checksum([torch.zeros(2)]) == checksum([torch.zeros(1), torch.zeros(1)]) == "6522df69"
