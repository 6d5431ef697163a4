"""SASL PLAIN (RFC 4616): user and password in the clear, so meant for TLS.

    [authzid] NUL user NUL password

Users stand in the listener's `sasl.jaas.config` as user_<name>="password".
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
    """One token, one verdict."""

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
        # CVE-2017-12610: who asks to act for somebody else is refused, not obeyed.
        if authzid not in (b"", name):
            raise refused(
                "Authentication failed: Client requested an authorization id that is different"
                " from username"
            )
        who = name.decode(errors="surrogateescape")  # what is not UTF-8 equals no user's name
        known = self._passwords.get(who)
        # Compared in constant time (CVE-2021-38153), and also where there is no such user.
        if not hmac.compare_digest(known or b"\0", password):
            raise refused("Authentication failed: Invalid username or password")
        return SaslStep(principal=user(who))
