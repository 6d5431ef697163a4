"""Transactional batches: which are accepted, requests to the coordinator, what readers see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from data_path_broker import Client, batch, code, records_of
from transaction_client import TransactionClient, play

from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

NONE = ErrorCode.NONE


class Producer:
    """Writes to topic t in the transactions of `client`."""

    def __init__(self, client: TransactionClient, version: int = 13) -> None:
        self.client = client
        self.version = version
        self.sequence: dict[tuple[int, int], int] = {}  # by partition and epoch
        self.data = Client(client.broker)

    def batch(self, value: bytes, index: int = 0, **more: Any) -> bytes:
        epoch = more.pop("epoch", self.client.epoch)
        sequence = more.pop("sequence", self.sequence.get((index, epoch), 0))
        return batch(
            value,
            timestamp=self.client.broker.clock.now_ms(),
            producer_id=more.pop("producer_id", self.client.producer_id),
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )

    async def write(self, value: bytes = b"v", index: int = 0, **more: Any) -> str:
        data = self.batch(value, index, **more)
        reply = await self.data.produce(
            "t", data, self.version, index, transactional_id=self.client.transactional_id
        )
        if not reply.error_code:
            epoch = more.get("epoch", self.client.epoch)
            self.sequence[index, epoch] = self.sequence.get((index, epoch), 0) + 1
        return code(reply)

    async def committed(self, index: int = 0) -> list[bytes | None]:
        """The records that a consumer gets with read_committed."""
        reply = await self.data.fetch("t", 0, index=index, isolation_level=1)
        aborted = {
            aborted_transaction.first_offset for aborted_transaction in reply.aborted_transactions
        }
        return [
            record.value
            for record in records_of(reply)
            if record.value is not None and record.key == b"k" and record.offset not in aborted
        ]


def test_a_commit_that_overtakes_its_records_is_refused(tmp_path: Path) -> None:
    """KafkaProducer does this, rarely. The error is Kafka's, and the transaction continues."""

    async def act(client: TransactionClient) -> None:
        await client.init()
        producer = Producer(client)
        for epoch, state in enumerate(("Empty", "CompleteCommit")):
            assert await client.end(True) is ErrorCode.INVALID_TXN_STATE
            assert await client.state() == state
            assert await producer.write(b"%d" % epoch) == "NONE"
            assert await client.end(True) is NONE
            assert client.epoch == epoch + 1
        assert await producer.committed() == [b"0", b"1"]

    play(tmp_path, act)


@pytest.mark.parametrize("version", [12, 13])
def test_a_produce_adds_its_partition_to_the_transaction(tmp_path: Path, version: int) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        producer = Producer(client, version)
        assert await producer.write(b"a") == "NONE"
        assert await client.state() == "Ongoing"
        assert await producer.write(b"b") == "NONE"
        assert await producer.committed() == []
        assert await client.end(True) is NONE
        assert await producer.committed() == [b"a", b"b"]
        assert await producer.write(b"c") == "NONE"
        assert await client.end(False) is NONE
        assert await producer.committed() == [b"a", b"b"]
        assert await producer.write(b"d") == "NONE"
        assert await client.end(True) is NONE
        assert await producer.committed() == [b"a", b"b", b"d"]

    play(tmp_path, act)


@pytest.mark.parametrize("version", range(3, 12))
def test_an_older_client_adds_partitions_first(tmp_path: Path, version: int) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        producer = Producer(client, version)
        missing = "TRANSACTION_ABORTABLE" if version >= 11 else "INVALID_TXN_STATE"
        assert await producer.write() == missing
        await client.add(("t", 0))
        assert await producer.write(b"a") == "NONE"
        assert await producer.write(b"b", index=1) == missing
        assert await client.end(True, version=4) is NONE
        assert await producer.committed() == [b"a"]
        # The epoch goes on, and so do the sequences, but not the transaction.
        assert await producer.write(b"c") == missing
        await client.add(("t", 0))
        assert await producer.write(b"c") == "NONE"

    play(tmp_path, act)


