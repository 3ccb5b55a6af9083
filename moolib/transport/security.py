"""Authentication and encryption of connections: by a shared key, or by the standard library's TLS.

With a shared key, each end proves that it knows the key by an HMAC-SHA256 over both ends' nonces and
ephemeral X25519 keys. Both ends then derive one key per direction (HKDF-SHA256) from the shared key and the
X25519 secret, and seal everything that follows with AES-256-GCM. So an attacker who learns the shared key
later cannot read recorded traffic. The nonce of a record is its number: no record can be changed, left out,
repeated or moved.

With TLS, the proof covers the certificate of the listening end instead. With a key, nobody can then sit
between the two ends, whoever issued the certificate.

Without a key, everybody who can connect is trusted; both ends must agree on this.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moolib.future import RpcError
from moolib.log import log

KEY_FILE_VARIABLE = "MOOLIB_KEY_FILE"
MIN_KEY = 16  # bytes; a shorter key can be guessed from a recorded proof
NONCE_SIZE = 32  # bytes
PUBLIC_SIZE = 32  # bytes of an X25519 public key
KEY_SIZE = 32  # bytes of an AES-256 key
GCM_NONCE_SIZE = 12  # bytes


@dataclass(frozen=True)
class Security:
    """The secrets of one Rpc; `listen` and `connect` are None without TLS."""

    key: bytes
    listen: ssl.SSLContext | None
    connect: ssl.SSLContext | None
    certificate: bytes  # ours, DER


class Cipher:
    """Seals and opens the records of one direction."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._aead = AESGCM(key)
        self._count = 0

    def seal(self, data: bytes | memoryview) -> bytes:
        """Return the next record."""
        return self._aead.encrypt(self._nonce(), data, None)

    def open(self, record: bytes | bytearray) -> bytes:
        """Return the contents of the next record.

        Raises:
            ValueError: The record is not the next one that the other end sealed.
        """
        from cryptography.exceptions import InvalidTag

        try:
            return self._aead.decrypt(self._nonce(), record, None)
        except InvalidTag:
            raise ValueError("not the next record") from None

    def _nonce(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(GCM_NONCE_SIZE, "big")


class Handshake:
    """The proofs and the keys of one connection.

    Attributes:
        opening: Our first message: a nonce, followed by a public key if `seals`.
        seals: True if everything after the proofs is to be sealed.
    """

    def __init__(self, security: Security, dialer: bool, sock: Any) -> None:
        self._security, self._dialer, self._sock = security, dialer, sock
        self.seals = bool(security.key) and not isinstance(sock, ssl.SSLSocket)
        self.opening = secrets.token_bytes(NONCE_SIZE)
        if self.seals:
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

            self._private = X25519PrivateKey.generate()
            self.opening += self._private.public_key().public_bytes_raw()
        self._theirs = self._transcript = b""

    def receive_opening(self, opening: bytes) -> bool:
        """Take the other end's opening; return False if it is malformed."""
        self._theirs, certificate = opening, b""
        if isinstance(self._sock, ssl.SSLSocket):
            ours = self._sock.server_side
            certificate = self._security.certificate if ours else self._sock.getpeercert(True) or b""
        both = (self.opening, opening) if self._dialer else (opening, self.opening)
        self._transcript = hashlib.sha256(certificate).digest() + both[0] + both[1]
        return len(opening) in (NONCE_SIZE, NONCE_SIZE + PUBLIC_SIZE)

    def proof(self) -> bytes:
        """Return our proof that we know the key."""
        return self._proof(self._dialer)

    def verify(self, proof: bytes) -> bool:
        """Return True if the other end has proved that it knows the key."""
        return hmac.compare_digest(proof, self._proof(not self._dialer))

    def ciphers(self) -> tuple[Cipher, Cipher]:
        """Return the ciphers for sending and for receiving, once both ends have proved themselves.

        Raises:
            ValueError: The other end's public key is invalid.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        secret = self._private.exchange(X25519PublicKey.from_public_bytes(self._theirs[NONCE_SIZE:]))
        derive = HKDF(SHA256(), 2 * KEY_SIZE, salt=hashlib.sha256(self._transcript).digest(), info=b"moolib")
        keys = derive.derive(self._security.key + secret)
        dialer, listener = Cipher(keys[:KEY_SIZE]), Cipher(keys[KEY_SIZE:])
        return (dialer, listener) if self._dialer else (listener, dialer)

    def _proof(self, dialer: bool) -> bytes:
        role = b"dialer" if dialer else b"listener"
        return hmac.digest(self._security.key, role + self._transcript, "sha256")


def load(key_file: str | None, tls_cert: str | None, tls_key: str | None) -> Security:
    """Read the key (default: the file named by MOOLIB_KEY_FILE) and the certificate.

    The certificate is both presented and trusted.

    Raises:
        RpcError: A file cannot be read, or its key is missing or too short.
    """
    key_file = key_file or os.environ.get(KEY_FILE_VARIABLE) or None
    key = _read_key(key_file) if key_file else b""
    if tls_key and not tls_cert:
        raise RpcError("tls_key without tls_cert")
    if not tls_cert:
        return Security(key, None, None, b"")
    try:
        connect = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        connect.minimum_version = ssl.TLSVersion.TLSv1_3
        connect.check_hostname = False  # peers have no host names; we trust the certificate itself
        connect.load_verify_locations(tls_cert)
        connect.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        listen = None
        if tls_key:
            listen = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            listen.minimum_version = ssl.TLSVersion.TLSv1_3
            listen.load_cert_chain(tls_cert, tls_key)
        return Security(key, listen, connect, _certificate(tls_cert))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise RpcError(f"cannot use tls_cert={tls_cert} tls_key={tls_key}: {_reason(error)}") from error


def _read_key(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            key = file.read().strip()
            mode = os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise RpcError(f"cannot read key file {path}: {_reason(error)}") from error
    if len(key) < MIN_KEY:
        raise RpcError(f"key file {path} has a key of {len(key)} bytes, at least {MIN_KEY} are needed")
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        log("error", "key file %s can be read by other users: chmod 600 %s", path, path)
    return key


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _certificate(path: str) -> bytes:
    """Return the first certificate of a PEM file in DER form."""
    text = Path(path).read_text()
    start = text.index("-----BEGIN CERTIFICATE-----")
    end = text.index("-----END CERTIFICATE-----", start) + len("-----END CERTIFICATE-----")
    return ssl.PEM_cert_to_DER_cert(text[start:end])
