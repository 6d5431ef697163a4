"""Which broker coordinates a group or a transaction, and patience while it takes its office."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import partial
from typing import Final

from ottla.client.protocol.connection import check
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.client.protocol.retries import patiently
from ottla.client.session import Session
from ottla.wire.apis import ApiKey
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

BATCHES_SINCE: Final = 4  # KIP-699: many keys in one request


class KeyType(IntEnum):
    """What a coordinator is asked for, by FindCoordinator's numbers."""

    GROUP = 0
    TRANSACTION = 1


def coordinators_of(session: Session, kind: KeyType, keys: Iterable[str]) -> dict[str, int]:
    """For each key the id of the broker that coordinates it."""
    wanted = list(dict.fromkeys(keys))
    lines = session.lines
    _, newest = lines.first.versions.get(ApiKey.FIND_COORDINATOR, (0, 0))
    batches = [wanted] if newest >= BATCHES_SINCE else [[each] for each in wanted]
    found: dict[str, int] = {}
    for batch in filter(None, batches):
        found |= patiently(session.timeout_s, partial(_ask, lines, kind, batch))
    return found


def by_coordinator(session: Session, kind: KeyType, keys: Iterable[str]) -> dict[int, list[str]]:
    """The keys of each coordinator: what can be asked in one request."""
    brokers: dict[int, list[str]] = {}
    for key, node_id in coordinators_of(session, kind, keys).items():
        brokers.setdefault(node_id, []).append(key)
    return brokers


def coordinator_on(lines: ConnectionPool, kind: KeyType, key: str) -> int:
    """Asked once."""
    return _ask(lines, kind, [key])[key]


def _ask(lines: ConnectionPool, kind: KeyType, keys: list[str]) -> dict[str, int]:
    request = FindCoordinatorRequest(key=keys[0], key_type=kind, coordinator_keys=keys)
    answer = lines.call(request, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse)
    if not answer.coordinators:
        check(answer.error_code, answer.error_message, ApiKey.FIND_COORDINATOR, keys[0])
        return {keys[0]: answer.node_id}
    for each in answer.coordinators:
        check(each.error_code, each.error_message, ApiKey.FIND_COORDINATOR, each.key)
    return {each.key: each.node_id for each in answer.coordinators}
