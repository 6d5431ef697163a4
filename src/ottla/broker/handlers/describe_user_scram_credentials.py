"""DescribeUserScramCredentials (key 50), v0 (KIP-554).

Nobody has a SCRAM password here, as there is no SASL yet. Kafka's own kafka-configs asks for them
whenever it describes a user's quotas, and fails if nobody answers.
"""

from __future__ import annotations

from collections import Counter

from ottla.broker.context import Context
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    ctx: Context, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    times = Counter(each.name for each in request.users or ())
    return DescribeUserScramCredentialsResponse(
        results=[_missing(user, count) for user, count in times.items()]
    )


def _missing(user: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a request: {user}"
    else:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {user}"
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message)
