"""The normaliser against moments of known data."""

import torch

from agent.models.normalizer import Normalizer

OBS = 5


def test_normalizer_gives_mean_0_and_variance_1_of_all_that_was_added():
    data = torch.randn(1000, 2, OBS) * 3.0 + 5.0
    normalizer = Normalizer(OBS)
    before = normalizer(data[0])
    normalizer.add_moments(Normalizer.moments(data[:400]))
    normalizer.add_moments(Normalizer.moments(data[400:]))
    torch.testing.assert_close(normalizer(data[0]), before)  # not in use before apply_moments()
    normalizer.apply_moments()
    normal = normalizer(data).reshape(-1, OBS)
    torch.testing.assert_close(normal.mean(0), torch.zeros(OBS), atol=1e-4, rtol=0)
    torch.testing.assert_close(normal.var(0, unbiased=False), torch.ones(OBS), atol=1e-3, rtol=0)


def test_normalizer_keeps_a_constant_observation_finite():
    normalizer = Normalizer(1)
    normalizer.add_moments(Normalizer.moments(torch.full((10, 1), 3.0)))
    normalizer.apply_moments()
    assert normalizer(torch.full((1, 1), 3.0)).item() == 0.0
    assert abs(normalizer(torch.full((1, 1), 1e9)).item()) == Normalizer.MAX_DEVIATIONS
