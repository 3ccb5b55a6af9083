"""Rollouts as checkpoints hold them, and the minibatches that they are cut into."""

import torch

from agent.algorithms.rollout import Minibatch, Rollout, minibatches


def test_minibatches_are_whole_unrolls_and_each_epoch_holds_every_sequence_once():
    sequences = torch.arange(6.0).expand(3, 6)
    batch = Minibatch(*[sequences] * 7, hidden=(torch.arange(6.0),))
    parts = list(minibatches(batch, 2, epochs=2, generator=torch.Generator().manual_seed(0)))
    assert [part.obs.shape for part in parts] == [(3, 2)] * 6
    orders = [torch.cat([p.obs[0] for p in parts[i : i + 3]]) for i in (0, 3)]
    assert all(sorted(order.tolist()) == list(range(6)) for order in orders)
    assert orders[0].tolist() != orders[1].tolist()
    assert all(torch.equal(p.hidden[0], p.obs[2]) for p in parts)


def test_a_rollout_comes_back_from_the_names_that_checkpoints_have_always_had():
    rollout, other = (Rollout.allocate(2, 3, 5, 1, torch.device("cpu")) for _ in range(2))
    rollout.is_first[1, 2] = True
    rollout.hidden = (torch.ones(3, 4),)
    state = rollout.state_dict()
    assert set(state) == {
        "obs", "start", "action", "log_prob", "reward", "terminated", "truncated", "final_obs", "version",
        "memory",
    }  # fmt: skip
    other.load_state_dict(state)
    assert torch.equal(other.is_first, rollout.is_first) and torch.equal(other.hidden[0], rollout.hidden[0])
    rollout.is_first[:] = False
    assert other.is_first.any(), "a copy"
