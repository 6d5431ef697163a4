"""SASL PLAIN (RFC 4616): user and password in the clear, so use it with TLS only.

    [authzid] NUL user NUL password

The listener's `sasl.jaas.config` lists the users as user_<name>="password".
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from ottla.auth.principal import user
from ottla.auth.sasl import SaslStep, refused

USER_OPTION: Final = "user_"
PARTS: Final = 3


class PlainMechanism:
    """PLAIN on a listener, with its users."""

    name = "PLAIN"

    def __init__(self, passwords: Mapping[str, str], *, max_reauth_ms: int = 0) -> None:
        self.max_reauth_ms = max_reauth_ms
        self._passwords = {name: password.encode() for name, password in passwords.items()}

    @classmethod
    def of_options(cls, options: Mapping[str, str], *, max_reauth_ms: int = 0) -> PlainMechanism:
        passwords = {
            name.removeprefix(USER_OPTION): password
            for name, password in options.items()
            if name.startswith(USER_OPTION)
        }
        return cls(passwords, max_reauth_ms=max_reauth_ms)

    def exchange(self) -> PlainExchange:
        return PlainExchange(self._passwords)


class PlainExchange:
    """One token decides."""

    def __init__(self, passwords: Mapping[str, bytes]) -> None:
        self._passwords = passwords

    def step(self, token: bytes, now_ms: int) -> SaslStep:
        parts = token.split(b"\0")
        if len(parts) != PARTS:
            raise refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authzid, name, password = parts
        if not name:
            raise refused("Authentication failed: username not specified")
        if not password:
            raise refused("Authentication failed: password not specified")
        # CVE-2017-12610: a client that asks to act for another user is refused.
        if authzid not in (b"", name):
            raise refused(
                "Authentication failed: Client requested an authorization id that is different"
                " from username"
            )
        who = name.decode(errors="surrogateescape")  # bytes that are not UTF-8 match no user
        known = self._passwords.get(who)
        # In constant time (CVE-2021-38153), and also for unknown users, so that the time taken
        # does not show which users exist.
        if not hmac.compare_digest(known or b"\0", password):
            raise refused("Authentication failed: Invalid username or password")
        return SaslStep(principal=user(who))
