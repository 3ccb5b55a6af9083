"""Shared keys and TLS: who is let in, and the keys that both ends derive."""

from __future__ import annotations

import logging
import os
import socket
from types import SimpleNamespace

import pytest

import moolib
from moolib import Rpc, RpcError
from moolib.transport.security import KEY_FILE_VARIABLE, Handshake
from rigs.rpcs import ANY, named, serving


def test_a_shared_key(keys):
    _server, address = serving(key_file=keys[0])
    assert named("client", address, key_file=keys[0]).sync("server", "double", 3) == 6
    for other in ({"key_file": keys[1]}, {}):
        with pytest.raises(RuntimeError, match="keys differ"):
            named("other", address, **other).sync("server", "double", 3)


def test_the_key_file_may_come_from_the_environment(keys, monkeypatch):
    monkeypatch.setenv(KEY_FILE_VARIABLE, keys[0])
    _server, address = serving()
    monkeypatch.delenv(KEY_FILE_VARIABLE)
    assert named("client", address, key_file=keys[0]).sync("server", "double", 3) == 6


def test_files_that_cannot_be_used(tmp_path, certificates):
    empty, short, none = tmp_path / "empty", tmp_path / "short", tmp_path / "none"
    empty.write_text(" \n")
    short.write_text("too short\n")
    for wrong, message in (
        ({"key_file": str(none)}, f"cannot read key file {none}: No such file or directory"),
        ({"key_file": str(tmp_path)}, f"cannot read key file {tmp_path}: Is a directory"),
        ({"key_file": str(empty)}, f"key file {empty} has a key of 0 bytes, at least 16 are needed"),
        ({"key_file": str(short)}, f"key file {short} has a key of 9 bytes, at least 16 are needed"),
        ({"tls_key": certificates[0]["tls_key"]}, "tls_key without tls_cert"),
        ({"tls_cert": str(empty)}, f"cannot use tls_cert={empty}"),
        (
            {"tls_cert": certificates[0]["tls_cert"], "tls_key": certificates[1]["tls_key"]},
            "KEY_VALUES_MISMATCH",
        ),
    ):
        with pytest.raises(RpcError) as error:
            Rpc(**wrong)
        assert message in str(error.value) and "\n" not in str(error.value)


def test_a_key_file_that_others_can_read_is_logged(keys, caplog):
    os.chmod(keys[0], 0o644)
    moolib.set_logging(logging.getLogger("keys"))
    try:
        Rpc(key_file=keys[0])
    finally:
        moolib.set_logging(logging.getLogger("moolib"))
    assert [r.getMessage() for r in caplog.records] == [
        f"key file {keys[0]} can be read by other users: chmod 600 {keys[0]}"
    ]


def test_tls(certificates, keys):
    one, other = certificates
    _server, address = serving(**one, key_file=keys[0])
    assert named("client", address, **one, key_file=keys[0]).sync("server", "double", 3) == 6
    reader = named("reader", address, tls_cert=one["tls_cert"], key_file=keys[0])
    big = bytes(3 << 20)
    assert reader.sync("server", "echo", big)[0][0] == big
    with pytest.raises(RpcError, match="needs tls_key"):
        reader.listen(ANY)
    with pytest.raises(RuntimeError, match="keys differ"):
        named("keyless", address, **one).sync("server", "double", 3)
    for stranger in (
        named("plain", address, key_file=keys[0]),
        named("other", address, **other, key_file=keys[0]),
    ):
        stranger.set_timeout(0.3)
        with pytest.raises(RuntimeError, match="timed out"):
            stranger.sync("server", "double", 3)


def test_tls_encrypts(certificates):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = named("secret-client", f"127.0.0.1:{listener.getsockname()[1]}", **certificates[0])
        sock, _ = listener.accept()
        sock.settimeout(10)
        assert sock.recv(3)[:1] == b"\x16"  # a TLS handshake record
        client.close()


SECURITY = SimpleNamespace(key=b"a shared key of some length")


def handshakes(theirs=SECURITY) -> tuple[Handshake, Handshake]:
    ends = Handshake(SECURITY, True, None), Handshake(theirs, False, None)
    assert ends[0].receive_opening(ends[1].opening) and ends[1].receive_opening(ends[0].opening)
    return ends


def test_both_ends_derive_the_same_keys_and_new_ones_for_each_connection():
    dialer, listener = handshakes()
    assert listener.verify(dialer.proof()) and dialer.verify(listener.proof())
    assert not dialer.verify(dialer.proof())
    (ours, from_them), (_, from_us) = dialer.ciphers(), listener.ciphers()
    sealed = ours.seal(b"x")
    for wrong in (from_them, handshakes()[1].ciphers()[1]):
        with pytest.raises(ValueError):
            wrong.open(sealed)
    assert from_us.open(sealed) == b"x"
    other, _ = handshakes(SimpleNamespace(key=b"another key of some length"))
    assert not listener.verify(other.proof())
    assert not listener.receive_opening(b"too short")
