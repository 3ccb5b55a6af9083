"""The broker as a program, and its resistance to malformed messages."""

import json
import subprocess
import sys
import time

import pytest

import moolib
from moolib.broker import main
from rigs.local_members import Member, gather, have, want
from rigs.processes import environment, wait_until


@pytest.fixture(autouse=True)
def log_level():
    yield
    moolib.set_log_level("error")  # which `main` changes


@pytest.fixture
def broker():
    broker = moolib.Broker()
    broker.address = broker.listen("127.0.0.1:0")
    yield broker
    broker.close()


def test_it_never_imports_torch():
    code = """
import sys
from moolib import Broker, Rpc
broker = Broker()
rpc = Rpc()
rpc.connect(broker.listen("127.0.0.1:0"))
rpc.messages.on_peer_change(lambda *_: rpc.messages.send("broker", "broker.join", "g", 0, [], 0, 5.0, {}))
while rpc.sync("broker", "broker.status") == {}:
    broker.update()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment())


def test_status(broker, capsys):
    main(["--status", broker.address])
    assert capsys.readouterr().out == "no groups\n"
    member = Member(broker.address, "a")
    gather([member])
    want([member])
    member.reduce(1.0)
    have([member])
    time.sleep(1.1)  # until the next ping
    main(["--status", broker.address, "--json"])
    (told,) = json.loads(capsys.readouterr().out)["group"]["members"]
    assert told["name"] == "a" and 0 <= told["last_ping"] < 5
    assert told["accumulators"]["model"] == {"model_version": 1, "leader": True}
    main(["--status", broker.address])
    text = capsys.readouterr().out
    assert f"group: sync id {member.group.sync_id()}, 1 member" in text
    assert "a: model version 1 (leader), last ping" in text
    member.close()


def test_members(broker):
    assert broker.members() == {}
    member = Member(broker.address, "a")
    gather([member])
    assert broker.members() == {"group": ["a"]}
    member.close()
    wait_until(lambda: broker.members() == {})


BAD = [
    ("broker.join",),
    ("broker.join", "g", 0, [], 0, 5.0),
    ("broker.join", ["g"], 0, [], 0, 5.0, {}),
    ("broker.join", "g", "x", [], 0, 5.0, {}),
    ("broker.join", "g", 0, 7, 0, 5.0, {}),
    ("broker.join", "g", 0, [], "first", 5.0, {}),
    ("broker.join", "g", 0, [], 0, float("nan"), {}),
    ("broker.join", "g", 0, [], 0, None, {}),
    ("broker.join", "g", 0, [], 0, 5.0, [1]),
    ("broker.join", "g" * 1000, 0, [], 0, 5.0, {}),
    ("broker.join", "g", 0, [], 0, 5.0, {"model": "x" * (1 << 19)}),
    ("broker.ping", {}, 0, {}),
    ("broker.ping", "group", None, []),
    ("broker.ping", "nobody's", 0, {}),
    ("broker.leave", []),
    ("broker.leave", "nobody's"),
    ("broker.report", "group", []),
    ("broker.rendezvous", "group", 1, "key", 3),
    ("broker.rendezvous", "group", None, "key", b"x" * (1 << 17)),
    ("broker.epoch", "group"),
]


def test_malformed_messages_do_no_harm(broker):
    member = Member(broker.address, "a")
    gather([member])
    epoch = member.group.sync_id()
    stranger = moolib.Rpc()
    stranger.connect(broker.address)
    stranger.sync("broker", "broker.status")
    for function, *arguments in BAD * 3:
        stranger.messages.send("broker", function, *arguments)
    status = stranger.sync("broker", "broker.status")
    assert set(status) <= {"group", "g"} and status["group"]["sync_id"] == epoch
    want([member])
    member.reduce(1.0)
    have([member])
    assert member.group.sync_id() == epoch
    member.close()
    stranger.close()
