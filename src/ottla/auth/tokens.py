"""Delegation tokens (KIP-48): credentials that a user requests, passes on, and that expire.

A token is a SCRAM user whose name is the token's id and whose password is an HMAC of that id with
`delegation.token.secret.key`, which all brokers know: so no password is stored.
"""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass

from ottla.auth.principal import Principal


@dataclass(slots=True, frozen=True)
class DelegationToken:
    """What the cluster stores of a token."""

    id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int  # it can't be renewed beyond this

    def managed_by(self, principal: Principal) -> bool:
        """True if this principal may renew or expire the token."""
        return principal in (self.owner, self.requester) or principal in self.renewers

    def owned_by(self, principals: list[Principal]) -> bool:
        return self.owner in principals


def token_hmac(secret: str, token_id: str) -> bytes:
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(secret: str, token_id: str) -> str:
    """The token's password for SCRAM."""
    return base64.b64encode(token_hmac(secret, token_id)).decode()
