"""Produce, v3 to v13: what is appended, what is refused, and the errors of each version."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from data_path_broker import NOW_MS, Client, batch, by_producer, code, records_of, run

from ottla.coordinator.records import OFFSETS_TOPIC
from ottla.errors import ErrorCode
from ottla.records.checksum import crc32c
from ottla.testing.manual_clock import ManualClock
from ottla.wire.apis import ApiKey
from ottla.wire.connection import ProtocolError
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

VERSIONS = range(3, 14)


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_get_the_next_offsets(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 2)
        for number in range(3):
            answer = await client.produce("t", batch(b"a", b"b"), version, index=1)
            assert (code(answer), answer.base_offset) == ("NONE", 2 * number)
            assert answer.log_append_time == -1
            if version >= 5:
                assert answer.log_start_offset == 0
            if version >= 8:
                assert (answer.record_errors, answer.error_message) == ([], None)
        partition = client.broker.partitions.find("t", 1)
        assert (partition.high_watermark, partition.log.end_offset) == (6, 6)
        found = records_of(await client.fetch("t", 0, index=1))
        assert [(record.offset, record.value) for record in found] == list(
            zip(range(6), [b"a", b"b"] * 3, strict=True)
        )

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_every_kind_of_acks_appends(tmp_path: Path, version: int, acks: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        request = client.produce_request("t", batch(b"v"), acks=acks)
        response = await client.ask(ApiKey.PRODUCE, request, version)
        assert (response is None) == (acks == 0)
        assert len(records_of(await client.fetch("t", 0))) == 1
        # A request without response leaves no gap: the next one is answered.
        assert (await client.produce("t", batch(b"w"), version)).base_offset == 1

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_partition_gets_its_error(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 2)
        known, unknown = client.topic_id("t"), bytes(range(16))
        data = [PartitionProduceData(index, batch(b"v")) for index in (0, 9, 1)]
        topics = [
            TopicProduceData("t", known, data),
            TopicProduceData("u", unknown, data[:1]),
        ]
        request = ProduceRequest(acks=1, topic_data=topics)
        response = await client.ask(ApiKey.PRODUCE, request, version)
        answer = [
            [code(partition_response) for partition_response in topic.partition_responses]
            for topic in response.responses
        ]
        stranger = "UNKNOWN_TOPIC_ID" if version >= 13 else "UNKNOWN_TOPIC_OR_PARTITION"
        assert answer == [["NONE", "UNKNOWN_TOPIC_OR_PARTITION", "NONE"], [stranger]]
        missing = response.responses[0].partition_responses[1]
        assert (missing.index, missing.base_offset, missing.log_append_time) == (9, -1, -1)

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_invalid_acks_append_nothing(tmp_path: Path, version: int, acks: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        answer = await client.produce("t", batch(b"v"), version, acks=acks)
        assert (code(answer), answer.base_offset) == ("INVALID_REQUIRED_ACKS", -1)
        assert client.broker.partitions.find("t", 0).log.end_offset == 0

    run(tmp_path, act)


def test_one_replica_is_enough_if_there_is_no_other(tmp_path: Path) -> None:
    """min.insync.replicas counts for no more than the replicas there are."""

    async def act(client: Client) -> None:
        await client.create("t", min_insync_replicas="2")
        assert code(await client.produce("t", batch(b"v"), acks=-1)) == "NONE"

    run(tmp_path, act)


def old_message(magic: int) -> bytes:
    """A valid message of the format before batches."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", NOW_MS) if magic else b"")
    body += struct.pack(">i1si1s", 1, b"k", 1, b"v") + bytes(60)
    message = struct.pack(">I", 0) + body
    return struct.pack(">qi", 0, len(message)) + message


def damaged() -> bytes:
    data = bytearray(batch(b"value"))
    data[-1] ^= 1
    return bytes(data)


def changed(position: int, layout: str, value: int) -> bytes:
    """A batch with another value in its header, and a matching checksum."""
    data = bytearray(batch(b"a", b"b"))
    struct.pack_into(layout, data, position, value)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


