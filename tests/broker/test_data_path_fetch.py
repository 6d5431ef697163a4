"""Fetch, v4 to v18: records, limits and errors."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import NOW_MS, Client, batch, code, records_of, run

from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

VERSIONS = range(4, 19)


def offsets(answer: Any) -> list[int]:
    return [record.offset for record in records_of(answer)]


@pytest.mark.parametrize("version", VERSIONS)
def test_appended_records_are_read(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 2)
        for value in (b"a", b"b", b"c"):
            await client.produce("t", batch(value), index=1)
        answer = await client.fetch("t", 1, version, index=1)
        assert [record.value for record in records_of(answer)] == [b"b", b"c"]
        assert (code(answer), answer.high_watermark, answer.last_stable_offset) == ("NONE", 3, 3)
        assert answer.log_start_offset == (0 if version >= 5 else -1)
        assert answer.preferred_read_replica == -1
        assert answer.diverging_epoch is None
        assert records_of(answer)[0].timestamp == NOW_MS

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_offset_inside_a_batch_returns_the_whole_batch(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        await client.produce("t", batch(b"a", b"b", b"c"))
        await client.produce("t", batch(b"d", b"e"))
        for offset, expected in ((0, [0, 1, 2, 3, 4]), (2, [0, 1, 2, 3, 4]), (4, [3, 4])):
            assert offsets(await client.fetch("t", offset, version)) == expected

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_response_has_the_high_watermark(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        answer = await client.fetch("t", 0, version)
        assert (code(answer), answer.high_watermark, answer.records) == ("NONE", 0, b"")
        await client.produce("t", batch(b"a", b"b"))
        answer = await client.fetch("t", 2, version)
        assert (code(answer), answer.high_watermark, answer.records) == ("NONE", 2, b"")

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_offset_is_out_of_range(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        for _ in range(4):
            await client.produce("t", batch(b"v"))
        assert client.broker.partitions.find("t", 0).delete_records(2, NOW_MS) == 2
        for offset in (-1, 0, 1, 5, 1 << 40):
            answer = await client.fetch("t", offset, version)
            assert (code(answer), answer.records) == ("OFFSET_OUT_OF_RANGE", b"")
            assert (answer.high_watermark, answer.last_stable_offset) == (-1, -1)
        assert offsets(await client.fetch("t", 2, version)) == [2, 3]
        assert code(await client.fetch("t", 4, version)) == "NONE"

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_unknown_partition_gets_an_error(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        await client.produce("t", batch(b"v"))
        topics = [
            FetchTopic("t", client.topic_id("t"), [part(0), part(5)]),
            FetchTopic("u", client.topic_id("u"), [part(0)]),
        ]
        # An error is returned at once.
        request = FetchRequest(max_wait=60_000, min_bytes=1 << 20, topics=topics)
        response = await client.ask(ApiKey.FETCH, request, version)
        answer = [
            [code(partition) for partition in topic.partitions] for topic in response.responses
        ]
        stranger = "UNKNOWN_TOPIC_ID" if version >= 13 else "UNKNOWN_TOPIC_OR_PARTITION"
        assert answer == [["NONE", "UNKNOWN_TOPIC_OR_PARTITION"], [stranger]]
        assert offsets(response.responses[0].partitions[0]) == [0]

    run(tmp_path, act)


def part(index: int, offset: int = 0, size: int = 1 << 20, **more: Any) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=size, **more)


async def sizes(client: Client, version: int, *parts: FetchPartition, **options: Any) -> list[int]:
    topics = [FetchTopic("t", client.topic_id("t"), list(parts))]
    request = FetchRequest(topics=topics, **options)
    response = await client.ask(ApiKey.FETCH, request, version)
    return [len(partition.records) for partition in response.responses[0].partitions]


@pytest.mark.parametrize("version", [4, 11, 18])
def test_only_the_first_batch_may_exceed_the_limits(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 3)
        data = batch(bytes(1000))
        size = len(data)
        for index in range(3):
            for _ in range(3):
                await client.produce("t", data, index=index)

        def wanted(room: int) -> list[FetchPartition]:
            return [part(index, size=room) for index in range(3)]

        # The request's limit: the first batch of the first partition, however small it is.
        for limit in (0, 1, size - 1, size):
            assert await sizes(client, version, *wanted(1 << 20), max_bytes=limit) == [size, 0, 0]
        limit = 4 * size
        assert await sizes(client, version, *wanted(1 << 20), max_bytes=limit) == [
            3 * size,
            size,
            0,
        ]
        # A partition's limit: only the first that has something gets its batch beyond it.
        assert await sizes(client, version, *wanted(1)) == [size, 0, 0]
        assert await sizes(client, version, *wanted(0)) == [size, 0, 0]
        assert await sizes(client, version, *wanted(2 * size)) == [2 * size] * 3
        empty = part(0, offset=3)
        assert await sizes(client, version, empty, *wanted(1)[1:]) == [0, size, 0]
        # Errors are reported even for partitions without room.
        topics = [FetchTopic("t", client.topic_id("t"), [part(0), part(1, offset=9)])]
        request = FetchRequest(topics=topics, max_bytes=1)
        response = await client.ask(ApiKey.FETCH, request, version)
        answer = [code(partition) for partition in response.responses[0].partitions]
        assert answer == ["NONE", "OFFSET_OUT_OF_RANGE"]

    run(tmp_path, act)


def test_the_brokers_own_limit_holds(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 2)
        data = batch(bytes(1000))
        for index in (0, 1):
            await client.produce("t", data, index=index)
        assert await sizes(client, 18, part(0), part(1)) == [len(data), 0]

    run(tmp_path, act, fetch_max_bytes="1024")


@pytest.mark.parametrize("version", [4, 18])
def test_a_fetch_does_not_wait_for_more_than_its_limits_allow(tmp_path: Path, version: int) -> None:
    """max_wait is a minute, so a fetch that waits exceeds the test's timeout."""

    async def act(client: Client) -> None:
        await client.create("t", 2)
        data = batch(bytes(1000))
        for _ in range(3):
            await client.produce("t", data)
        size, long = len(data), {"max_wait": 60_000, "min_bytes": 1 << 30}
        both = [part(0), part(1)]
        # max_bytes is smaller than min_bytes.
        assert await sizes(client, version, *both, max_bytes=size, **long) == [size, 0]
        # The response ends with a batch, a little below the limit, and more follows.
        room = 2 * size + 10
        at_least = {"max_wait": 60_000, "min_bytes": room}
        assert await sizes(client, version, *both, max_bytes=room, **at_least) == [2 * size, 0]
        parts = [part(0, size=room), part(1, size=room)]
        assert await sizes(client, version, *parts, **at_least) == [2 * size, 0]

    run(tmp_path, act)


