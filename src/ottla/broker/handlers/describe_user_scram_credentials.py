"""DescribeUserScramCredentials (key 50), v0 (KIP-554).

Lists the users that have SCRAM credentials, with their mechanisms and iterations; no list of names
means all users.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ottla.broker.request_context import RequestContext
from ottla.cluster.credentials import scram_users
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def handle(
    ctx: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    known = scram_users(ctx.broker.image)
    times = Counter(user.name for user in request.users or ()) or Counter(known.keys())
    return DescribeUserScramCredentialsResponse(
        results=[_result(user, count, known.get(user)) for user, count in times.items()]
    )


def _result(
    user: str, count: int, mechanisms: dict[str, int] | None
) -> DescribeUserScramCredentialsResult:
    if count > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a request: {user}"
    elif mechanisms is None:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {user}"
    else:
        infos = [
            CredentialInfo(number, mechanisms[name])
            for number, name in MECHANISMS.items()
            if name in mechanisms
        ]
        return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message)
