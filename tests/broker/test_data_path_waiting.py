"""Delayed fetches: what wakes them, what they leave behind, and sessions (KIP-227)."""

from __future__ import annotations

import asyncio
import errno
import time
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import NOW_MS, Client, batch, code, records_of, run, waiters

from ottla.records.batch import AppendOrigin
from ottla.records.control import Marker, build_marker
from ottla.wire.apis import ApiKey
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

VERSIONS = [4, 7, 12, 13, 18]
LONG: dict[str, Any] = {"max_wait": 60_000}


def begin_fetch(
    client: Client, topic: str, at: dict[int, int], version: int, **options: Any
) -> Any:
    """A fetch that found nothing and waits."""
    request = client.fetch_request(topic, at, **{**LONG, **options})
    waiting = asyncio.ensure_future(client.begin(ApiKey.FETCH, request, version)())
    assert waiters(client.broker) == len(at)
    return waiting


async def responses(waiting: asyncio.Future[Any]) -> list[Any]:
    response = await asyncio.wait_for(waiting, 60)
    return [part for topic in response.responses for part in topic.partitions]


async def delete(client: Client, name: str) -> None:
    request = DeleteTopicsRequest(topic_names=[name])
    response = await Client(client.broker).ask(ApiKey.DELETE_TOPICS, request, 5)
    assert response.responses[0].error_code == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_an_append_wakes_a_waiting_fetch(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 3)
        other = Client(client.broker)
        waiting = begin_fetch(client, "t", {0: 0, 1: 0, 2: 0}, version)
        await other.produce("t", batch(b"v"), index=1)
        answers = await responses(waiting)
        assert [len(records_of(answer)) for answer in answers] == [0, 1, 0]
        assert [answer.high_watermark for answer in answers] == [0, 1, 0]
        assert waiters(client.broker) == 0

    run(tmp_path, act)


def test_a_fetch_waits_for_min_bytes(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 2)
        size = len(batch(b"v"))
        other = Client(client.broker)
        waiting = begin_fetch(client, "t", {0: 0, 1: 0}, 18, min_bytes=3 * size)
        for index in (0, 1):
            await other.produce("t", batch(b"v"), index=index)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not waiting.done()
        await other.produce("t", batch(b"v"), index=1)
        assert [len(records_of(answer)) for answer in await responses(waiting)] == [1, 2]
        assert waiters(client.broker) == 0

    run(tmp_path, act)


def test_a_fetch_with_large_min_bytes_does_not_read_at_every_append(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 3)
        partitions = client.broker.partitions
        find, looks = partitions.find, 0

        def counting(topic: str, index: int) -> Any:
            nonlocal looks
            looks += 1
            return find(topic, index)

        size, other = len(batch(b"v")), Client(client.broker)
        waiting = begin_fetch(client, "t", {0: 0, 1: 0, 2: 0}, 18, min_bytes=30 * size)
        partitions.find = counting  # type: ignore[method-assign]
        for number in range(30):
            assert (looks, waiting.done()) == (0, False)
            await other.produce("t", batch(b"v"), index=number % 3)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert [len(records_of(answer)) for answer in await responses(waiting)] == [10, 10, 10]
        assert looks == 3

    run(tmp_path, act)


