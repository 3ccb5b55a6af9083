"""Statistics: their order in checkpoints, sums over the group, and the same sums on a device."""

from dataclasses import fields

import numpy as np
import pytest
import torch

from agent.training.statistics import DeviceStatistics, GroupStatistics, Statistics, ratio
from envs import StepResult, make_pool
from rigs.go2_tasks import task


def test_the_order_is_that_of_checkpoints():
    """obs_dim 3, two reward terms: ten scalars, 2 terms, 5 metrics, 1 + 2 * 3 moments."""
    sizes = Statistics.sizes(3, 2)
    assert sizes == [1] * 10 + [2, 5, 7]
    assert [field.name for field in fields(Statistics)] == [
        "vector", "steps", "episodes", "falls", "timeouts", "blowups", "episode_return", "episode_length",
        "lin_vel_error", "yaw_rate_error", "policy_lag", "reward_terms", "metrics", "obs_moments",
    ]  # fmt: skip
    numbers = Statistics.of(np.arange(24.0), sizes)
    assert numbers.policy_lag.tolist() == [9.0] and numbers.reward_terms.tolist() == [10.0, 11.0]
    assert numbers.mean_metrics(2).kl == 7.5  # element 12 + 3
    assert np.isnan(numbers.mean_metrics(0).kl) and np.isnan(ratio(1.0, 0.0))
    numbers.steps += 5
    assert numbers.vector[0] == 5.0


def test_sums_come_back_as_sums_over_the_group_after_a_mean_over_contributions():
    first, second = GroupStatistics(1, 2), GroupStatistics(1, 2)
    first.pending.steps += 10
    first.pending.reward_terms += np.array([1.0, 2.0])
    first.pending.steps += 5
    second.pending.steps += 7
    first.parameter.grad = (first.take() + second.take()) / 2
    assert first.reduced(2).steps.tolist() == [22.0]
    assert first.reduced(2).reward_terms.tolist() == [1.0, 2.0]
    assert not first.take().any(), "no contribution holds the same sums again"


@pytest.fixture
def results():
    """Thirty steps of robots whose episodes end by falls and time-outs."""
    pool = make_pool(task("go2", episode__length=0.2), batch_size=16, num_batches=1, seed=0, num_threads=1)
    rng = np.random.default_rng(0)

    def steps():
        for _ in range(30):
            yield pool.step(0, (2 * rng.normal(size=(16, 12))).astype(np.float32)).result()

    yield pool, steps()
    pool.close()


def test_on_a_device_they_are_those_of_the_host(results):
    pool, steps = results
    host, device = (GroupStatistics(pool.obs_dim, len(pool.reward_names)) for _ in range(2))
    there = DeviceStatistics(device, len(pool.reward_names), torch.device("cpu"))
    for result in steps:
        host.add_step(result)
        there.add_step(
            StepResult(**{f.name: torch.from_numpy(getattr(result, f.name)) for f in fields(result)[:-1]})
        )
    assert not device.pending.vector.any(), "nothing is handed over before the flush"
    there.flush()
    expected = host.pending.vector.copy()
    np.testing.assert_allclose(device.pending.vector, expected, rtol=1e-5)
    assert (expected != 0).sum() > 10 and host.pending.episodes > 0
    there.flush()
    np.testing.assert_allclose(device.pending.vector, expected, rtol=1e-5)
