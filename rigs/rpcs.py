"""Named, serving and encrypting `Rpc`s within one process."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from moolib import Rpc

ANY = "127.0.0.1:0"  # any free port


def named(name: str, address: str | None = None, **options: Any) -> Rpc:
    """Return an `Rpc` with this name, connected to `address` if it is given."""
    rpc = Rpc(**options)
    rpc.set_name(name)
    rpc.set_timeout(20)
    if address:
        rpc.connect(address)
    return rpc


def serving(name: str = "server", address: str = ANY, **options: Any) -> tuple[Rpc, str]:
    """Return an `Rpc` that offers `echo` and `double`, and the address at which it listens."""
    rpc = named(name, **options)
    rpc.define("echo", lambda *args, **kwargs: (args, kwargs))
    rpc.define("double", lambda x: 2 * x)
    return rpc, rpc.listen(address)


def self_signed(folder: Path) -> dict[str, str]:
    """Write a new TLS certificate and its key into `folder`; return them as arguments of `Rpc`."""
    pair = {"tls_cert": str(folder / "cert.pem"), "tls_key": str(folder / "key.pem")}
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=moolib"
    )
    files = ["-out", pair["tls_cert"], "-keyout", pair["tls_key"]]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return pair
