"""Peers on hosts of their own: the majority goes on when a link is cut, the other takes its model."""

import os

import pytest

from benchmarks.hosts import CUT, PEERS, Options, cut, training
from rigs.network_namespaces import Network, missing


@pytest.mark.skipif("HERD_TEST_NETWORKS" not in os.environ, reason="on request: HERD_TEST_NETWORKS=1")
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_peer_whose_link_was_cut_comes_back_with_the_model_of_the_others():
    options = Options(timeout=1.0)
    network = Network(PEERS + 1, networks=2)
    try:
        with training(network, options, version=6) as rig:
            cut(rig, network, CUT, 2.0)
            assert "took" in [event["event"] for event in rig.peers[-1].read()]
            findings = rig.check()
            assert (findings.problems, findings.lost) == ([], 0)
    finally:
        network.close()
