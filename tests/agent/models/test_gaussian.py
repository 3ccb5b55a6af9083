"""The distribution over actions against torch.distributions."""

import torch
from torch.distributions import Independent, Normal

from agent.models.gaussian import entropy, log_prob, log_prob_of_noise


def test_log_prob_and_entropy_are_those_of_torch():
    mean, action, log_std = torch.randn(3, 4), torch.randn(3, 4), torch.randn(4)
    distribution = Independent(Normal(mean, log_std.exp()), 1)
    torch.testing.assert_close(log_prob(mean, log_std, action), distribution.log_prob(action))
    torch.testing.assert_close(entropy(log_std), distribution.entropy()[0])


def test_the_density_of_noise_is_that_of_its_action():
    mean, noise, log_std = torch.randn(3, 4), torch.randn(3, 4), torch.randn(4)
    action = mean + log_std.exp() * noise
    torch.testing.assert_close(log_prob_of_noise(noise, log_std), log_prob(mean, log_std, action))