REFUSED = {
    "null": (None, "INVALID_RECORD"),
    "empty": (b"", "INVALID_RECORD"),
    "cut off": (batch(b"v")[:-1], "CORRUPT_MESSAGE"),
    "shorter than a header": (batch(b"v")[:20], "CORRUPT_MESSAGE"),
    "bad checksum": (damaged(), "CORRUPT_MESSAGE"),
    "magic 0": (old_message(0), "INVALID_RECORD"),
    "magic 1": (old_message(1), "INVALID_RECORD"),
    "two batches": (batch(b"v") + batch(b"v"), "INVALID_RECORD"),
    "too large": (batch(bytes(2000)), "MESSAGE_TOO_LARGE"),
    "unknown codec": (changed(21, ">h", 5), "UNSUPPORTED_COMPRESSION_TYPE"),
    "control batch": (changed(21, ">h", 0x20), "INVALID_RECORD"),
    "append time of the client": (changed(21, ">h", 0x08), "INVALID_TIMESTAMP"),
    "more records than it says": (changed(57, ">i", 1), "INVALID_RECORD"),
    "a time far ahead": (batch(b"v", timestamp=NOW_MS + 10**9), "INVALID_TIMESTAMP"),
    "a transaction of nobody": (
        changed(21, ">h", 0x10),
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
}


@pytest.mark.parametrize("version", [3, 8, 13])
@pytest.mark.parametrize("what", REFUSED)
def test_bad_records_are_refused_and_leave_no_trace(
    tmp_path: Path, version: int, what: str
) -> None:
    data, expected = REFUSED[what]

    async def act(client: Client) -> None:
        await client.create("t", max_message_bytes="1000", message_timestamp_after_max_ms="1000")
        answer = await client.produce("t", data, version)
        assert (code(answer), answer.base_offset) == (expected, -1)
        partition = client.broker.partitions.find("t", 0)
        assert (partition.log.end_offset, partition.log.size) == (0, 0)
        assert (await client.produce("t", batch(b"v"), version)).base_offset == 0

    run(tmp_path, act)


def test_transactions_need_a_coordinator_and_an_id(tmp_path: Path) -> None:
    """Without a coordinator they would never end, and block read_committed forever."""

    async def act(client: Client) -> None:
        await client.create("t")
        data = batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        answer = await client.produce("t", data, transactional_id="mine")
        assert code(answer) == "NOT_ENOUGH_REPLICAS"  # retriable: it has no coordinator yet
        answer = await client.produce("t", data)
        assert code(answer) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        assert (await client.produce("t", batch(b"v"), transactional_id="mine")).base_offset == 0
        committed = await client.fetch("t", 0, isolation_level=1)
        assert (committed.last_stable_offset, len(records_of(committed))) == (1, 1)

    run(tmp_path, act)


def test_zstd_needs_version_7(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        data = batch(b"v" * 100, compression=4)
        assert code(await client.produce("t", data, 6)) == "UNSUPPORTED_COMPRESSION_TYPE"
        assert code(await client.produce("t", data, 7)) == "NONE"

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_duplicate_batch_gets_its_first_offset(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        for sequence in range(5):
            answer = await client.produce("t", by_producer(sequence, b"v"), version)
            assert answer.base_offset == sequence
        for sequence in range(5):  # a producer has up to five requests under way
            answer = await client.produce("t", by_producer(sequence, b"v"), version)
            assert (code(answer), answer.base_offset) == ("NONE", sequence)
        assert client.broker.partitions.find("t", 0).log.end_offset == 5

    run(tmp_path, act)


def test_sequences_must_follow_each_other(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        assert code(await client.produce("t", by_producer(0, b"a", b"b"))) == "NONE"
        for wrong in (1, 3):
            answer = await client.produce("t", by_producer(wrong, b"c"))
            assert (code(answer), answer.base_offset) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)
        assert (await client.produce("t", by_producer(2, b"c"))).base_offset == 2
        assert code(await client.produce("t", by_producer(0, b"d", epoch=1))) == "NONE"
        answer = await client.produce("t", by_producer(3, b"e", epoch=0))
        assert code(answer) == "INVALID_PRODUCER_EPOCH"

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_log_append_time_comes_from_the_broker(tmp_path: Path, version: int) -> None:
    clock = ManualClock()

    async def act(client: Client) -> None:
        await client.create("t", message_timestamp_type="LogAppendTime")
        clock.advance(5000)
        answer = await client.produce("t", batch(b"a", timestamp=17), version)
        assert answer.log_append_time == NOW_MS + 5000
        (record,) = records_of(await client.fetch("t", 0))
        assert record.timestamp == NOW_MS + 5000

    run(tmp_path, act, clock=clock)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_compacted_topic_names_the_records_without_keys(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t", cleanup_policy="compact")
        answer = await client.produce("t", batch(b"a", b"b", key=None), version)
        assert (code(answer), answer.base_offset) == ("INVALID_RECORD", -1)
        if version >= 8:
            assert [record_error.batch_index for record_error in answer.record_errors] == [0, 1]
            assert all(
                record_error.batch_index_error_message for record_error in answer.record_errors
            )
            assert answer.error_message
        assert code(await client.produce("t", batch(b"a"), version)) == "NONE"

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_admin_client_writes_to_internal_topics(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("g"), 0)
        answer = await client.produce(OFFSETS_TOPIC, batch(b"v"), version)
        assert (code(answer), answer.base_offset) == ("INVALID_TOPIC_EXCEPTION", -1)
        admin = Client(client.broker, "__admin_client")
        assert code(await admin.produce(OFFSETS_TOPIC, batch(b"v"), version)) == "NONE"
        nameless = Client(client.broker, None)
        assert code(await nameless.produce(OFFSETS_TOPIC, batch(b"v"), version)) != "NONE"
        await client.create("__mine")
        assert code(await client.produce("__mine", batch(b"v"), version)) == "NONE"

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_with_acks_0_closes_the_connection(tmp_path: Path, version: int) -> None:
    """The valid batches of the request are appended first."""

    async def act(client: Client) -> None:
        await client.create("t", 2)
        data = [PartitionProduceData(index, batch(b"v")) for index in (0, 9, 1)]
        topic = TopicProduceData("t", client.topic_id("t"), data)
        request = ProduceRequest(acks=0, topic_data=[topic])
        with pytest.raises(ProtocolError, match="acks=0"):
            client.begin(ApiKey.PRODUCE, request, version)
        ends = [client.broker.partitions.find("t", index).log.end_offset for index in (0, 1)]
        assert ends == [1, 1]

    run(tmp_path, act)


@pytest.mark.parametrize("version", [0, 1, 2, 14])
def test_unserved_versions_are_refused(tmp_path: Path, version: int) -> None:
    """v0 to v2 are listed for librdkafka (KAFKA-18659), but not served."""

    async def act(client: Client) -> None:
        with pytest.raises(ProtocolError, match=f"Produce v{version} is not served"):
            client.receive(struct.pack(">ihhih", 10, ApiKey.PRODUCE, version, 1, -1))

    run(tmp_path, act)


def test_a_request_of_several_megabytes_arrives_whole(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t", max_message_bytes=str(5 << 20))
        value = bytes(range(256)) * (3 << 12)
        assert (await client.produce("t", batch(value))).base_offset == 0
        assert (await client.produce("t", batch(b"small"))).base_offset == 1
        found = records_of(await client.fetch("t", 0, partition={"partition_max_bytes": 8 << 20}))
        assert [record.value for record in found] == [value, b"small"]

    run(tmp_path, act)


def test_error_codes_are_those_of_kafka() -> None:
    """Checks the table above, because a wrong number would reach every client."""
    assert int(ErrorCode.INVALID_TOPIC_EXCEPTION) == 17
    assert int(ErrorCode.INVALID_REQUIRED_ACKS) == 21
    assert int(ErrorCode.INVALID_RECORD) == 87
    assert int(ErrorCode.UNKNOWN_TOPIC_ID) == 100
