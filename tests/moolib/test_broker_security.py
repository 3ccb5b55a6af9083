"""The real broker program with a key or a certificate, and over IPv6."""

import os
import socket
import subprocess
import sys

import pytest

import moolib
from moolib.broker import MAX_MESSAGE
from rigs.local_members import Member, gather, have, run, want
from rigs.processes import Broker, environment
from rigs.rpcs import ANY, self_signed


@pytest.fixture
def keys(tmp_path):
    paths = [tmp_path / "key", tmp_path / "other"]
    for path in paths:
        path.write_text(os.urandom(32).hex())
        path.chmod(0o600)
    return [str(path) for path in paths]


def ask_status(address: str, *options: str, **variables: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "moolib.broker", "--status", address, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment(**variables))


def train_a_step(address: str, **security) -> None:
    members = [Member(address, name, security=security) for name in "ab"]
    gather(members)
    want(members)
    for member, value in zip(members, (1.0, 4.0), strict=True):
        member.reduce(value)
    have(members)
    assert [m.parameters[0].grad.tolist() for m in members] == [[2.5] * 3] * 2
    for member in members:
        member.close()


def test_only_peers_with_the_key_are_let_in(keys, monkeypatch):
    broker = Broker(ANY, "--key-file", keys[0])
    train_a_step(broker.address, key_file=keys[0])
    monkeypatch.setenv("MOOLIB_KEY_FILE", keys[0])
    train_a_step(broker.address)
    monkeypatch.delenv("MOOLIB_KEY_FILE")
    for stranger in (
        Member(broker.address, "c", security={"key_file": keys[1]}),
        Member(broker.address, "d"),
    ):
        run([stranger], lambda: "keys differ" in stranger.rpc.debug_info()["refused"])  # noqa: B023
        assert stranger.group.members() == []
        stranger.close()
    for options, variables, answer in (
        (("--key-file", keys[0]), {}, ""),
        ((), {"MOOLIB_KEY_FILE": keys[0]}, ""),
        (("--key-file", keys[1]), {}, f"broker: no broker answered at {broker.address}: "),
        ((), {}, f"broker: no broker answered at {broker.address}: "),
    ):
        asked = ask_status(broker.address, *options, **variables)
        assert (asked.returncode == 0) == (answer == "")
        assert asked.stderr.startswith(answer) and "Traceback" not in asked.stderr
        assert ("keys differ" in asked.stderr) == bool(answer)
    assert broker.end() == 0


def test_the_broker_takes_its_key_from_the_environment(keys, monkeypatch):
    monkeypatch.setenv("MOOLIB_KEY_FILE", keys[0])
    broker = Broker()
    train_a_step(broker.address, key_file=keys[0])
    assert broker.end() == 0


def test_a_key_file_that_cannot_be_used_is_one_line(tmp_path):
    (tmp_path / "short").write_text("too short")
    for name in ("none", "short"):
        command = [sys.executable, "-m", "moolib.broker", "127.0.0.1:0", "--key-file", str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment())
        assert done.returncode == 1 and done.stdout == ""
        assert done.stderr.startswith("broker: ") and str(tmp_path / name) in done.stderr
        assert done.stderr.count("\n") == 1


def test_tls(tmp_path):
    pair = self_signed(tmp_path)
    broker = Broker(ANY, "--tls-cert", pair["tls_cert"], "--tls-key", pair["tls_key"])
    train_a_step(broker.address, tls_cert=pair["tls_cert"])
    assert ask_status(broker.address, "--tls-cert", pair["tls_cert"]).returncode == 0
    plain = moolib.Rpc()
    plain.set_timeout(0.3)
    plain.connect(broker.address)
    with pytest.raises(RuntimeError, match="timed out"):
        plain.sync("broker", "broker.status")
    assert broker.end() == 0


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_ipv6():
    broker = Broker("[::1]:0")
    assert broker.address.startswith("[::1]:")
    train_a_step(broker.address)  # gloo connects over IPv6, too
    server = moolib.Rpc()
    server.set_name("server")
    server.define("double", lambda x: 2 * x)
    client = moolib.Rpc()
    client.connect(server.listen("[::1]:0"))
    assert client.sync("server", "double", 4) == 8
    assert broker.end() == 0


def test_the_broker_needs_no_large_messages():
    broker = moolib.Broker()
    client = moolib.Rpc()
    client.connect(broker.listen("127.0.0.1:0"))
    client.set_timeout(1)
    assert client.sync("broker", "broker.status") == {}
    with pytest.raises(RuntimeError, match="timed out"):
        client.sync("broker", "broker.status", b"x" * (MAX_MESSAGE + 1))
    client.set_timeout(20)
    assert client.sync("broker", "broker.status") == {}
