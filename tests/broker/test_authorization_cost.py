"""Authorization checks each item of a request once: few rights can't make a request slow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.authorization.groups import find_coordinator
from ottla.broker.authorization.records import add_partitions_to_txn
from ottla.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

COUNT = 2000


class CountedName(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.fixture
def names() -> list[str]:
    CountedName.compared = 0
    return [CountedName(f"name-{number}") for number in range(COUNT)]


def context(version: int) -> Any:
    """A client with rights on every second name."""
    return SimpleNamespace(
        version=version,
        may=lambda operation, resource, name="", **_: not name.endswith(("1", "3", "5", "7", "9")),
    )


def test_find_coordinator(names: list[str]) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=names)
    response = find_coordinator(
        lambda ctx, request: FindCoordinatorResponse(coordinators=[]), context(4), request
    )
    assert len(response.coordinators) == COUNT / 2
    assert len(request.coordinator_keys) == COUNT / 2
    assert CountedName.compared < 10 * COUNT


def test_add_partitions_to_txn(names: list[str]) -> None:
    topics = [AddPartitionsToTxnTopic(name, [0]) for name in names]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t", v3_and_below_topics=topics
    )
    response = add_partitions_to_txn(lambda ctx, request: None, context(3), request)
    codes = [
        partition.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
    assert codes.count(ErrorCode.TOPIC_AUTHORIZATION_FAILED) == COUNT / 2
    assert codes.count(ErrorCode.OPERATION_NOT_ATTEMPTED) == COUNT / 2
    assert CountedName.compared < 10 * COUNT
