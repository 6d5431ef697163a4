"""ListOffsets, OffsetForLeaderEpoch, InitProducerId and ApiVersions, in every version."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import NOW_MS, Client, batch, code, run

from ottla.broker.dispatch import SERVED
from ottla.broker.handlers.api_versions import TELEMETRY
from ottla.cluster.store import MetaStoreError
from ottla.testing.manual_clock import ManualClock
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6


async def list_offsets(
    client: Client, version: int, *parts: ListOffsetsPartition, topic: str = "t", isolation: int = 0
) -> list[Any]:
    topics = [ListOffsetsTopic(topic, list(parts))]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
    response = await client.ask(ApiKey.LIST_OFFSETS, request, version)
    assert response.topics[0].name == topic
    return list(response.topics[0].partitions)


async def at(client: Client, version: int, timestamp: int, epoch: int = -1) -> Any:
    asked = ListOffsetsPartition(0, epoch, timestamp)
    (answer,) = await list_offsets(client, version, asked)
    return answer


async def fill(client: Client) -> None:
    """Offsets 0 to 5, of which 4 has the largest timestamp; the first two are deleted."""
    await client.create("t")
    for ahead in (0, 10, 20, 30, 99, 50):
        await client.produce("t", batch(b"v", timestamp=NOW_MS + ahead))
    client.broker.partitions.find("t", 0).delete_records(2, NOW_MS)


@pytest.mark.parametrize("version", range(1, 12))
def test_the_start_and_the_end_of_a_log(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await fill(client)
        for time, offset in ((LATEST, 6), (EARLIEST, 2)):
            answer = await at(client, version, time)
            assert (code(answer), answer.timestamp, answer.offset) == ("NONE", -1, offset)
            assert answer.leader_epoch == (0 if version >= 4 else -1)

    run(tmp_path, act)


@pytest.mark.parametrize("version", range(1, 12))
def test_a_time_finds_the_first_record_that_is_not_earlier(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await fill(client)
        for ahead, expected in (
            (-1000, (20, 2)),
            (20, (20, 2)),
            (21, (30, 3)),
            (31, (99, 4)),
            (99, (99, 4)),
        ):
            answer = await at(client, version, NOW_MS + ahead)
            assert (answer.timestamp - NOW_MS, answer.offset) == expected
            assert answer.leader_epoch == (0 if version >= 4 else -1)
        nothing = await at(client, version, NOW_MS + 100)
        assert (code(nothing), nothing.timestamp, nothing.offset) == ("NONE", -1, -1)
        assert nothing.leader_epoch == -1

    run(tmp_path, act)


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize(
    ("time", "since", "expected"),
    [
        (MAX_TIMESTAMP, 7, (NOW_MS + 99, 4)),
        (EARLIEST_LOCAL, 8, (-1, 2)),
        (LATEST_TIERED, 9, (-1, -1)),
        (EARLIEST_PENDING_UPLOAD, 11, (-1, -1)),
        (-7, 99, (-1, -1)),
        (-(1 << 63), 99, (-1, -1)),
    ],
)
def test_special_timestamps_need_their_version(
    tmp_path: Path, version: int, time: int, since: int, expected: tuple[int, int]
) -> None:
    async def act(client: Client) -> None:
        await fill(client)
        answer = await at(client, version, time)
        if version < since:
            expected_code, values = "UNSUPPORTED_VERSION", (-1, -1)
        else:
            expected_code, values = "NONE", expected
        assert (code(answer), (answer.timestamp, answer.offset)) == (expected_code, values)

    run(tmp_path, act)


@pytest.mark.parametrize("version", range(1, 12))
def test_an_empty_log_has_only_a_start_and_an_end(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        for time, offset in ((LATEST, 0), (EARLIEST, 0), (0, -1), (NOW_MS, -1)):
            answer = await at(client, version, time)
            assert (code(answer), answer.timestamp, answer.offset) == ("NONE", -1, offset)
        if version >= 7:
            assert (await at(client, version, MAX_TIMESTAMP)).offset == -1

    run(tmp_path, act)


@pytest.mark.parametrize("version", range(1, 12))
def test_each_partition_is_answered_separately(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 3)
        asked = [ListOffsetsPartition(index, -1, LATEST) for index in (0, 7, 1, 2, 1)]
        answer = await list_offsets(client, version, *asked)
        assert [(result.partition_index, code(result)) for result in answer] == [
            (0, "NONE"),
            (7, "UNKNOWN_TOPIC_OR_PARTITION"),
            (1, "INVALID_REQUEST"),
            (2, "NONE"),
            (1, "INVALID_REQUEST"),
        ]
        assert (answer[1].timestamp, answer[1].offset, answer[1].leader_epoch) == (-1, -1, -1)
        (stranger,) = await list_offsets(client, version, asked[0], topic="u")
        assert code(stranger) == "UNKNOWN_TOPIC_OR_PARTITION"

    run(tmp_path, act)


@pytest.mark.parametrize("version", range(4, 12))
def test_another_leader_epoch_is_an_error(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        client.broker.partitions.find("t", 0).leader_epoch = 2
        assert code(await at(client, version, LATEST, epoch=2)) == "NONE"
        assert code(await at(client, version, LATEST, epoch=1)) == "FENCED_LEADER_EPOCH"
        assert code(await at(client, version, LATEST, epoch=3)) == "UNKNOWN_LEADER_EPOCH"

    run(tmp_path, act)


@pytest.mark.parametrize("version", range(2, 12))
def test_the_end_for_read_committed(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await fill(client)
        asked = ListOffsetsPartition(0, -1, LATEST)
        (answer,) = await list_offsets(client, version, asked, isolation=1)
        assert answer.offset == client.broker.partitions.find("t", 0).last_stable_offset == 6

    run(tmp_path, act)


def test_lookup_by_append_time(tmp_path: Path) -> None:
    clock = ManualClock()

    async def act(client: Client) -> None:
        await client.create("t", message_timestamp_type="LogAppendTime")
        for _ in range(3):
            await client.produce("t", batch(b"a", b"b", timestamp=5))
            clock.advance(1000)
        answer = await at(client, 11, NOW_MS + 1)
        assert (answer.timestamp, answer.offset) == (NOW_MS + 1000, 2)

    run(tmp_path, act, clock=clock)


# OffsetForLeaderEpoch


@pytest.mark.parametrize("version", range(2, 5))
def test_the_end_offset_of_an_epoch(tmp_path: Path, version: int) -> None:
    """Epoch 1 has offsets 0 and 1, epoch 3 has 2, epoch 5 has begun and has none."""

    async def act(client: Client) -> None:
        await client.create("t")
        partition = client.broker.partitions.find("t", 0)
        for epoch, count in ((1, 2), (3, 1)):
            partition.leader_epoch = epoch
            for _ in range(count):
                await client.produce("t", batch(b"v"))
        partition.leader_epoch = 5

        async def ask(epoch: int, current: int = -1, index: int = 0) -> tuple[str, int, int]:
            asked = OffsetForLeaderPartition(index, current, epoch)
            request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("t", [asked])])
            response = await client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, request, version)
            (answer,) = response.topics[0].partitions
            assert answer.partition == index
            return code(answer), answer.leader_epoch, answer.end_offset

        assert await ask(0) == ("NONE", 0, 0)
        assert await ask(1) == ("NONE", 1, 2)
        assert await ask(2) == ("NONE", 1, 2)
        assert await ask(3) == ("NONE", 3, 3)
        assert await ask(5) == ("NONE", 5, 3)
        assert await ask(6) == ("NONE", -1, -1)
        assert await ask(3, current=5) == ("NONE", 3, 3)
        assert await ask(3, current=4) == ("FENCED_LEADER_EPOCH", -1, -1)
        assert await ask(3, current=6) == ("UNKNOWN_LEADER_EPOCH", -1, -1)
        assert await ask(3, index=8) == ("UNKNOWN_TOPIC_OR_PARTITION", -1, -1)

    run(tmp_path, act)


# InitProducerId


@pytest.mark.parametrize("version", range(6))
def test_no_producer_id_is_allocated_twice(tmp_path: Path, version: int) -> None:
    given: list[int] = []

    async def act(client: Client) -> None:
        for _ in range(3):
            answer = await client.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None), version)
            assert (code(answer), answer.producer_epoch) == ("NONE", 0)
            given.append(answer.producer_id)

    run(tmp_path, act, act)
    assert len(set(given)) == 6
    assert min(given) >= 0


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_id_needs_its_coordinator(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        for name, expected in (("mine", "NOT_COORDINATOR"), ("", "INVALID_REQUEST")):
            request = InitProducerIdRequest(name, 1000)
            answer = await client.ask(ApiKey.INIT_PRODUCER_ID, request, version)
            assert (code(answer), answer.producer_id, answer.producer_epoch) == (expected, -1, -1)

    run(tmp_path, act)


@pytest.mark.parametrize("version", range(3, 6))
def test_an_id_without_an_epoch_is_refused(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        for producer_id, epoch, expected in (
            (5, -1, "INVALID_REQUEST"),
            (-1, 0, "INVALID_REQUEST"),
            (5, 3, "NONE"),
        ):
            request = InitProducerIdRequest(None, 0, producer_id, epoch)
            answer = await client.ask(ApiKey.INIT_PRODUCER_ID, request, version)
            assert code(answer) == expected

    run(tmp_path, act)


def test_a_failing_metadata_store_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(client: Client) -> None:
        async def fail(*_: Any) -> Any:
            raise MetaStoreError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr("ottla.cluster.embedded.EmbeddedStore.commit", fail)
            answer = await client.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None))
            # As in Kafka: producers retry this error.
            assert (code(answer), answer.producer_id) == ("COORDINATOR_LOAD_IN_PROGRESS", -1)
        answer = await client.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None))
        assert code(answer) == "NONE"

    run(tmp_path, act)


# ApiVersions


@pytest.mark.parametrize("version", range(5))
def test_served_apis_are_listed(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        request = ApiVersionsRequest("my-client", "1.2.3")
        answer = await client.ask(ApiKey.API_VERSIONS, request, version)
        assert code(answer) == "NONE"
        listed = {
            api_key.api_key: (api_key.min_version, api_key.max_version)
            for api_key in answer.api_keys
        }
        unlisted = {*TELEMETRY, ApiKey.ENVELOPE}  # without a subscription; for brokers alone
        shown = {key: versions for key, versions in SERVED.items() if key not in unlisted}
        assert listed == {**shown, ApiKey.PRODUCE: (0, 13)}
        assert list(listed) == sorted(listed)

    run(tmp_path, act)


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_an_unknown_version_gets_the_known_ones(tmp_path: Path, version: int) -> None:
    """KIP-511: a v0 body behind a v0 header, whatever the version of the request."""

    async def act(client: Client) -> None:
        body = b"\xff\xff" + b"whatever this version has"
        size = 8 + len(body)
        request = client.receive(
            struct.pack(">ihhi", size, ApiKey.API_VERSIONS, version, 77) + body
        )
        (reply,) = client.reply(request)
        assert struct.unpack_from(">ii", reply) == (len(reply) - 4, 77)
        answer, end = ApiVersionsResponse.read(reply, 8, 0)
        assert (code(answer), end) == ("UNSUPPORTED_VERSION", len(reply))
        (known,) = answer.api_keys
        assert (known.api_key, known.min_version, known.max_version) == (18, 0, 5)

    run(tmp_path, act)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    ("name", "software_version", "expected"),
    [
        ("librdkafka", "2.11.0", "NONE"),
        ("a", "1", "NONE"),
        ("", "1", "INVALID_REQUEST"),
        ("my client", "1", "INVALID_REQUEST"),
        ("client", "-1", "INVALID_REQUEST"),
        ("client", "1\n", "INVALID_REQUEST"),
    ],
)
def test_a_client_sends_its_name_and_version(
    tmp_path: Path, version: int, name: str, software_version: str, expected: str
) -> None:
    async def act(client: Client) -> None:
        request = ApiVersionsRequest(name, software_version)
        answer = await client.ask(ApiKey.API_VERSIONS, request, version)
        assert code(answer) == expected

    run(tmp_path, act)
