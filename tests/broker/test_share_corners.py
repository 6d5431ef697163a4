"""Share groups during other events: the cleaner, a lost connection, a lost response, an
administrator."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

from data_path_broker import Client, batch, code, run, until
from share_client import ACCEPT, TOPIC, ShareMember, acquired, configure, queue

from ottla.broker.quota_entities import CLIENT_ID


def test_a_gap_larger_than_the_in_flight_limit_is_skipped(tmp_path: Path) -> None:
    """A group that starts late on a compacted topic finds no record for thousands of offsets."""

    async def act(client: Client) -> None:
        compact = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}
        member = await queue(client, **compact)
        log = client.broker.partitions.find(TOPIC, 0).log
        log.reconfigure(dataclasses.replace(log.config, segment_bytes=1000, file_delete_delay_ms=0))
        for number in range(400):
            await member.produce(TOPIC, batch(b"v%d" % number, key=b"k%d" % (number % 10)))
        await until(lambda: log.first_dirty_offset == log.segments.active.base_offset)
        found = []
        for _ in range(20):
            answer = await member.share_fetch()
            for part in acquired(answer):
                found += range(part[0], part[1] + 1)
        assert set(range(390, 400)) <= set(found)

    locks = {"group_share_partition_max_record_locks": "100"}
    locks["group_share_min_partition_max_record_locks"] = "100"
    run(tmp_path, act, log_cleaner_backoff_ms="10", **locks)


def test_a_client_that_disconnects_acquires_nothing(tmp_path: Path) -> None:
    """With a quota, another future wraps the waiting fetch, which is cancelled later."""

    async def act(client: Client) -> None:
        one = await queue(client)
        two = ShareMember(client.broker, "n")
        await client.broker.settings.alter_quotas(
            [((CLIENT_ID, "test"),)],
            lambda entity, present: {"consumer_byte_rate": "1e9"},
            validate_only=False,
        )
        assert client.broker.quotas.active
        await one.send(4)
        assert await one.acquire() == [(0, 3, 1)]
        waiting = asyncio.ensure_future(one.begin_fetch(max_wait=10_000)())
        await asyncio.sleep(0)
        client.broker.disconnected(one._session)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert await two.acquire() == [(0, 3, 2)]

    run(tmp_path, act)


def test_a_fetch_of_a_replaced_session_acquires_nothing(tmp_path: Path) -> None:
    """The client reconnected, and the broker has not noticed that the first connection is dead."""

    async def act(client: Client) -> None:
        old = await queue(client)
        waiting = old.begin_fetch(max_wait=10_000)
        new = ShareMember(client.broker)
        writer = ShareMember(client.broker, "writer")
        fetching = new.begin_fetch(max_wait=10_000)
        await writer.send(3)
        assert acquired(await fetching()) == [(0, 2, 1)]
        assert code(await waiting()) == "SHARE_SESSION_NOT_FOUND"
        assert await new.say((0, 2, ACCEPT)) == "NONE"

    run(tmp_path, act)


def test_the_first_fetch_of_a_group_brings_one_partition(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create(TOPIC, 3)
        await configure(client.broker, "workers", **{"share.auto.offset.reset": "earliest"})
        one, two = ShareMember(client.broker), ShareMember(client.broker, "n")
        for member in (one, two):
            await member.join()
        for index in (1, 2):  # the first one is empty
            await one.send(3, index)
        assert by_partition(await one.share_fetch(partitions=(0, 1, 2))) == {1: 3}
        assert by_partition(await two.share_fetch(partitions=(0, 1, 2))) == {2: 3}
        for index in (0, 1, 2):
            await one.send(2, index)
        assert by_partition(await two.share_fetch(partitions=())) == {0: 2, 1: 2, 2: 2}

    run(tmp_path, act)


def test_a_first_fetch_that_needs_several_partitions_gets_them(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create(TOPIC, 2)
        await configure(client.broker, "workers", **{"share.auto.offset.reset": "earliest"})
        member = ShareMember(client.broker)
        await member.join()
        for index in (0, 1):
            await member.send(3, index)
        fetch = member.share_fetch(partitions=(0, 1), min_bytes=150, max_wait=30_000)
        assert by_partition(await asyncio.wait_for(fetch, 60)) == {0: 3, 1: 3}

    run(tmp_path, act)


def by_partition(answer: Any) -> dict[int, int]:
    """The count of acquired records by partition."""
    return {
        partition.partition_index: sum(
            run.last_offset - run.first_offset + 1 for run in partition.acquired_records
        )
        for topic in answer.responses
        for partition in topic.partitions
        if partition.acquired_records
    }
