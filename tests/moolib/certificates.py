"""Certificates for the tests of TLS."""

import subprocess
from pathlib import Path


def self_signed(folder: Path) -> dict[str, str]:
    """A new certificate and its key in `folder`, as arguments of `Rpc`."""
    pair = {"tls_cert": str(folder / "cert.pem"), "tls_key": str(folder / "key.pem")}
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=moolib"
    )
    files = ["-out", pair["tls_cert"], "-keyout", pair["tls_key"]]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return pair
