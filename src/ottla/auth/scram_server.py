"""The server's side of SCRAM: it challenges the client's first message and verifies its proof.

An unknown user gets a challenge like any other and fails where a wrong password fails, so that
a client cannot find out which users exist. A delegation token (KIP-48) is a user whose name is the
token's id; the principal is its owner.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ottla.auth.principal import Principal, user
from ottla.auth.sasl import SaslStep, refused
from ottla.auth.scram import (
    HASHES,
    ITERATIONS_MIN,
    NO_BINDING,
    SALT_BYTES,
    TOKEN_EXTENSION,
    ScramCredential,
    decoded,
    new_nonce,
    xor,
)
from ottla.errors import KafkaError

_NAME: Final = r"(?:[^\x00=,]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    r"(?P<extensions>(?:,[A-Za-z]+=[^\x00,]+)*))\Z"
)
_FINAL: Final = re.compile(
    r"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    r"(?:,[A-Za-z]+=[^\x00,]+)*?),p=(?P<proof>[A-Za-z0-9+/=]+)\Z"
)


class ScramShape(NamedTuple):
    """What a challenge shows of a credential. Salts have 24, 26 or 64 bytes, by tool."""

    salt_bytes: int
    iterations: int


TOKEN_SHAPE: Final = ScramShape(SALT_BYTES, ITERATIONS_MIN)


@dataclass(slots=True, frozen=True)
class TokenCredential:
    """A delegation token as a SCRAM user."""

    credential: ScramCredential
    owner: Principal
    expires_at_ms: int


class ScramUsers(Protocol):
    """Where credentials come from: the cluster's metadata."""

    def scram(self, mechanism: str, name: str) -> ScramCredential | None: ...

    def token(self, mechanism: str, token_id: str) -> TokenCredential | None: ...

    def shapes(self, mechanism: str) -> Collection[ScramShape]:
        """The different shapes that users of this mechanism have."""
        ...


class ScramMechanism:
    """SCRAM-SHA-256 or -512 on a listener."""

    def __init__(
        self, name: str, users: ScramUsers, *, secret: bytes, max_reauth_ms: int = 0
    ) -> None:
        self.name = name
        self.max_reauth_ms = max_reauth_ms
        self._users = users
        self._secret = secret  # salts of users that do not exist come from it

    def exchange(self) -> ScramServerExchange:
        return ScramServerExchange(self.name, self._users, self._secret)


class ScramServerExchange:
    """Two tokens from the client: its name and nonce, then its proof."""

    def __init__(
        self, mechanism: str, users: ScramUsers, secret: bytes, nonce: str | None = None
    ) -> None:
        self._mechanism = mechanism
        self._users = users
        self._secret = secret
        self._nonce = nonce or new_nonce()
        self._header = NO_BINDING
        self._spoken = ""  # what both sides sign
        self._principal: Principal | None = None
        self._expires_at_ms: int | None = None
        self._credential: ScramCredential | None = None

    def step(self, token: bytes, now_ms: int) -> SaslStep:
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise self._refused() from None
        if self._credential is None:
            return SaslStep(self._challenge(text, now_ms))
        return self._verdict(text)

    def _challenge(self, text: str, now_ms: int) -> bytes:
        match = _FIRST.match(text)
        if match is None:
            raise self._refused()
        name = _unescaped(match["name"])
        # CVE-2017-12610: a client that asks to act for another user is refused.
        if match["authzid"] is not None and _unescaped(match["authzid"]) != name:
            raise refused(
                "Authentication failed: Client requested an authorization id that is different"
                " from username"
            )
        is_token = f"{TOKEN_EXTENSION}=true" in match["extensions"].split(",")
        if is_token:
            self._take_token(name, now_ms)
        else:
            found = self._users.scram(self._mechanism, name)
            self._principal = None if found is None else user(name)
            self._credential = found
        if self._credential is None:
            shapes = () if is_token else self._users.shapes(self._mechanism)
            self._credential = self._believable(name, shapes)
        self._header = match["header"]
        self._nonce = match["nonce"] + self._nonce
        salt = base64.b64encode(self._credential.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._spoken = f"{match['bare']},{challenge}"
        return challenge.encode()

    def _take_token(self, token_id: str, now_ms: int) -> None:
        token = self._users.token(self._mechanism, token_id)
        if token is None or token.expires_at_ms <= now_ms:
            return
        self._credential = token.credential
        self._principal = Principal(token.owner.type, token.owner.name, token_authenticated=True)
        self._expires_at_ms = token.expires_at_ms

    def _verdict(self, text: str) -> SaslStep:
        match = _FINAL.match(text)
        if match is None:
            raise self._refused()
        # CVE-2024-56128: compare the whole nonce, or an old proof could be replayed.
        if not hmac.compare_digest(match["nonce"], self._nonce):
            raise self._refused()
        binding = base64.b64encode(self._header.encode()).decode()
        if match["binding"] != binding:
            raise self._refused()
        credential = self._credential
        assert credential is not None
        name = HASHES[self._mechanism]
        spoken = f"{self._spoken},{match['without_proof']}".encode()
        try:
            signature = hmac.digest(credential.stored_key, spoken, name)
            client_key = xor(decoded(match["proof"]), signature)
        except ValueError:
            raise self._refused() from None
        known = hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key)
        if not known or self._principal is None:
            raise self._refused()
        proof = base64.b64encode(hmac.digest(credential.server_key, spoken, name))
        return SaslStep(b"v=" + proof, self._principal, self._expires_at_ms)

    def _believable(self, name: str, shapes: Collection[ScramShape]) -> ScramCredential:
        """A credential for an unknown user that looks real: the same at each try, and in a shape
        that real users have. No password fits it."""
        seed = f"{self._mechanism}:{name}"
        # Rendezvous hashing: the choice stays the same unless a new shape appears and wins.
        shape = max(shapes, key=lambda shape: self._keyed(f"{seed}:{shape}"), default=TOKEN_SHAPE)
        salt = self._keyed(f"{seed}:salt")
        while len(salt) < shape.salt_bytes:
            salt += self._keyed(f"{seed}:salt:{len(salt)}")
        key = hmac.digest(self._secret, f"{seed}:key".encode(), HASHES[self._mechanism])
        return ScramCredential(salt[: shape.salt_bytes], key, key, shape.iterations)

    def _keyed(self, text: str) -> bytes:
        return hmac.digest(self._secret, text.encode(), "sha512")

    def _refused(self) -> KafkaError:
        """The same message for all failures: it does not say whether the user exists."""
        return refused(
            "Authentication failed during authentication due to invalid credentials with SASL"
            f" mechanism {self._mechanism}"
        )


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
