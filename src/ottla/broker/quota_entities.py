"""The entities of client quotas, and the values a quota may have: AlterClientQuotas (KIP-546).

An entity is a user, a client id, both, or an address; the name None is the default of its kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.cluster.image import QuotaEntity
from ottla.errors import ErrorCode, KafkaError

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (CLIENT_ID, USER, IP)  # in the order in which Kafka answers

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

CLIENT_QUOTAS: Final = frozenset(
    {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE}
)
IP_QUOTAS: Final = frozenset({CONNECTION_CREATION_RATE})

# The largest value of those that are whole numbers, and what Kafka calls their type.
WHOLE: Final = {
    PRODUCER_BYTE_RATE: (2**63 - 1, "a LONG"),
    CONSUMER_BYTE_RATE: (2**63 - 1, "a LONG"),
    CONNECTION_CREATION_RATE: (2**31 - 1, "an INT"),
}
FRACTION_MAX: Final = 1e-6

QuotaAlteration = tuple[str, float, bool]
"""A quota's name, its new value, and True if it is to be removed instead."""


def quota_entity_of(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity as it is stored. If a type is named twice, the last name counts."""
    named = dict(parts)
    order = {kind: index for index, kind in enumerate(ENTITY_TYPES)}
    return tuple(sorted(named.items(), key=lambda part: order.get(part[0], len(order))))


def check_entity(entity: QuotaEntity) -> None:
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    kinds = {kind for kind, _ in entity}
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP in kinds and len(kinds) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity should not be combined with User or"
            " ClientId"
        )


def altered_quotas(
    entity: QuotaEntity, present: Mapping[str, str], alterations: Sequence[QuotaAlteration]
) -> dict[str, str]:
    """The quotas of an entity after these alterations; INVALID_REQUEST if one is not valid."""
    names = [name for name, _, _ in alterations]
    if len(set(names)) != len(names):
        raise duplicate_entity(entity)
    values = dict(present)
    for name, value, remove in alterations:
        if remove:
            values.pop(name, None)
            continue
        _check_value(entity, name, value)
        values[name] = repr(value)
    return values


def duplicate_entity(entity: QuotaEntity) -> KafkaError:
    shown = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return _invalid(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})")


def _check_value(entity: QuotaEntity, name: str, value: float) -> None:
    if name not in (IP_QUOTAS if entity[0][0] == IP else CLIENT_QUOTAS):
        raise _invalid(f"Invalid configuration key {name}")
    if math.isnan(value) or value <= 0:  # Kafka takes NaN for a limit of 0
        raise _invalid(f"Quota {name} must be greater than 0")
    if name in WHOLE:
        value_max, kind = WHOLE[name]
        if value > float(value_max):
            raise _invalid(f"Proposed value for {name} is too large for {kind}.")
        if abs(value - round(value)) > FRACTION_MAX:
            raise _invalid(f"{name} cannot be a fractional value.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
