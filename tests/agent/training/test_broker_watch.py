"""The loss of the broker: told once, and an embedded broker outlives its peer while others need it."""

import re
import signal
from types import SimpleNamespace

from agent.training.broker_watch import BrokerWatch
from rigs.experiments import experiments
from rigs.processes import wait_until


def test_a_loss_and_a_return_are_said_once():
    said, seconds = [], iter([0.0, 1.0, 4.0, 9.0, 0.0, 0.0, 5.0])
    watch = BrokerWatch(SimpleNamespace(broker_lost_for=lambda: next(seconds)), "10.0.0.1:4431", said.append)
    for _ in range(7):
        watch.check()
    assert [line.split(";")[0] for line in said] == [
        "lost the broker at 10.0.0.1:4431", "the broker at 10.0.0.1:4431 is back",
        "lost the broker at 10.0.0.1:4431",
    ]  # fmt: skip


def test_an_embedded_broker_is_not_watched():
    BrokerWatch(SimpleNamespace(), None, print).check()


def test_an_embedded_broker_stays_while_others_train(tmp_path):
    with experiments(tmp_path) as group:
        first = group.peer("first", "group=g", "total_steps=1e9")
        wait_until(lambda: "connect=" in first.output, what="the first peer names its broker")
        address = re.search(r"connect=(\S+)", first.output)[1]
        second = group.peer("second", "group=g", "total_steps=1e9", f"connect={address}")
        wait_until(lambda: len(group.rows("second", "g")) > 2, "the second peer trains", 60)
        first.signal(signal.SIGTERM)
        wait_until(lambda: "stays for 1 other peers" in first.output, "the first peer keeps its broker", 30)
        rows = len(group.rows("second", "g"))
        wait_until(lambda: len(group.rows("second", "g")) > rows + 2, "the second goes on", 30)
        assert group.rows("second", "g")[-1]["peers"] == "1" and first.returncode is None
        assert (tmp_path / "outputs" / "herd" / "g" / "checkpoint.safetensors").exists()
        second.signal(signal.SIGTERM)
        assert second.wait(30) == 0 and first.wait(30) == 0
        assert "Traceback" not in first.output + second.output


def test_a_lost_broker_is_told_and_training_goes_on(tmp_path):
    with experiments(tmp_path) as group:
        address = group.broker()
        peer = group.peer("a", "total_steps=1e9", f"connect={address}", "group_timeout=1")
        wait_until(lambda: len(group.rows("a")) > 2, "it trains", 60)
        group.started[0].kill()
        wait_until(lambda: f"lost the broker at {address}" in peer.output, "it says so", 30)
        rows = len(group.rows("a"))
        wait_until(lambda: len(group.rows("a")) > rows + 2, "it goes on", 30)
        peer.signal(signal.SIGTERM)
        assert peer.wait(30) == 0