def test_the_coordinator_is_asked_once_for_all_partitions_of_a_transaction(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        producer = Producer(client)
        before = client.record_count()
        data = [PartitionProduceData(index, producer.batch(b"v", index)) for index in (0, 1)]
        topic = TopicProduceData("t", producer.data.topic_id("t"), data)
        request = ProduceRequest(transactional_id="x", acks=-1, topic_data=[topic])
        response = await producer.data.ask(ApiKey.PRODUCE, request, 13)
        assert [
            code(partition_response)
            for partition_response in response.responses[0].partition_responses
        ] == ["NONE"] * 2
        assert client.record_count() == before + 1
        assert await producer.write(sequence=1) == "NONE"
        assert client.record_count() == before + 1

    play(tmp_path, act)


def test_another_producer_is_refused(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        producer = Producer(client)
        assert await producer.write(b"a") == "NONE"
        assert await client.end(True) is NONE
        # A late batch: its transaction and epoch have ended.
        assert await producer.write(b"late", epoch=0, sequence=1) == "INVALID_PRODUCER_EPOCH"
        stranger = client.producer_id + 1
        reply = await producer.write(producer_id=stranger)
        assert reply == "INVALID_PRODUCER_ID_MAPPING"
        assert await producer.write(b"b") == "NONE"
        data = [
            PartitionProduceData(0, producer.batch(b"v", 0)),
            PartitionProduceData(1, producer.batch(b"v", 1, producer_id=stranger)),
        ]
        topic = TopicProduceData("t", producer.data.topic_id("t"), data)
        request = ProduceRequest(transactional_id="x", acks=-1, topic_data=[topic])
        response = await producer.data.ask(ApiKey.PRODUCE, request, 13)
        codes = [
            code(partition_response)
            for partition_response in response.responses[0].partition_responses
        ]
        assert codes == ["INVALID_PRODUCER_ID_MAPPING"] * 2

    play(tmp_path, act)


def test_a_transaction_starts_with_sequence_0_for_a_new_producer(tmp_path: Path) -> None:
    """KIP-890: the first batch may have been lost, and this may be the second."""

    async def act(client: TransactionClient) -> None:
        await client.init()
        producer = Producer(client)
        assert await producer.write(sequence=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
        assert await producer.write(sequence=0) == "NONE"
        assert await client.end(True) is NONE
        assert await producer.write(sequence=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
        # An older client's transactions share an epoch, so there it may be right.
        old = Producer(client, 11)
        await client.add(("t", 1))
        assert await old.write(index=1, sequence=5) == "NONE"

    play(tmp_path, act)


def test_verification_can_be_turned_off_for_older_clients(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        assert await Producer(client, 11).write() == "NONE"
        assert await client.state() == "Empty"
        assert await Producer(client, 13).write(index=1) == "NONE"
        assert await client.state() == "Ongoing"

    play(tmp_path, act, transaction_partition_verification_enable="false")


def test_non_transactional_batches_are_refused_during_a_transaction(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        producer = Producer(client)
        assert await producer.write() == "NONE"
        data = batch(b"v", producer_id=client.producer_id, producer_epoch=0, base_sequence=1)
        reply = await producer.data.produce("t", data, transactional_id="x")
        assert code(reply) == "INVALID_TXN_STATE"

    play(tmp_path, act)


def test_a_transaction_continues_after_a_restart(tmp_path: Path) -> None:
    async def begin(client: TransactionClient) -> None:
        await client.init()
        assert await Producer(client).write(b"a") == "NONE"

    async def go_on(client: TransactionClient) -> None:
        producer = Producer(client)
        before = client.record_count()
        assert await producer.write(b"b", sequence=1) == "NONE"
        assert client.record_count() == before  # the log knows that it is open
        assert await producer.committed() == []
        assert await client.end(True) is NONE
        assert await producer.committed() == [b"a", b"b"]

    play(tmp_path, begin, go_on)


@pytest.mark.parametrize("version", [2, 11])
def test_offsets_by_time_stop_at_open_transactions(tmp_path: Path, version: int) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        producer = Producer(client)

        async def offset(time: int, isolation: int) -> int:
            asked = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=time)])
            request = ListOffsetsRequest(
                replica_id=-1, isolation_level=isolation, topics=[asked], timeout=0
            )
            response = await producer.data.ask(ApiKey.LIST_OFFSETS, request, version)
            return int(response.topics[0].partitions[0].offset)

        now_ms = client.broker.clock.now_ms()
        await producer.data.produce("t", batch(b"first", timestamp=now_ms - 60_000))
        assert await producer.write() == "NONE"
        assert (await offset(-1, 0), await offset(-1, 1)) == (2, 1)
        assert (await offset(now_ms, 0), await offset(now_ms, 1)) == (1, -1)
        if version >= 7:
            assert (await offset(-3, 0), await offset(-3, 1)) == (1, -1)
        assert await client.end(True) is NONE
        assert (await offset(-1, 0), await offset(-1, 1)) == (3, 3)
        assert await offset(now_ms, 1) == 1

    play(tmp_path, act)


def test_describe_producers_shows_the_start_of_a_transaction(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        producer = Producer(client)
        await producer.data.produce("t", batch(b"first"))
        await producer.write()
        await producer.write()
        request = DescribeProducersRequest([TopicRequest("t", [0, 1, 9]), TopicRequest("u", [0])])
        response = await producer.data.ask(ApiKey.DESCRIBE_PRODUCERS, request, 0)
        known, empty, unknown = response.topics[0].partitions
        (state,) = known.active_producers
        assert (state.producer_id, state.producer_epoch) == (client.producer_id, 0)
        assert (state.last_sequence, state.current_txn_start_offset) == (1, 1)
        assert (state.coordinator_epoch, code(known), code(empty)) == (-1, "NONE", "NONE")
        assert empty.active_producers == []
        assert code(unknown) == code(response.topics[1].partitions[0])
        assert code(unknown) == "UNKNOWN_TOPIC_OR_PARTITION"
        await client.end(False)
        response = await producer.data.ask(ApiKey.DESCRIBE_PRODUCERS, request, 0)
        (state,) = response.topics[0].partitions[0].active_producers
        assert (state.producer_epoch, state.current_txn_start_offset) == (1, -1)
        assert (state.last_sequence, state.coordinator_epoch) == (-1, 0)

    play(tmp_path, act)
