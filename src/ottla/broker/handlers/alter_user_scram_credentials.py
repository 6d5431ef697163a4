"""AlterUserScramCredentials (key 51), v0 (KIP-554).

Sets and deletes SCRAM credentials. The client sends a salt and the salted password, so the broker
never sees a password. The changes to one user are applied together or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping

from ottla.auth.scram import ITERATIONS_MAX, ITERATIONS_MIN, ScramCredential
from ottla.broker.handlers.describe_user_scram_credentials import MECHANISMS
from ottla.broker.request_context import RequestContext
from ottla.cluster.credentials import user_entity
from ottla.cluster.image import QuotaEntity
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

ScramAlteration = ScramCredentialDeletion | ScramCredentialUpsertion


def handle(
    ctx: RequestContext, request: AlterUserScramCredentialsRequest
) -> Awaitable[AlterUserScramCredentialsResponse]:
    return _alter(ctx, [*request.deletions, *request.upsertions])


async def _alter(
    ctx: RequestContext, alterations: list[ScramAlteration]
) -> AlterUserScramCredentialsResponse:
    by_user: dict[str, list[ScramAlteration]] = {}
    for alteration in alterations:
        by_user.setdefault(alteration.name, []).append(alteration)
    results: dict[str, KafkaError | None] = {}
    for user, user_alterations in by_user.items():
        try:
            _check(ctx, user, user_alterations)
            results[user] = None
        except KafkaError as error:
            results[user] = error
    valid_users = {user_entity(user): user for user, failure in results.items() if failure is None}

    def change(entity: QuotaEntity, present: Mapping[str, str]) -> Mapping[str, str]:
        return _altered(present, by_user[valid_users[entity]])

    try:
        outcomes = await ctx.broker.settings.alter_quotas(valid_users, change)
        results |= {valid_users[entity]: failure for entity, failure in outcomes.items()}
    except KafkaError as error:
        results |= dict.fromkeys(valid_users.values(), error)
    return AlterUserScramCredentialsResponse(
        results=[_result(user, failure) for user, failure in results.items()]
    )


def _altered(present: Mapping[str, str], alterations: list[ScramAlteration]) -> dict[str, str]:
    values = dict(present)
    for alteration in alterations:
        mechanism = MECHANISMS[alteration.mechanism]
        if isinstance(alteration, ScramCredentialUpsertion):
            salted = (alteration.salt, alteration.salted_password, alteration.iterations)
            values[mechanism] = str(ScramCredential.of_salted(mechanism, *salted))
        elif values.pop(mechanism, None) is None:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
    return values


def _check(ctx: RequestContext, user: str, alterations: list[ScramAlteration]) -> None:
    if ctx.session.principal.token_authenticated:
        raise KafkaError(
            ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
            "A delegation token may not alter credentials",
        )
    if not user:
        raise _unacceptable("Username must not be empty")
    if max(Counter(alteration.mechanism for alteration in alterations).values()) > 1:
        raise KafkaError(
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        )
    for alteration in alterations:
        if alteration.mechanism not in MECHANISMS:
            raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if isinstance(alteration, ScramCredentialUpsertion):
            if alteration.iterations < ITERATIONS_MIN:
                raise _unacceptable("Too few iterations")
            if alteration.iterations > ITERATIONS_MAX:
                raise _unacceptable("Too many iterations")
            if not alteration.salt or not alteration.salted_password:
                raise _unacceptable("Empty salt or password")


def _unacceptable(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)


def _result(user: str, failure: KafkaError | None) -> AlterUserScramCredentialsResult:
    if failure is None:
        return AlterUserScramCredentialsResult(user)
    return AlterUserScramCredentialsResult(user, failure.code, failure.message or None)
