"""State that is packed, broadcast within a process group, and unpacked."""

import pytest
import torch

from moolib.accumulator.state_transfer import broadcast, pack, unpack
from moolib.group.process_group import Alone

VALUE = [[torch.arange(6.0).view(2, 3)], [torch.tensor([1, -2])], {"step": 3, "names": ("a", "b")}]


class Follower(Alone):
    """A member that receives the tensors that a source sends, in order."""

    def __init__(self, sent):
        self.sent = iter(sent)

    def broadcast(self, tensor, source):
        tensor.copy_(next(self.sent))


def assert_equal(value):
    (parameter,), (buffer,), state = value
    assert parameter.tolist() == [[0, 1, 2], [3, 4, 5]] and buffer.tolist() == [1, -2]
    assert state == {"step": 3, "names": ("a", "b")}


def test_a_value_survives_the_transfer():
    body, payload = package = pack(VALUE)
    assert body.dtype == payload.dtype == torch.uint8
    assert broadcast(Alone(), 0, package) == package
    received = broadcast(Follower([torch.tensor([len(body), len(payload)]), body, payload]), 0, None)
    assert_equal(unpack(received))


def test_a_package_is_a_copy():
    tensor = torch.zeros(3)
    package = pack(tensor)
    tensor.fill_(1)
    assert unpack(package).tolist() == [0, 0, 0]


def test_a_value_without_tensors_has_no_payload():
    body, payload = pack({"step": 3})
    assert len(payload) == 0
    received = broadcast(Follower([torch.tensor([len(body), 0]), body]), 0, None)
    assert unpack(received) == {"step": 3}


def test_an_object_that_cannot_travel_is_named():
    with pytest.raises(TypeError, match=r"builtins\.object"):
        pack([object()])
