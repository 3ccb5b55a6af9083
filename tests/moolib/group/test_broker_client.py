"""A peer's side of the membership: the messages it accepts, and those it sends."""

import time

import pytest

import moolib
from moolib.group.broker_client import BrokerClient
from moolib.limits import MAX_IDENTITY
from rigs.local_members import Member, gather
from rigs.processes import wait_until


def test_a_stranger_cannot_speak_for_the_broker(address):
    member = Member(address, "a")
    gather([member])
    where = member.rpc.listen("127.0.0.1:0")
    stranger = moolib.Rpc()
    stranger.set_name("stranger")
    stranger.connect(where)
    deadline = time.monotonic() + 5
    while not stranger.messages.send("a", "group.epoch/group", 1, ["stranger"]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    stranger.messages.send("a", "group.refused/group", "x", "model", "nothing")
    time.sleep(0.1)
    member.update()
    assert member.group.members() == ["a"]
    member.close()
    stranger.close()


def test_a_refusal_says_where_two_models_differ(address):
    clients = []
    for name, model in (("a", "2 weights\nfloat32 [3]"), ("b", "2 weights\nfloat32 [4]")):
        rpc = moolib.Rpc()
        rpc.set_name(name)
        rpc.connect(address)
        client = BrokerClient(rpc, "group", lambda epoch: None)
        client.add_accumulator("model", model, dict)
        client.join()
        clients.append(client)
        wait_until(lambda: client.epoch or client.refusal)  # noqa: B023
    a, b = clients
    assert a.refusal == "" and a.epoch.members == ["a"] and b.epoch is None
    assert b.refusal == (
        "cannot join group 'group': model 'model' of 'b' differs from that of 'a': "
        "'b' has float32 [4]; 'a' has float32 [3]"
    )


def test_descriptions_that_the_broker_would_not_take():
    client = BrokerClient(moolib.Rpc(), "group", lambda epoch: None)
    client.add_accumulator("one", "x" * (MAX_IDENTITY - 1), dict)
    with pytest.raises(moolib.RpcError, match="accumulator 'two': the models of group 'group' have too many"):
        client.add_accumulator("two", "xx", dict)
    client.add_accumulator("two", "x", dict)


def test_a_failed_operation_begins_a_new_epoch_of_the_same_members(address):
    epochs = []
    rpc = moolib.Rpc()
    rpc.set_name("a")
    rpc.connect(address)
    client = BrokerClient(rpc, "group", epochs.append)
    client.join()
    wait_until(lambda: len(epochs) == 1)
    client.report_failure(epochs[0])
    wait_until(lambda: len(epochs) == 2)
    assert epochs[0].over and not epochs[1].over
    assert epochs[1].sync_id == epochs[0].sync_id + 1 and epochs[1].members == ["a"]
    client.leave()
