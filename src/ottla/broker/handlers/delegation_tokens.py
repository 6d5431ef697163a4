"""CreateDelegationToken (key 38, v1 to v3), RenewDelegationToken (key 39, v1 to v2),
ExpireDelegationToken (key 40, v1 to v2) and DescribeDelegationToken (key 41, v1 to v3) (KIP-48).

Creates, renews, expires and lists delegation tokens. The client must be authenticated, but not by a
token. The owner of a token, its requester and its renewers may renew and expire it.

v3  tokens for another owner (KIP-373)
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable
from dataclasses import replace

from ottla.auth.acls import AclOperation, AclResource
from ottla.auth.principal import ANONYMOUS, USER_TYPE, Principal
from ottla.auth.tokens import DelegationToken, token_hmac
from ottla.broker.request_context import RequestContext
from ottla.cluster.layout import encode_uuid
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
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

Request = (
    CreateDelegationTokenRequest
    | RenewDelegationTokenRequest
    | ExpireDelegationTokenRequest
    | DescribeDelegationTokenRequest
)
Response = (
    CreateDelegationTokenResponse
    | RenewDelegationTokenResponse
    | ExpireDelegationTokenResponse
    | DescribeDelegationTokenResponse
)


def handle(ctx: RequestContext, request: Request) -> Response | Awaitable[Response]:
    match request:
        case CreateDelegationTokenRequest():
            return _create(ctx, request)
        case RenewDelegationTokenRequest():
            return _renew(ctx, request)
        case ExpireDelegationTokenRequest():
            return _expire(ctx, request)
    return _describe(ctx, request)


async def _create(
    ctx: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    requester = ctx.session.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or USER_TYPE, request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=-1,
        expiry_timestamp=-1,
        max_timestamp=-1,
    )
    try:
        _check_client(ctx)
        if owner != requester and not ctx.may(
            AclOperation.CREATE_TOKENS, AclResource.USER, str(owner)
        ):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if any(renewer.principal_type != USER_TYPE for renewer in request.renewers):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        secret = _secret(ctx)
        renewers = tuple(
            Principal(renewer.principal_type, renewer.principal_name)
            for renewer in request.renewers
        )
        token = _new(ctx, owner, renewers, request.max_lifetime)
        await ctx.broker.settings.alter_token(token.id, lambda present: token)
    except KafkaError as error:
        response.error_code = error.code
        return response
    response.issue_timestamp = token.issued_ms
    response.expiry_timestamp = token.expires_ms
    response.max_timestamp = token.max_ms
    response.token_id = token.id
    response.hmac = token_hmac(secret, token.id)
    return response


def _new(
    ctx: RequestContext, owner: Principal, renewers: tuple[Principal, ...], lifetime_ms: int
) -> DelegationToken:
    config = ctx.broker.config
    longest_ms = config.delegation_token_max_lifetime_ms
    max_ms = ctx.now_ms + (longest_ms if lifetime_ms <= 0 else min(lifetime_ms, longest_ms))
    return DelegationToken(
        id=encode_uuid(secrets.token_bytes(16)),
        owner=Principal(owner.type, owner.name),
        requester=ctx.session.principal,
        renewers=renewers,
        issued_ms=ctx.now_ms,
        expires_ms=min(max_ms, ctx.now_ms + config.delegation_token_expiry_time_ms),
        max_ms=max_ms,
    )


async def _renew(
    ctx: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    period_ms = request.renew_period
    if period_ms < 0:
        period_ms = ctx.broker.config.delegation_token_expiry_time_ms
    code, expires_ms = await _altered(ctx, request.hmac, period_ms)
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp=expires_ms)


async def _expire(
    ctx: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    period_ms = request.expiry_time_period
    code, expires_ms = await _altered(ctx, request.hmac, None if period_ms < 0 else period_ms)
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp=expires_ms)


async def _altered(
    ctx: RequestContext, expected: bytes, period_ms: int | None
) -> tuple[ErrorCode, int]:
    """Let a token expire `period_ms` from now, or at once (None): (error code, expiry time)."""
    now_ms = ctx.now_ms

    def change(token: DelegationToken | None) -> DelegationToken | None:
        if token is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        if not token.managed_by(ctx.session.principal):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        if period_ms is None:
            return None
        if token.max_ms < now_ms or token.expires_ms < now_ms:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return replace(token, expires_ms=min(token.max_ms, now_ms + period_ms))

    try:
        _check_client(ctx)
        token_id = _find(ctx, _secret(ctx), expected)
        token = await ctx.broker.settings.alter_token(token_id, change)
    except KafkaError as error:
        return error.code, -1
    return ErrorCode.NONE, now_ms if token is None else token.expires_ms


def _find(ctx: RequestContext, secret: str, expected: bytes) -> str:
    for token_id in ctx.broker.image.tokens:
        if hmac.compare_digest(token_hmac(secret, token_id), expected):
            return token_id
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)


def _describe(
    ctx: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    try:
        _check_client(ctx)
        secret = _secret(ctx)
    except KafkaError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)
    owners = None
    if request.owners is not None:
        owners = [Principal(owner.principal_type, owner.principal_name) for owner in request.owners]
    tokens = [stored.token for stored in ctx.broker.image.tokens.values()]
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, secret)
            for token in tokens
            if (owners is None or token.owned_by(owners)) and _may_see(ctx, token)
        ]
    )


def _may_see(ctx: RequestContext, token: DelegationToken) -> bool:
    if token.managed_by(ctx.session.principal):
        return True
    if ctx.rights is None:
        return False  # without an authorizer, tokens are still visible to their owners only
    describe, tokens = AclOperation.DESCRIBE, AclOperation.DESCRIBE_TOKENS
    return ctx.may(describe, AclResource.DELEGATION_TOKEN, token.id, quiet=True) or ctx.may(
        tokens, AclResource.USER, str(token.owner), quiet=True
    )


def _described(token: DelegationToken, secret: str) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=token_hmac(secret, token.id),
        renewers=[
            DescribedDelegationTokenRenewer(renewer.type, renewer.name)
            for renewer in token.renewers
        ],
    )


def _check_client(ctx: RequestContext) -> None:
    """Refuse clients that have not authenticated, or that did so by a token."""
    principal = ctx.session.principal
    protocols = ctx.broker.config.listener_security_protocol_map
    protocol = protocols.get(ctx.session.listener, "PLAINTEXT")
    if (
        protocol == "PLAINTEXT"
        or (protocol == "SSL" and principal == ANONYMOUS)
        or principal.token_authenticated
    ):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _secret(ctx: RequestContext) -> str:
    secret = ctx.broker.config.delegation_token_secret_key
    if secret is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return secret
