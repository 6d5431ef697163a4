"""SCRAM (RFC 5802, RFC 7677): a password is proven, not told, and the broker proves itself too."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

from ottla.errors import ErrorCode, KafkaError

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MAX: Final = 1_000_000  # a broker that wants more is after our processor
NONCE_BYTES: Final = 24
_NO_BINDING: Final = "n,,"


class Scram:
    """What a client says: `first`, `final` to a challenge; `verify` the broker's last word."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str | None = None) -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return f"{_NO_BINDING}{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """The proof that we know the password."""
        text = challenge.decode()
        said = _parts(text)
        try:
            nonce, salt, iterations = said["r"], base64.b64decode(said["s"]), int(said["i"])
        except (KeyError, ValueError):
            raise _refused(said.get("e", "the broker's challenge makes no sense")) from None
        if not nonce.startswith(self._nonce) or not 0 < iterations <= ITERATIONS_MAX:
            raise _refused("the broker's challenge is not an answer to us")
        binding = base64.b64encode(_NO_BINDING.encode()).decode()
        without_proof = f"c={binding},r={nonce}"
        spoken = f"{self._bare},{text},{without_proof}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self._hash, client_key).digest(), spoken)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = self._mac(self._mac(salted, b"Server Key"), spoken)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, last: bytes) -> None:
        """KafkaError unless the broker knows the password as well."""
        said = _parts(last.decode())
        expected = base64.b64encode(self._signature).decode()
        if not hmac.compare_digest(said.get("v", ""), expected):
            raise _refused(said.get("e", "the broker does not know the password"))

    def _mac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def _parts(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",")}


def _refused(why: str) -> KafkaError:
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, why)
