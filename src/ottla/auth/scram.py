"""SCRAM (RFC 5802, RFC 7677): the stored credential, and the client's side of the exchange.

The client proves that it knows the password without sending it, and the server proves that it has
the credential. `scram_server.py` has the other side.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from ottla.auth.sasl import refused

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384  # of a stored credential (KIP-554): they cost the client CPU time
CHALLENGE_ITERATIONS_MAX: Final = 1_000_000  # more is an attack on the client's CPU
NONCE_BYTES: Final = 24
SALT_BYTES: Final = 24
NO_BINDING: Final = "n,,"
TOKEN_EXTENSION: Final = "tokenauth"


@dataclass(slots=True, frozen=True)
class ScramCredential:
    """What the server stores: enough to verify a proof, not enough to make one."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __str__(self) -> str:
        """As Kafka writes it into ZooKeeper."""
        parts = (
            ("salt", _base64(self.salt)),
            ("stored_key", _base64(self.stored_key)),
            ("server_key", _base64(self.server_key)),
            ("iterations", str(self.iterations)),
        )
        return ",".join(f"{name}={value}" for name, value in parts)

    @classmethod
    def parse(cls, text: str) -> ScramCredential:
        """ValueError for anything but the four parts, each once."""
        parts = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
        if sorted(parts) != ["iterations", "salt", "server_key", "stored_key"]:
            raise ValueError("not a SCRAM credential")
        salt, stored_key, server_key = (
            base64.b64decode(parts[name], validate=True)
            for name in ("salt", "stored_key", "server_key")
        )
        return cls(salt, stored_key, server_key, int(parts["iterations"]))

    @classmethod
    def of_salted(
        cls, mechanism: str, salt: bytes, salted_password: bytes, iterations: int
    ) -> ScramCredential:
        """From the fields of AlterUserScramCredentials: the client has salted the password."""
        name = HASHES[mechanism]
        client_key = hmac.digest(salted_password, b"Client Key", name)
        stored_key = hashlib.new(name, client_key).digest()
        return cls(salt, stored_key, hmac.digest(salted_password, b"Server Key", name), iterations)

    @classmethod
    def of_password(
        cls,
        mechanism: str,
        password: str,
        *,
        salt: bytes | None = None,
        iterations: int = ITERATIONS_MIN,
    ) -> ScramCredential:
        salt = salt or secrets.token_bytes(SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
        return cls.of_salted(mechanism, salt, salted, iterations)


class ScramClient:
    """The client's messages: `first`, then `final` to the challenge; `verify` checks the last."""

    def __init__(
        self,
        mechanism: str,
        user: str,
        password: str,
        nonce: str | None = None,
        *,
        token: bool = False,
    ) -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or new_nonce()
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={self._nonce}"
        if token:  # the user is a delegation token's id, the password its HMAC
            self._bare += f",{TOKEN_EXTENSION}=true"
        self._signature = b""

    def first(self) -> bytes:
        return f"{NO_BINDING}{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """The proof of the password."""
        text = _text(challenge)
        fields = attributes(text)
        try:
            nonce, salt, iterations = fields["r"], base64.b64decode(fields["s"]), int(fields["i"])
        except (KeyError, ValueError):
            raise refused(fields.get("e", "the broker's challenge is malformed")) from None
        if not nonce.startswith(self._nonce) or not 0 < iterations <= CHALLENGE_ITERATIONS_MAX:
            raise refused("the broker's challenge does not belong to this exchange")
        without_proof = f"c={_base64(NO_BINDING.encode())},r={nonce}"
        spoken = f"{self._bare},{text},{without_proof}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        proof = xor(client_key, hmac.digest(stored_key, spoken, self._hash))
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        self._signature = hmac.digest(server_key, spoken, self._hash)
        return f"{without_proof},p={_base64(proof)}".encode()

    def verify(self, last: bytes) -> None:
        """KafkaError unless the broker has proven that it has the credential."""
        fields = attributes(_text(last))
        if not hmac.compare_digest(fields.get("v", "").encode(), _base64(self._signature).encode()):
            raise refused(fields.get("e", "the broker does not know the password"))


def attributes(text: str) -> dict[str, str]:
    """`n=user,r=nonce` by their letters."""
    return {part[:1]: part[2:] for part in text.split(",")}


def new_nonce() -> str:
    return _base64(secrets.token_bytes(NONCE_BYTES))


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def decoded(text: str) -> bytes:
    """Base64, strictly; ValueError otherwise."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def _text(data: bytes) -> str:
    """A broker's message as text; KafkaError if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise refused("the broker's answer is not text") from None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
