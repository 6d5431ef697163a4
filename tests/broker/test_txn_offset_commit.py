"""TxnOffsetCommit: offsets that take effect with their transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transaction_client import TransactionClient, committed_offset, play

from ottla.broker.stored_batches import read_stored_batches
from ottla.coordinator.records import OFFSETS_TOPIC, partition_for
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

NONE = ErrorCode.NONE
NOBODY = b"no topic has it."
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


async def commit(
    client: TransactionClient, offset: int, version: int = 5, **more: Any
) -> list[ErrorCode]:
    """Partitions 0 and 9 of topic t, and u, of which only the first exists.

    From v6 on the ids of topics are sent and answered, and no names.
    """
    known = client.broker.image.topics["t"].id
    topics = [
        TxnOffsetCommitRequestTopic(
            "t",
            known,
            [
                TxnOffsetCommitRequestPartition(0, offset, -1, "m"),
                TxnOffsetCommitRequestPartition(9, offset, -1, "m"),
            ],
        ),
        TxnOffsetCommitRequestTopic("u", NOBODY, [TxnOffsetCommitRequestPartition(0, 1, -1, "")]),
    ]
    options = {"producer_id": client.producer_id, "producer_epoch": client.epoch, **more}
    request = TxnOffsetCommitRequest(
        client.transactional_id, group_id=options.pop("group", "g"), topics=topics, **options
    )
    response = await client.ask(ApiKey.TXN_OFFSET_COMMIT, request, version)
    names = {known: "t", NOBODY: "u"} if version >= 6 else {}
    answer = {
        (names.get(topic.topic_id, topic.name), partition.partition_index): ErrorCode(
            partition.error_code
        )
        for topic in response.topics
        for partition in topic.partitions
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    no_topic = ErrorCode.UNKNOWN_TOPIC_ID if version >= 6 else unknown
    assert (answer.pop(("t", 9)), answer.pop(("u", 0))) == (unknown, no_topic)
    return list(answer.values())


async def start(client: TransactionClient) -> None:
    await client.broker.auto_create(OFFSETS_TOPIC)
    assert await client.init() is NONE


def test_offsets_take_effect_when_the_transaction_is_committed(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await start(client)
        assert await commit(client, 5) == [NONE]
        assert await client.state() == "Ongoing"
        assert await committed_offset(client) == -1
        assert await committed_offset(client, stable=True) is UNSTABLE
        assert await committed_offset(client, stable=True, version=7) is UNSTABLE
        assert await client.end(True) is NONE
        assert await committed_offset(client, stable=True) == 5
        assert await commit(client, 7) == [NONE]
        assert await client.end(False) is NONE
        assert await committed_offset(client, stable=True) == 5

    play(tmp_path, act)


def test_version_6_has_topic_ids(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await start(client)
        assert await commit(client, 5, version=6) == [NONE]
        assert await client.end(True) is NONE
        assert await committed_offset(client, stable=True) == 5
        gone = {"generation_id": 3, "member_id": "m", "group": "nobody"}
        assert await commit(client, 6, version=6, **gone) == [ErrorCode.GROUP_ID_NOT_FOUND]
        assert await commit(client, 6, version=5, **gone) == [ErrorCode.ILLEGAL_GENERATION]

    play(tmp_path, act)


def test_the_records_are_a_batch_of_the_transaction(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await start(client)
        await commit(client, 5)
        await client.end(True)
        partition = client.broker.partitions.find(OFFSETS_TOPIC, partition_for("g", 3))
        ((first, marker),) = list(read_stored_batches(partition, size_max=1 << 20))
        header = first.header
        assert header.transactional
        assert (header.producer_id, header.producer_epoch) == (client.producer_id, 0)
        assert (len(first.records), header.base_sequence) == (1, 0)
        assert marker.marker is not None
        assert marker.header.producer_epoch == 1
        assert partition.last_stable_offset == partition.high_watermark == 2

    play(tmp_path, act)


@pytest.mark.parametrize("version", range(5))
def test_an_older_client_adds_the_group_first(tmp_path: Path, version: int) -> None:
    async def act(client: TransactionClient) -> None:
        await start(client)
        missing = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
        assert await commit(client, 5, version) == [missing]
        assert await client.add_offsets("g") is NONE
        assert await commit(client, 5, version) == [NONE]
        assert await commit(client, 6, version) == [NONE]
        assert await client.end(True, version=4) is NONE
        assert await committed_offset(client, stable=True) == 6
        assert await commit(client, 7, version) == [missing]

    play(tmp_path, act)


def test_invalid_commits_are_refused(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await start(client)
        late = ErrorCode.INVALID_PRODUCER_EPOCH
        assert await commit(client, 5) == [NONE]
        assert await client.end(True) is NONE
        assert await commit(client, 6, producer_epoch=0) == [late]
        stranger = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await commit(client, 6, producer_id=client.producer_id + 1) == [stranger]
        illegal = ErrorCode.ILLEGAL_GENERATION
        assert await commit(client, 6, group="h", generation_id=3, member_id="m") == [illegal]
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert await commit(client, 6, generation_id=3, member_id="m") == [unknown]
        assert await commit(client, 6, group="") == [ErrorCode.INVALID_GROUP_ID]
        assert await client.end(True) is NONE
        assert await committed_offset(client, stable=True) == 5

    play(tmp_path, act)


def test_without_the_coordinator_the_commit_is_refused(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        assert await commit(client, 5) == [ErrorCode.NOT_COORDINATOR]

    play(tmp_path, act)


@pytest.mark.parametrize("decision", [True, False])
def test_pending_offsets_survive_a_restart(tmp_path: Path, decision: bool) -> None:
    async def begin(client: TransactionClient) -> None:
        await start(client)
        assert await commit(client, 3) == [NONE]
        assert await client.end(True) is NONE
        assert await commit(client, 5) == [NONE]

    async def end(client: TransactionClient) -> None:
        assert await committed_offset(client) == 3
        assert await committed_offset(client, stable=True) is UNSTABLE
        assert await client.end(decision) is NONE
        assert await committed_offset(client, stable=True) == (5 if decision else 3)

    async def look(client: TransactionClient) -> None:
        assert await committed_offset(client, stable=True) == (5 if decision else 3)

    play(tmp_path, begin, end, look)
