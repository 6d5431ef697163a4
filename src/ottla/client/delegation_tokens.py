"""Delegation tokens (KIP-48): credentials with an end, which a user asks for and hands on."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.auth.principal import Principal
from ottla.auth.tokens import DelegationToken
from ottla.client.protocol.connection import check
from ottla.client.session import Session
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
    """A token with its password: a SCRAM login with its id and `password`, and tokenauth=true."""

    token: DelegationToken
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        return base64.b64encode(self.hmac).decode()


class DelegationTokens:
    def __init__(self, session: Session) -> None:
        self._session = session

    def create(
        self,
        *,
        renewers: Sequence[Principal] = (),
        owner: Principal | None = None,
        max_lifetime_ms: int = -1,
    ) -> IssuedToken:
        """For us, or for another owner (KIP-373). -1 is as long as the brokers allow."""
        request = CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else owner.type,
            owner_principal_name=None if owner is None else owner.name,
            renewers=[CreatableRenewers(each.type, each.name) for each in renewers],
            max_lifetime=max_lifetime_ms,
        )
        key = ApiKey.CREATE_DELEGATION_TOKEN
        answer = self._session.lines.call(request, key, CreateDelegationTokenResponse)
        check(answer.error_code, "", key)
        made = Principal(answer.principal_type, answer.principal_name)
        token = DelegationToken(
            answer.token_id,
            made,
            # Only brokers that know of other owners say who asked.
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
        """When it ends now. -1 is the brokers' delegation.token.expiry.time.ms."""
        key = ApiKey.RENEW_DELEGATION_TOKEN
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period=period_ms)
        answer = self._session.lines.call(request, key, RenewDelegationTokenResponse)
        check(answer.error_code, "", key)
        return answer.expiry_timestamp

    def expire(self, hmac: bytes, period_ms: int = -1) -> int:
        """When it ends now. -1 is at once."""
        key = ApiKey.EXPIRE_DELEGATION_TOKEN
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period=period_ms)
        answer = self._session.lines.call(request, key, ExpireDelegationTokenResponse)
        check(answer.error_code, "", key)
        return answer.expiry_timestamp

    def describe(self, owners: Sequence[Principal] | None = None) -> list[IssuedToken]:
        """Those of these owners, or all, as far as we may see them."""
        request = DescribeDelegationTokenRequest(
            owners=None
            if owners is None
            else [DescribeDelegationTokenOwner(each.type, each.name) for each in owners]
        )
        key = ApiKey.DESCRIBE_DELEGATION_TOKEN
        answer = self._session.lines.call(request, key, DescribeDelegationTokenResponse)
        check(answer.error_code, "", key)
        return [
            IssuedToken(
                DelegationToken(
                    each.token_id,
                    owner := Principal(each.principal_type, each.principal_name),
                    _principal(
                        each.token_requester_principal_type,
                        each.token_requester_principal_name,
                        owner,
                    ),
                    tuple(Principal(of.principal_type, of.principal_name) for of in each.renewers),
                    each.issue_timestamp,
                    each.expiry_timestamp,
                    each.max_timestamp,
                ),
                each.hmac,
            )
            for each in answer.tokens
        ]


def _principal(kind: str, name: str, otherwise: Principal) -> Principal:
    return Principal(kind, name) if kind else otherwise
