"""Who may connect: a shared key proved by both ends (HMAC-SHA256 challenge), and TLS by the standard library.

The proof covers the certificate of the listening end, so that with a key nobody can sit between the two ends,
whoever issued the certificate. Without a key everybody who can connect is trusted; both ends must agree in
this.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from moolib.future import RpcError

KEY_FILE_VARIABLE = "MOOLIB_KEY_FILE"
NONCE_SIZE = 32  # bytes


@dataclass(frozen=True)
class Security:
    """The secrets of one Rpc; `listen` and `connect` are None without TLS."""

    key: bytes
    listen: ssl.SSLContext | None
    connect: ssl.SSLContext | None
    certificate: bytes  # ours, DER

    def proof(self, dialer: bool, nonces: bytes, sock: object) -> bytes:
        """What the dialling or the listening end of `sock` sends to prove that it knows the key.

        Args:
            nonces: the dialler's nonce, then the listener's.
        """
        certificate = b""
        if isinstance(sock, ssl.SSLSocket):
            certificate = self.certificate if sock.server_side else sock.getpeercert(True) or b""
        role = b"dialer" if dialer else b"listener"
        return hmac.digest(self.key, role + nonces + hashlib.sha256(certificate).digest(), "sha256")


def load(key_file: str | None, tls_cert: str | None, tls_key: str | None) -> Security:
    """Read the key (default: the file that MOOLIB_KEY_FILE names) and the certificate, which also is what we
    trust.

    Raises:
        RpcError: a file cannot be read or is empty.
    """
    key_file = key_file or os.environ.get(KEY_FILE_VARIABLE) or None
    key = b""
    try:
        if key_file and not (key := Path(key_file).read_bytes().strip()):
            raise RpcError(f"key file {key_file} is empty")
        if tls_key and not tls_cert:
            raise RpcError("tls_key without tls_cert")
        if not tls_cert:
            return Security(key, None, None, b"")
        connect = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        connect.minimum_version = ssl.TLSVersion.TLSv1_3
        connect.check_hostname = False  # peers have no host names; the certificate itself is what we trust
        connect.load_verify_locations(tls_cert)
        connect.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        listen = None
        if tls_key:
            listen = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            listen.minimum_version = ssl.TLSVersion.TLSv1_3
            listen.load_cert_chain(tls_cert, tls_key)
        return Security(key, listen, connect, _certificate(tls_cert))
    except OSError as error:  # ssl.SSLError is one
        raise RpcError(
            f"cannot read key_file={key_file} tls_cert={tls_cert} tls_key={tls_key}: {error}"
        ) from error


def _certificate(path: str) -> bytes:
    """The first certificate of a PEM file, DER."""
    text = Path(path).read_text()
    start = text.index("-----BEGIN CERTIFICATE-----")
    end = text.index("-----END CERTIFICATE-----", start) + len("-----END CERTIFICATE-----")
    return ssl.PEM_cert_to_DER_cert(text[start:end])
