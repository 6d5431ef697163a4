"""Fetch, v4 to v18: what is read, how much of it, and which errors there are."""

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


def offsets(told: Any) -> list[int]:
    return [record.offset for record in records_of(told)]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_written_is_read(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 2)
        for value in (b"a", b"b", b"c"):
            await client.produce("t", batch(value), index=1)
        told = await client.fetch("t", 1, version, index=1)
        assert [record.value for record in records_of(told)] == [b"b", b"c"]
        assert (code(told), told.high_watermark, told.last_stable_offset) == ("NONE", 3, 3)
        assert told.log_start_offset == (0 if version >= 5 else -1)
        assert told.preferred_read_replica == -1
        assert told.diverging_epoch is None
        assert records_of(told)[0].timestamp == NOW_MS

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_offset_in_the_middle_gives_the_whole_batch(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        await client.produce("t", batch(b"a", b"b", b"c"))
        await client.produce("t", batch(b"d", b"e"))
        for offset, expected in ((0, [0, 1, 2, 3, 4]), (2, [0, 1, 2, 3, 4]), (4, [3, 4])):
            assert offsets(await client.fetch("t", offset, version)) == expected

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_answer_carries_the_high_watermark(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        told = await client.fetch("t", 0, version)
        assert (code(told), told.high_watermark, told.records) == ("NONE", 0, b"")
        await client.produce("t", batch(b"a", b"b"))
        told = await client.fetch("t", 2, version)
        assert (code(told), told.high_watermark, told.records) == ("NONE", 2, b"")

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_offset_that_is_not_there_is_out_of_range(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        for _ in range(4):
            await client.produce("t", batch(b"v"))
        assert client.broker.partitions.find("t", 0).delete_records(2, NOW_MS) == 2
        for offset in (-1, 0, 1, 5, 1 << 40):
            told = await client.fetch("t", offset, version)
            assert (code(told), told.records) == ("OFFSET_OUT_OF_RANGE", b"")
            assert (told.high_watermark, told.last_stable_offset) == (-1, -1)
        assert offsets(await client.fetch("t", 2, version)) == [2, 3]
        assert code(await client.fetch("t", 4, version)) == "NONE"

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_known_is_told_for_each_partition(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        await client.produce("t", batch(b"v"))
        topics = [
            FetchTopic("t", client.topic_id("t"), [part(0), part(5)]),
            FetchTopic("u", client.topic_id("u"), [part(0)]),
        ]
        # An error is told at once: there is nothing to wait for.
        request = FetchRequest(max_wait=60_000, min_bytes=1 << 20, topics=topics)
        response = await client.ask(ApiKey.FETCH, request, version)
        told = [[code(each) for each in topic.partitions] for topic in response.responses]
        stranger = "UNKNOWN_TOPIC_ID" if version >= 13 else "UNKNOWN_TOPIC_OR_PARTITION"
        assert told == [["NONE", "UNKNOWN_TOPIC_OR_PARTITION"], [stranger]]
        assert offsets(response.responses[0].partitions[0]) == [0]

    run(tmp_path, act)


def part(index: int, offset: int = 0, size: int = 1 << 20, **more: Any) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=size, **more)


async def sizes(client: Client, version: int, *parts: FetchPartition, **options: Any) -> list[int]:
    topics = [FetchTopic("t", client.topic_id("t"), list(parts))]
    request = FetchRequest(topics=topics, **options)
    response = await client.ask(ApiKey.FETCH, request, version)
    return [len(each.records) for each in response.responses[0].partitions]


@pytest.mark.parametrize("version", [4, 11, 18])
def test_the_first_batch_is_whole_and_nothing_else_is_beyond_the_limits(
    tmp_path: Path, version: int
) -> None:
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
        # What has no room is looked at all the same.
        topics = [FetchTopic("t", client.topic_id("t"), [part(0), part(1, offset=9)])]
        request = FetchRequest(topics=topics, max_bytes=1)
        response = await client.ask(ApiKey.FETCH, request, version)
        told = [code(each) for each in response.responses[0].partitions]
        assert told == ["NONE", "OFFSET_OUT_OF_RANGE"]

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
def test_more_than_can_be_given_is_not_waited_for(tmp_path: Path, version: int) -> None:
    """The wait would be a minute: any of these would run into the test's timeout."""

    async def act(client: Client) -> None:
        await client.create("t", 2)
        data = batch(bytes(1000))
        for _ in range(3):
            await client.produce("t", data)
        size, long = len(data), {"max_wait": 60_000, "min_bytes": 1 << 30}
        both = [part(0), part(1)]
        # Fewer bytes are allowed than are asked for at least.
        assert await sizes(client, version, *both, max_bytes=size, **long) == [size, 0]
        # What fits ends at a batch's border, a little below the limit, and more follows.
        room = 2 * size + 10
        at_least = {"max_wait": 60_000, "min_bytes": room}
        assert await sizes(client, version, *both, max_bytes=room, **at_least) == [2 * size, 0]
        parts = [part(0, size=room), part(1, size=room)]
        assert await sizes(client, version, *parts, **at_least) == [2 * size, 0]

    run(tmp_path, act)


def test_an_older_segment_is_not_waited_for(tmp_path: Path) -> None:
    """A read ends with its segment; what is in the next one is not far."""

    async def act(client: Client) -> None:
        await client.create("t")
        for _ in range(2):
            client.broker.partitions.find("t", 0).log.roll(NOW_MS)
            await client.produce("t", batch(bytes(1000)))
        told = await client.fetch("t", 0, max_wait=60_000, min_bytes=2000)
        assert offsets(told) == [0]
        assert offsets(await client.fetch("t", 1)) == [1]

    run(tmp_path, act)


@pytest.mark.parametrize("version", range(9, 19))
def test_another_leader_epoch_is_told(tmp_path: Path, version: int) -> None:
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
def test_a_reader_of_another_history_is_told_where_it_ends(tmp_path: Path, version: int) -> None:
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
            told = await ask(offset, epoch)
            assert (told.diverging_epoch, offsets(told)) == (None, expected)
        for offset, epoch, end in ((3, 1, (1, 2)), (3, 2, (1, 2))):
            told = await ask(offset, epoch)
            assert (code(told), told.records) == ("NONE", b"")
            assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == end
        assert code(await ask(2, 9)) == "OFFSET_OUT_OF_RANGE"
        partition.delete_records(2, NOW_MS)
        assert code(await ask(1, 1)) == "OFFSET_OUT_OF_RANGE"

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_readers_of_committed_records_get_the_fields_they_need(
    tmp_path: Path, version: int
) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        await client.produce("t", batch(b"a", b"b"))
        told = await client.fetch("t", 0, version, isolation_level=1)
        assert (told.last_stable_offset, told.aborted_transactions) == (2, [])
        assert offsets(told) == [0, 1]
        empty = await client.fetch("t", 2, version, isolation_level=1)
        assert empty.aborted_transactions == []
        plain = await client.fetch("t", 0, version)
        assert (plain.last_stable_offset, plain.aborted_transactions) == (2, None)

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failed_directory_is_told_in_words_the_client_knows(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        log = client.broker.partitions.find("t", 0).log
        log.dir.failed(OSError(errno.EIO, "a test"), "test")
        told = await client.fetch("t", 0, version)
        expected = ErrorCode.KAFKA_STORAGE_ERROR
        if version < 6:
            expected = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert told.error_code == expected

    run(tmp_path, act)


def test_reading_goes_on_from_segment_to_segment(tmp_path: Path) -> None:
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
