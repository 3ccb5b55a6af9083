"""Keys and certificates."""

import os

import pytest

from rigs.rpcs import self_signed


@pytest.fixture
def keys(tmp_path):
    paths = []
    for i in range(2):
        paths.append(str(tmp_path / f"key{i}"))
        (tmp_path / f"key{i}").write_bytes(os.urandom(32).hex().encode() + b"\n")
        (tmp_path / f"key{i}").chmod(0o600)
    return paths


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """Two pairs (certificate, key)."""
    return [self_signed(tmp_path_factory.mktemp(f"tls{i}")) for i in range(2)]
