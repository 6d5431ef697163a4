"""FindCoordinator for groups and transactional ids, with retries while a coordinator loads."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import partial
from typing import Final

from ottla.client.admin_session import AdminSession
from ottla.client.protocol.connection import check
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.client.protocol.retries import with_retries
from ottla.wire.apis import ApiKey
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

BATCHES_SINCE: Final = 4  # KIP-699: many keys in one request


class KeyType(IntEnum):
    """FindCoordinator's key types."""

    GROUP = 0
    TRANSACTION = 1


def coordinators_of(session: AdminSession, kind: KeyType, keys: Iterable[str]) -> dict[str, int]:
    """The id of the coordinator, by key."""
    distinct_keys = list(dict.fromkeys(keys))
    connections = session.connections
    _, newest = connections.first.versions.get(ApiKey.FIND_COORDINATOR, (0, 0))
    batches = [distinct_keys] if newest >= BATCHES_SINCE else [[key] for key in distinct_keys]
    found: dict[str, int] = {}
    for batch in filter(None, batches):
        found |= with_retries(session.timeout_s, partial(_ask, connections, kind, batch))
    return found


def by_coordinator(
    session: AdminSession, kind: KeyType, keys: Iterable[str]
) -> dict[int, list[str]]:
    """Keys grouped by coordinator: one request for each coordinator."""
    brokers: dict[int, list[str]] = {}
    for key, node_id in coordinators_of(session, kind, keys).items():
        brokers.setdefault(node_id, []).append(key)
    return brokers


def coordinator_on(connections: ConnectionPool, kind: KeyType, key: str) -> int:
    """Asked once."""
    return _ask(connections, kind, [key])[key]


def _ask(connections: ConnectionPool, kind: KeyType, keys: list[str]) -> dict[str, int]:
    request = FindCoordinatorRequest(key=keys[0], key_type=kind, coordinator_keys=keys)
    answer = connections.call(request, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse)
    if not answer.coordinators:
        check(answer.error_code, answer.error_message, ApiKey.FIND_COORDINATOR, keys[0])
        return {keys[0]: answer.node_id}
    for coordinator in answer.coordinators:
        check(
            coordinator.error_code,
            coordinator.error_message,
            ApiKey.FIND_COORDINATOR,
            coordinator.key,
        )
    return {coordinator.key: coordinator.node_id for coordinator in answer.coordinators}
