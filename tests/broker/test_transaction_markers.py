"""Transaction markers: WriteTxnMarkers, and what read_committed returns."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import NOW_MS, Client, batch, code, records_of, run

from ottla.broker.stored_batches import read_stored_batches
from ottla.broker.transaction_markers import TransactionEnd
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


def begin(client: Client, *, producer: int = 7, epoch: int = 0, sequence: int = 0) -> int:
    """Writes a transactional record to t-0; returns its offset."""
    data = batch(
        b"v",
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    partition = client.broker.partitions.find("t", 0)
    return partition.append(memoryview(bytearray(data)), NOW_MS).first_offset


def end(client: Client, epoch: int, *, version: int = 2, **more: Any) -> str:
    options = {"producer_id": 7, "coordinator_epoch": 0, "commit": True, **more}
    how = TransactionEnd(producer_epoch=epoch, transaction_version=version, **options)
    received: list[ErrorCode] = []
    client.broker.markers.write("t", 0, how, now_ms=NOW_MS, callback=received.append)
    return received[0].name


@pytest.mark.parametrize("version", [1, 2])
def test_each_partition_has_its_own_result(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 2)
        begin(client)
        topics = [WritableTxnMarkerTopic("t", [0, 1, 5]), WritableTxnMarkerTopic("u", [0])]
        marker = WritableTxnMarker(
            producer_id=7,
            producer_epoch=1,
            transaction_result=True,
            topics=topics,
            coordinator_epoch=3,
            transaction_version=2 if version == 2 else 0,
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        response = await client.ask(ApiKey.WRITE_TXN_MARKERS, request, version)
        (received,) = response.markers
        assert received.producer_id == 7
        assert {
            topic.name: {
                partition.partition_index: code(partition) for partition in topic.partitions
            }
            for topic in received.topics
        } == {
            "t": {0: "NONE", 1: "NONE", 5: "UNKNOWN_TOPIC_OR_PARTITION"},
            "u": {0: "UNKNOWN_TOPIC_OR_PARTITION"},
        }
        for index, end_offset in ((0, 2), (1, 1)):  # also where the transaction wrote nothing
            partition = client.broker.partitions.find("t", index)
            assert partition.last_stable_offset == partition.high_watermark == end_offset
            producer = partition.log.producer(7)
            assert producer is not None
            assert (producer.epoch, producer.coordinator_epoch) == (1, 3)

    run(tmp_path, act)


def test_committed_records_are_returned_and_aborted_transactions_named(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        begin(client)
        unseen = await client.fetch("t", 0, isolation_level=1)
        assert (records_of(unseen), unseen.last_stable_offset) == ([], 0)
        assert end(client, 1, commit=False) == "NONE"
        begin(client, epoch=1)
        assert end(client, 2) == "NONE"
        seen = await client.fetch("t", 0, isolation_level=1)
        assert (len(records_of(seen)), seen.last_stable_offset) == (4, 4)
        aborted = [
            (transaction.producer_id, transaction.first_offset)
            for transaction in seen.aborted_transactions
        ]
        assert aborted == [(7, 0)]

    run(tmp_path, act)


def test_a_late_marker_of_version_2_ends_no_later_transaction(tmp_path: Path) -> None:
    """KIP-890: its epoch is that of the transaction which has begun since."""

    async def act(client: Client) -> None:
        await client.create("t")
        begin(client)
        assert end(client, 0) == "INVALID_PRODUCER_EPOCH"
        assert end(client, 1) == "NONE"
        assert end(client, 1) == "NONE"  # retried, with no open transaction
        begin(client, epoch=1)
        assert end(client, 1) == "INVALID_PRODUCER_EPOCH"
        assert client.broker.partitions.find("t", 0).last_stable_offset == 3
        assert end(client, 2) == "NONE"

    run(tmp_path, act)


def test_a_marker_of_version_1_has_the_epoch_of_its_transaction(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        begin(client, epoch=3)
        assert end(client, 2, version=1) == "INVALID_PRODUCER_EPOCH"
        assert end(client, 3, version=1) == "NONE"
        begin(client, epoch=3, sequence=1)
        assert end(client, 3, version=1, coordinator_epoch=4) == "NONE"
        begin(client, epoch=3, sequence=2)
        assert end(client, 3, version=1, coordinator_epoch=3) == "TRANSACTION_COORDINATOR_FENCED"

    run(tmp_path, act)


def test_the_last_epoch_ends_with_itself(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        begin(client, epoch=0x7FFF)
        assert end(client, 0x7FFF) == "NONE"
        partition = client.broker.partitions.find("t", 0)
        assert partition.last_stable_offset == partition.high_watermark

    run(tmp_path, act)


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_wakes_fetches_of_committed_records(tmp_path: Path, commit: bool) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        begin(client)
        request = client.fetch_request("t", {0: 0}, max_wait=60_000, isolation_level=1)
        waiting = asyncio.ensure_future(client.begin(ApiKey.FETCH, request, 18)())
        await asyncio.sleep(0)
        begin(client, sequence=1)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()  # more bytes, which readers must ignore
        assert end(client, 1, commit=commit) == "NONE"
        response = await asyncio.wait_for(waiting, 60)
        (received,) = response.responses[0].partitions
        assert (received.last_stable_offset, len(records_of(received))) == (3, 3)
        assert len(received.aborted_transactions) == (0 if commit else 1)

    run(tmp_path, act)


@pytest.mark.parametrize(
    "configs",
    [
        {"message_timestamp_type": "LogAppendTime"},
        {"compression_type": "zstd"},
        {"cleanup_policy": "compact"},
        {"message_timestamp_before_max_ms": "1000"},
        {"flush_messages": "1"},
    ],
    ids=lambda configs: next(iter(configs)),
)
def test_topic_configs_do_not_change_markers(tmp_path: Path, configs: dict[str, str]) -> None:
    async def act(client: Client) -> None:
        await client.create("t", **configs)
        begin(client)
        assert end(client, 1, commit=False) == "NONE"
        received = await client.fetch("t", 0, isolation_level=1)
        assert (received.last_stable_offset, len(records_of(received))) == (2, 2)
        assert [transaction.first_offset for transaction in received.aborted_transactions] == [0]
        (batches,) = read_stored_batches(client.broker.partitions.find("t", 0), size_max=1 << 20)
        marker = batches[-1]
        assert marker.marker is not None
        assert (marker.marker.commit, marker.header.producer_epoch) == (False, 1)
        assert marker.header.compression == 0

    run(tmp_path, act)
