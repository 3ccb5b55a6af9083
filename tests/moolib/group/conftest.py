"""Groups of new peers, through a broker in the process of a test."""

import pytest

import moolib


@pytest.fixture
def peers():
    """Makes groups of new peers; each has an Rpc of its own."""
    broker = moolib.Broker()
    address = broker.listen("127.0.0.1:0")
    rpcs = [broker]  # and those of the peers

    def peer(name, group="group", timeout=None, order=None):
        rpc = moolib.Rpc()
        rpc.set_name(name)
        rpc.connect(address)
        rpcs.append(rpc)
        group = moolib.Group(rpc, group)
        if timeout is not None:
            group.set_timeout(timeout)
        if order is not None:
            group.set_sort_order(order)
        return group

    peer.rpcs = rpcs
    yield peer
    for rpc in rpcs:
        rpc.close()
