"""Client quotas (KIP-546), which librdkafka's client lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.admin_session import AdminSession
from ottla.client.protocol.connection import check
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

Entity = Mapping[str, str | None]
"""Entity types and names: {"user": "alice", "client-id": None}; None is the default entity."""

_EXACT, _DEFAULT, _ANY = range(3)
ANY: Final = object()


@dataclass(slots=True, frozen=True)
class Quota:
    entity: dict[str, str | None]
    values: dict[str, float]


class QuotaAdmin:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    def describe(self, entity: Mapping[str, object], *, strict: bool = True) -> list[Quota]:
        """The quotas of matching entities; ANY matches every name, None the default entity."""
        components = [
            ComponentData(
                kind,
                _ANY if name is ANY else _DEFAULT if name is None else _EXACT,
                str(name) if name is not ANY and name is not None else None,
            )
            for kind, name in entity.items()
        ]
        answer = self._session.connections.call(
            DescribeClientQuotasRequest(components=components, strict=strict),
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            DescribeClientQuotasResponse,
        )
        check(answer.error_code, answer.error_message, ApiKey.DESCRIBE_CLIENT_QUOTAS)
        return [
            Quota(
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in answer.entries or ()
        ]

    def alter(
        self, entity: Entity, *, set: Mapping[str, float] | None = None, delete: Iterable[str] = ()
    ) -> None:
        operations = [
            *(OpData(key, value, False) for key, value in (set or {}).items()),
            *(OpData(key, 0.0, True) for key in delete),
        ]
        entry = EntryData([EntityData(kind, name) for kind, name in entity.items()], operations)
        answer = self._session.connections.call(
            AlterClientQuotasRequest(entries=[entry]),
            ApiKey.ALTER_CLIENT_QUOTAS,
            AlterClientQuotasResponse,
        )
        for result in answer.entries:
            check(result.error_code, result.error_message, ApiKey.ALTER_CLIENT_QUOTAS)