def test_a_small_transaction_marker_wakes_a_waiting_fetch(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        partition = client.broker.partitions.find("t", 0)
        size = len(batch(bytes(1000)))
        request = {"min_bytes": size, "isolation_level": 1}
        waiting = begin_fetch(client, "t", {0: 0}, 18, **request)
        begun = batch(
            bytes(1000), producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
        )
        partition.append(memoryview(bytearray(begun)), NOW_MS)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
        end = build_marker(Marker(True, 0), producer_id=5, producer_epoch=0, timestamp=NOW_MS)
        partition.log.append(
            memoryview(bytearray(end)),
            leader_epoch=0,
            now_ms=NOW_MS,
            origin=AppendOrigin.COORDINATOR,
        )
        partition.append(memoryview(bytearray(batch(b"v"))), NOW_MS)
        (answer,) = await responses(waiting)
        assert (answer.last_stable_offset, answer.aborted_transactions) == (3, [])

    run(tmp_path, act)


def test_all_appends_of_one_turn_are_in_one_response(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        waiting = begin_fetch(client, "t", {0: 0}, 18)
        partition = client.broker.partitions.find("t", 0)
        for _ in range(5):
            partition.append(memoryview(bytearray(batch(b"v"))), NOW_MS)
        (answer,) = await responses(waiting)
        assert len(records_of(answer)) == 5

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_is_answered_after_max_wait(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        await client.produce("t", batch(b"v"))
        began = time.monotonic()
        (answer,) = await responses(
            begin_fetch(client, "t", {0: 0}, version, max_wait=50, min_bytes=5000)
        )
        assert len(records_of(answer)) == 1
        (answer,) = await responses(begin_fetch(client, "t", {0: 1}, version, max_wait=50))
        assert (answer.high_watermark, answer.records) == (1, b"")
        assert time.monotonic() - began > 0.09
        assert waiters(client.broker) == 0

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_deleted_topic_wakes_a_waiting_fetch(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 2)
        gone = list(client.broker.partitions)
        waiting = begin_fetch(client, "t", {0: 0, 1: 0}, version)
        await delete(client, "t")
        expected = "UNKNOWN_TOPIC_ID" if version >= 13 else "UNKNOWN_TOPIC_OR_PARTITION"
        assert [code(answer) for answer in await responses(waiting)] == [expected] * 2
        assert [len(partition.waiting) for partition in gone] == [0, 0]

    run(tmp_path, act)


def test_a_recreated_topic_wakes_a_fetch_of_the_old_one(tmp_path: Path) -> None:
    """Recreated before the waiting fetch reads again, which then gets the new topic by name."""

    async def act(client: Client) -> None:
        await client.create("t")
        old = client.broker.partitions.find("t", 0)
        waiting = begin_fetch(client, "t", {0: 0}, 12)
        await client.broker.controller.delete_topics(["t"])
        await client.create("t")
        new = client.broker.partitions.find("t", 0)
        assert new is not old
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
        assert (len(old.waiting), len(new.waiting)) == (0, 1)
        await Client(client.broker).produce("t", batch(b"v"))
        (answer,) = await responses(waiting)
        assert len(records_of(answer)) == 1
        assert waiters(client.broker) == 0

    run(tmp_path, act)


def test_a_failed_directory_wakes_fetches_of_its_partitions(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        waiting = begin_fetch(client, "t", {0: 0}, 18)
        log = client.broker.partitions.find("t", 0).log
        log.dir.failed(OSError(errno.EIO, "a test"), "test")
        assert [code(answer) for answer in await responses(waiting)] == ["KAFKA_STORAGE_ERROR"]

    run(tmp_path, act)


def test_deleted_records_wake_a_fetch_below_the_start_offset(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        for _ in range(3):
            await client.produce("t", batch(b"v"))
        waiting = begin_fetch(client, "t", {0: 1}, 18, min_bytes=10_000)
        client.broker.partitions.find("t", 0).delete_records(2, NOW_MS)
        assert [code(answer) for answer in await responses(waiting)] == ["OFFSET_OUT_OF_RANGE"]

    run(tmp_path, act)


def test_a_cancelled_fetch_leaves_nothing_behind(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 3)
        request = client.fetch_request("t", {0: 0, 1: 0, 2: 0}, max_wait=2**31 - 1)
        answer = client.dispatch(client.receive_message(ApiKey.FETCH, request, 18))
        assert waiters(client.broker) == 3
        answer.cancel()
        await asyncio.sleep(0)
        assert waiters(client.broker) == 0
        assert code(await Client(client.broker).produce("t", batch(b"v"))) == "NONE"

    run(tmp_path, act)


# Sessions


class Reader:
    """A client with a session, by names (v12) or by ids (v13)."""

    def __init__(self, client: Client, version: int) -> None:
        self.client = client
        self.version = version
        self.session = (0, 0)

    async def ask(self, at: dict[int, int], forget: tuple[int, ...] = (), **options: Any) -> Any:
        topic_id = self.client.topic_id("t")
        parts = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in at.items()
        ]
        request = FetchRequest(
            topics=[FetchTopic("t", topic_id, parts)] if parts else [],
            forgotten_topics_data=[ForgottenTopic("t", topic_id, list(forget))] if forget else [],
            session_id=self.session[0],
            session_epoch=self.session[1],
            **{"max_wait": 0, "min_bytes": 1, **options},
        )
        return await self.client.ask(ApiKey.FETCH, request, self.version)

    async def read(self, at: dict[int, int], forget: tuple[int, ...] = ()) -> dict[int, int]:
        """Fetch in the session; returns the count of records by partition."""
        response = await self.ask(at, forget)
        assert response.error_code == 0
        self.session = (response.session_id, self.session[1] + 1)
        return {
            part.partition_index: len(records_of(part))
            for topic in response.responses
            for part in topic.partitions
        }


@pytest.mark.parametrize("version", range(7, 19))
def test_a_session_returns_only_changed_partitions(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 3)
        reader = Reader(client, version)
        assert await reader.read({0: 0, 1: 0, 2: 0}) == {0: 0, 1: 0, 2: 0}
        session_id = reader.session[0]
        assert session_id > 0
        assert await reader.read({}) == {}
        await client.produce("t", batch(b"v"), index=1)
        assert await reader.read({}) == {1: 1}
        assert await reader.read({1: 1}) == {}
        # Partition 2 is forgotten and not in the response; 0 is read from another offset.
        for index in (0, 2):
            await client.produce("t", batch(b"v"), index=index)
        assert await reader.read({}, forget=(2,)) == {0: 1}
        assert await reader.read({0: 1, 2: 0}) == {2: 1}
        assert reader.session == (session_id, 6)
        # A new log start offset is a change, too, and so is a new high watermark.
        client.broker.partitions.find("t", 1).delete_records(1, NOW_MS)
        assert await reader.read({2: 1}) == {1: 0}

    run(tmp_path, act)


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_session_repeats_an_error_until_it_is_gone(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        reader = Reader(client, version)
        await reader.read({0: 0, 7: 0})
        for _ in range(2):
            response = await reader.ask({})
            reader.session = (reader.session[0], reader.session[1] + 1)
            assert [code(partition) for partition in response.responses[0].partitions] == [
                "UNKNOWN_TOPIC_OR_PARTITION"
            ]
        await client.broker.controller.create_partitions({"t": (8, None)})
        assert await reader.read({}) == {7: 0}
        assert await reader.read({}) == {}

    run(tmp_path, act)


@pytest.mark.parametrize("version", range(7, 19))
def test_an_invalid_session_is_refused(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 2)
        reader = Reader(client, version)
        await reader.read({0: 0, 1: 0})
        session_id, epoch = reader.session
        for session, expected in (
            ((session_id + 1, epoch), "FETCH_SESSION_ID_NOT_FOUND"),
            ((0, 3), "FETCH_SESSION_ID_NOT_FOUND"),
            ((session_id, epoch + 1), "INVALID_FETCH_SESSION_EPOCH"),
            ((session_id, 2**31 - 1), "INVALID_FETCH_SESSION_EPOCH"),
        ):
            reader.session = session
            response = await reader.ask({})
            assert (code(response), response.session_id) == (expected, 0)
            assert response.responses == []
        other = Reader(client, 12 if version >= 13 else 13)
        other.session = (session_id, epoch)
        assert code(await other.ask({})) == "FETCH_SESSION_TOPIC_ID_ERROR"
        reader.session = (session_id, epoch)
        assert await reader.read({}) == {}

    run(tmp_path, act)


def test_a_session_ends_on_request_and_a_new_one_replaces_it(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        sessions = client.broker.fetch_sessions
        reader = Reader(client, 18)
        await reader.read({0: 0})
        assert len(sessions) == 1
        old = reader.session[0]
        reader.session = (old, 0)
        await reader.read({0: 0})
        assert (len(sessions), reader.session[0] != old) == (1, True)
        reader.session = (reader.session[0], -1)
        response = await reader.ask({0: 0})
        assert (response.session_id, len(sessions)) == (0, 0)
        # A session ends with its last partition, and has nothing to wait for.
        reader.session = (0, 0)
        await reader.read({0: 0})
        response = await reader.ask({}, forget=(0,), max_wait=60_000)
        assert (response.session_id, response.responses, len(sessions)) == (0, [], 0)

    run(tmp_path, act)


def test_without_room_for_a_session_every_fetch_is_a_full_fetch(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        assert await Reader(client, 18).read({0: 0}) == {0: 0}
        response = await Reader(client, 18).ask({0: 0})
        assert (response.error_code, response.session_id) == (0, 0)
        assert len(response.responses) == 1

    run(tmp_path, act, max_incremental_fetch_session_cache_slots="1")


def test_a_waiting_fetch_of_a_session_returns_only_the_news(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create("t", 3)
        reader = Reader(client, 18)
        await reader.read({0: 0, 1: 0, 2: 0})
        waiting = asyncio.ensure_future(reader.ask({}, max_wait=60_000))
        await asyncio.sleep(0)
        assert waiters(client.broker) == 3
        await Client(client.broker).produce("t", batch(b"v"), index=2)
        answers = await responses(waiting)
        assert [answer.partition_index for answer in answers] == [2]
        assert waiters(client.broker) == 0

    run(tmp_path, act)


def test_partitions_take_turns_in_a_session(tmp_path: Path) -> None:
    """With room for one batch per response, no partition starves."""

    async def act(client: Client) -> None:
        await client.create("t", 3)
        for index in range(3):
            for _ in range(3):
                await client.produce("t", batch(b"v"), index=index)
        reader = Reader(client, 18)
        at = {0: 0, 1: 0, 2: 0}
        response = await reader.ask(at, max_bytes=1)
        served = []
        for epoch in range(1, 9):
            (got,) = [p for p in response.responses[0].partitions if p.records]
            served.append(got.partition_index)
            at[got.partition_index] += 1
            reader.session = (response.session_id, epoch)
            response = await reader.ask({got.partition_index: at[got.partition_index]}, max_bytes=1)
        assert served == [0, 1, 2] * 2 + [0, 1]

    run(tmp_path, act)