def test_a_fetch_does_not_wait_inside_an_older_segment(tmp_path: Path) -> None:
    """A read ends with its segment, although there is more in the next one."""

    async def act(client: Client) -> None:
        await client.create("t")
        for _ in range(2):
            client.broker.partitions.find("t", 0).log.roll(NOW_MS)
            await client.produce("t", batch(bytes(1000)))
        answer = await client.fetch("t", 0, max_wait=60_000, min_bytes=2000)
        assert offsets(answer) == [0]
        assert offsets(await client.fetch("t", 1)) == [1]

    run(tmp_path, act)


@pytest.mark.parametrize("version", range(9, 19))
def test_another_leader_epoch_is_an_error(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        client.broker.partitions.find("t", 0).leader_epoch = 5
        for epoch, expected in (
            (-1, "NONE"),
            (5, "NONE"),
            (4, "FENCED_LEADER_EPOCH"),
            (6, "UNKNOWN_LEADER_EPOCH"),
        ):
            known = {"current_leader_epoch": epoch}
            assert code(await client.fetch("t", 0, version, partition=known)) == expected

    run(tmp_path, act)


@pytest.mark.parametrize("version", range(12, 19))
def test_a_diverging_reader_gets_the_end_of_its_epoch(tmp_path: Path, version: int) -> None:
    """KIP-595: epoch 1 has offsets 0 and 1, epoch 3 has 2 and 3."""

    async def act(client: Client) -> None:
        await client.create("t")
        partition = client.broker.partitions.find("t", 0)
        for epoch in (1, 3):
            partition.leader_epoch = epoch
            await client.produce("t", batch(b"a"))
            await client.produce("t", batch(b"b"))
        partition.leader_epoch = 4

        async def ask(offset: int, epoch: int) -> Any:
            known = {"last_fetched_epoch": epoch}
            return await client.fetch("t", offset, version, partition=known)

        for offset, epoch, expected in ((2, 1, [2, 3]), (4, 3, []), (4, 4, [])):
            answer = await ask(offset, epoch)
            assert (answer.diverging_epoch, offsets(answer)) == (None, expected)
        for offset, epoch, end in ((3, 1, (1, 2)), (3, 2, (1, 2))):
            answer = await ask(offset, epoch)
            assert (code(answer), answer.records) == ("NONE", b"")
            assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == end
        assert code(await ask(2, 9)) == "OFFSET_OUT_OF_RANGE"
        partition.delete_records(2, NOW_MS)
        assert code(await ask(1, 1)) == "OFFSET_OUT_OF_RANGE"

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_read_committed_gets_its_fields(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        await client.produce("t", batch(b"a", b"b"))
        answer = await client.fetch("t", 0, version, isolation_level=1)
        assert (answer.last_stable_offset, answer.aborted_transactions) == (2, [])
        assert offsets(answer) == [0, 1]
        empty = await client.fetch("t", 2, version, isolation_level=1)
        assert empty.aborted_transactions == []
        plain = await client.fetch("t", 0, version)
        assert (plain.last_stable_offset, plain.aborted_transactions) == (2, None)

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failed_directory_is_reported_by_a_code_of_the_clients_version(
    tmp_path: Path, version: int
) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        log = client.broker.partitions.find("t", 0).log
        log.dir.failed(OSError(errno.EIO, "a test"), "test")
        answer = await client.fetch("t", 0, version)
        expected = ErrorCode.KAFKA_STORAGE_ERROR
        if version < 6:
            expected = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert answer.error_code == expected

    run(tmp_path, act)


def test_reads_continue_in_the_next_segment(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        log = client.broker.partitions.find("t", 0).log
        for number in range(50):
            if number % 7 == 0:
                log.roll(NOW_MS)
            await client.produce("t", batch(b"%d" % number * 20))
        assert len(log.segments) == 8
        seen: list[int] = []
        while len(seen) < 50:
            got = offsets(
                await client.fetch("t", len(seen), partition={"partition_max_bytes": 300})
            )
            assert got[0] == len(seen)
            seen += got
        assert seen == list(range(50))

    run(tmp_path, act)
