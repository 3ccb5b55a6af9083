"""Symmetric layers against hand-computed numbers, and a whole network against its mirror image."""

import torch
from torch import nn

from agent.models.equivariant import EquivariantHead, EquivariantLinear, Reflection

FLIP = Reflection(torch.tensor([1, 0, 2]), torch.tensor([1.0, 1.0, -1.0]))  # two change places, one its sign


def reflect(x, reflection):
    return x[..., reflection.index] * reflection.sign


def test_a_hidden_layer_by_hand():
    layer = EquivariantLinear(FLIP, 2)
    layer.weight.data = torch.tensor([[2.0, 3.0, 5.0]])
    layer.bias.data = torch.tensor([1.0])
    x = torch.tensor([1.0, 10.0, 100.0])
    # 2 + 30 + 500 + 1, and of the mirrored input (10, 1, -100): 20 + 3 - 500 + 1
    assert layer(x).tolist() == [533.0, -476.0]


def test_a_head_by_hand():
    layer = EquivariantHead(FLIP, Reflection(torch.tensor([1, 0]), torch.tensor([-1.0, -1.0])))
    layer.weight.data = torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 4.0]])
    layer.bias.data = torch.tensor([1.0, 3.0])
    x = torch.tensor([1.0, 10.0, 100.0])
    # it gives (2, 423); of the mirrored input (10, 1, -100) it gives (11, -395), in the mirror (395, -11)
    assert layer(x).tolist() == [(2 + 395) / 2, (423 - 11) / 2]


def test_a_network_of_them_commutes_with_the_mirror():
    torch.manual_seed(0)
    pairs = Reflection.of_pairs(8)
    layers = [EquivariantLinear(FLIP, 8), EquivariantLinear(pairs, 8)]
    for layer in layers:
        nn.init.normal_(layer.weight)
        nn.init.normal_(layer.bias)
    actor, critic = EquivariantHead(pairs, FLIP), EquivariantHead(pairs, Reflection.identity(1))
    for layer in (actor, critic):
        nn.init.normal_(layer.weight)
        nn.init.normal_(layer.bias)
    trunk = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU())
    x = torch.randn(50, 3)
    here, there = trunk(x), trunk(reflect(x, FLIP))
    torch.testing.assert_close(actor(there), reflect(actor(here), FLIP))
    torch.testing.assert_close(critic(there), critic(here))
    assert not torch.allclose(actor(there), actor(here))
