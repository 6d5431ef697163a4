"""Which broker coordinates a group or a transaction, and patience while it takes its office."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import partial
from typing import Final, TypeVar

from ottla.client.lines import Lines, check
from ottla.client.session import Session
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

BATCHES_SINCE: Final = 4  # KIP-699: many keys in one request
BACKOFF_S: Final = 0.1
PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)

T = TypeVar("T")


class KeyType(IntEnum):
    """What a coordinator is asked for, by FindCoordinator's numbers."""

    GROUP = 0
    TRANSACTION = 1


def patiently(timeout_s: float, attempt: Callable[[], T], *passing: ErrorCode) -> T:
    """Try until it works, or fails for a reason that time does not heal (`passing` does, too)."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return attempt()
        except KafkaError as error:
            heals = error.code in PASSING or error.code in passing
            if not heals or time.monotonic() + BACKOFF_S > deadline:
                raise
        time.sleep(BACKOFF_S)


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


def coordinator_on(lines: Lines, kind: KeyType, key: str) -> int:
    """Asked once."""
    return _ask(lines, kind, [key])[key]


def _ask(lines: Lines, kind: KeyType, keys: list[str]) -> dict[str, int]:
    request = FindCoordinatorRequest(key=keys[0], key_type=kind, coordinator_keys=keys)
    answer = lines.call(request, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse)
    if not answer.coordinators:
        check(answer.error_code, answer.error_message, ApiKey.FIND_COORDINATOR, keys[0])
        return {keys[0]: answer.node_id}
    for each in answer.coordinators:
        check(each.error_code, each.error_message, ApiKey.FIND_COORDINATOR, each.key)
    return {each.key: each.node_id for each in answer.coordinators}
