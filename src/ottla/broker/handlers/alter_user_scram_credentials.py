"""AlterUserScramCredentials (key 51), v0 (KIP-554).

Sets and deletes SCRAM credentials. The client sends a salt and the salted password, so nobody here
ever sees a password. All that a request says of a user is done, or nothing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping

from ottla.auth.scram import ITERATIONS_MAX, ITERATIONS_MIN, ScramCredential
from ottla.broker.context import Context
from ottla.broker.handlers.describe_user_scram_credentials import MECHANISMS
from ottla.cluster.access import user_entity
from ottla.cluster.image import QuotaEntity
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

Alteration = ScramCredentialDeletion | ScramCredentialUpsertion


def handle(
    ctx: Context, request: AlterUserScramCredentialsRequest
) -> Awaitable[AlterUserScramCredentialsResponse]:
    return _alter(ctx, [*request.deletions, *request.upsertions])


async def _alter(ctx: Context, alterations: list[Alteration]) -> AlterUserScramCredentialsResponse:
    by_user: dict[str, list[Alteration]] = {}
    for each in alterations:
        by_user.setdefault(each.name, []).append(each)
    results: dict[str, KafkaError | None] = {}
    for user, wishes in by_user.items():
        try:
            _check(ctx, user, wishes)
            results[user] = None
        except KafkaError as error:
            results[user] = error
    sound = {user_entity(user): user for user, failure in results.items() if failure is None}

    def change(entity: QuotaEntity, present: Mapping[str, str]) -> Mapping[str, str]:
        return _altered(present, by_user[sound[entity]])

    try:
        outcomes = await ctx.broker.settings.alter_quotas(sound, change)
        results |= {sound[entity]: failure for entity, failure in outcomes.items()}
    except KafkaError as error:
        results |= dict.fromkeys(sound.values(), error)
    return AlterUserScramCredentialsResponse(
        results=[_result(user, failure) for user, failure in results.items()]
    )


def _altered(present: Mapping[str, str], wishes: list[Alteration]) -> dict[str, str]:
    values = dict(present)
    for wish in wishes:
        mechanism = MECHANISMS[wish.mechanism]
        if isinstance(wish, ScramCredentialUpsertion):
            salted = (wish.salt, wish.salted_password, wish.iterations)
            values[mechanism] = str(ScramCredential.of_salted(mechanism, *salted))
        elif values.pop(mechanism, None) is None:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
    return values


def _check(ctx: Context, user: str, wishes: list[Alteration]) -> None:
    if ctx.session.principal.token_authenticated:
        raise KafkaError(
            ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
            "A delegation token may not alter credentials",
        )
    if not user:
        raise _unacceptable("Username must not be empty")
    if max(Counter(wish.mechanism for wish in wishes).values()) > 1:
        raise KafkaError(
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        )
    for wish in wishes:
        if wish.mechanism not in MECHANISMS:
            raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if isinstance(wish, ScramCredentialUpsertion):
            if wish.iterations < ITERATIONS_MIN:
                raise _unacceptable("Too few iterations")
            if wish.iterations > ITERATIONS_MAX:
                raise _unacceptable("Too many iterations")
            if not wish.salt or not wish.salted_password:
                raise _unacceptable("Empty salt or password")


def _unacceptable(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)


def _result(user: str, failure: KafkaError | None) -> AlterUserScramCredentialsResult:
    if failure is None:
        return AlterUserScramCredentialsResult(user)
    return AlterUserScramCredentialsResult(user, failure.code, failure.message or None)
