"""Delegation tokens (KIP-48): credentials that expire and can be handed on."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.auth.principal import Principal
from ottla.auth.tokens import DelegationToken
from ottla.client.admin_session import AdminSession
from ottla.client.protocol.connection import check
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


@dataclass(slots=True, frozen=True)
class IssuedToken:
    """A token with its password: log in by SCRAM with its id and `password`, and tokenauth=true."""

    token: DelegationToken
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        return base64.b64encode(self.hmac).decode()


class DelegationTokenAdmin:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    def create(
        self,
        *,
        renewers: Sequence[Principal] = (),
        owner: Principal | None = None,
        max_lifetime_ms: int = -1,
    ) -> IssuedToken:
        """For this user or for another owner (KIP-373). -1 is the brokers' maximum lifetime."""
        request = CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else owner.type,
            owner_principal_name=None if owner is None else owner.name,
            renewers=[CreatableRenewers(renewer.type, renewer.name) for renewer in renewers],
            max_lifetime=max_lifetime_ms,
        )
        key = ApiKey.CREATE_DELEGATION_TOKEN
        answer = self._session.connections.call(request, key, CreateDelegationTokenResponse)
        check(answer.error_code, "", key)
        made = Principal(answer.principal_type, answer.principal_name)
        token = DelegationToken(
            answer.token_id,
            made,
            # Only brokers that know KIP-373 say who requested the token.
            _principal(
                answer.token_requester_principal_type, answer.token_requester_principal_name, made
            ),
            tuple(renewers),
            answer.issue_timestamp,
            answer.expiry_timestamp,
            answer.max_timestamp,
        )
        return IssuedToken(token, answer.hmac)

    def renew(self, hmac: bytes, period_ms: int = -1) -> int:
        """Returns the new expiry. -1 is the brokers' delegation.token.expiry.time.ms."""
        key = ApiKey.RENEW_DELEGATION_TOKEN
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period=period_ms)
        answer = self._session.connections.call(request, key, RenewDelegationTokenResponse)
        check(answer.error_code, "", key)
        return answer.expiry_timestamp

    def expire(self, hmac: bytes, period_ms: int = -1) -> int:
        """Returns the new expiry. -1 expires the token at once."""
        key = ApiKey.EXPIRE_DELEGATION_TOKEN
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period=period_ms)
        answer = self._session.connections.call(request, key, ExpireDelegationTokenResponse)
        check(answer.error_code, "", key)
        return answer.expiry_timestamp

    def describe(self, owners: Sequence[Principal] | None = None) -> list[IssuedToken]:
        """The tokens of these owners, or all that this user may see."""
        request = DescribeDelegationTokenRequest(
            owners=None
            if owners is None
            else [
                DescribeDelegationTokenOwner(principal.type, principal.name) for principal in owners
            ]
        )
        key = ApiKey.DESCRIBE_DELEGATION_TOKEN
        answer = self._session.connections.call(request, key, DescribeDelegationTokenResponse)
        check(answer.error_code, "", key)
        return [
            IssuedToken(
                DelegationToken(
                    token.token_id,
                    owner := Principal(token.principal_type, token.principal_name),
                    _principal(
                        token.token_requester_principal_type,
                        token.token_requester_principal_name,
                        owner,
                    ),
                    tuple(Principal(of.principal_type, of.principal_name) for of in token.renewers),
                    token.issue_timestamp,
                    token.expiry_timestamp,
                    token.max_timestamp,
                ),
                token.hmac,
            )
            for token in answer.tokens
        ]


def _principal(kind: str, name: str, fallback: Principal) -> Principal:
    return Principal(kind, name) if kind else fallback
