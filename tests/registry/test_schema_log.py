"""Appends to the topic, and writers that it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from log_writer import CountedState, decide, topic

from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record
from ottla.registry.schema_log import NOOP, SchemaLog
from ottla.registry.topic import WriteToken
from ottla.testing import LocalCluster

LAST_EPOCH = 32766
STRANGER = 4711


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with LocalCluster() as cluster:
        yield cluster.bootstrap_servers


@asynccontextmanager
async def opened(bootstrap: str) -> AsyncIterator[SchemaLog[CountedState]]:
    log = SchemaLog(topic(bootstrap), topic(bootstrap), CountedState)
    await log.start()
    try:
        yield log
    finally:
        await log.stop()


async def write(log: SchemaLog[CountedState], text: str) -> object:
    return (await log.write(lambda state: decide(state, "s", text)))["id"]


def test_two_instances_write_in_turn_and_at_once(bootstrap: str) -> None:
    async def scenario() -> None:
        async with opened(bootstrap) as one, opened(bootstrap) as two:
            first = one.state.last_id
            turns = [await write(log, "turn") for log in (one, two, one, two)]
            assert turns == list(range(first + 1, first + 5))
            # The same bytes from both: one batch, which answers both.
            at_once = await asyncio.gather(
                *(
                    write(log, f"{number}-{count}")
                    for count in range(10)
                    for number, log in enumerate((one, two))
                )
            )
            assert sorted(at_once) == list(range(first + 5, first + 25))
            await one.catch_up()
            await two.catch_up()
            assert one.state.last_id == two.state.last_id == first + 24

    asyncio.run(scenario())


def test_a_follower_sees_what_another_instance_wrote(bootstrap: str) -> None:
    async def scenario() -> None:
        async with opened(bootstrap) as one, opened(bootstrap) as two:
            written = await write(one, "news")
            async with asyncio.timeout(60):
                while two.state.last_id != written:
                    await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_a_registry_stops_at_once_if_its_broker_is_gone() -> None:
    """Its reader tries again meanwhile, and would do so for an hour."""

    async def scenario() -> None:
        cluster = LocalCluster()
        cluster.start()
        servers = cluster.bootstrap_servers
        reader, writer = (topic(servers, timeout_s=3600.0) for _ in range(2))
        log = SchemaLog(reader, writer, CountedState)
        try:
            await log.start()
        finally:
            await asyncio.to_thread(cluster.stop)  # the loop goes on, and with it the reader
        await log.stop()

    asyncio.run(scenario())


def test_an_older_epoch_can_not_write(bootstrap: str) -> None:
    async def scenario() -> None:
        async with opened(bootstrap) as one:
            await write(one, "before")
            stale = topic(bootstrap)
            token = stale.take_epoch()
            await write(one, "before the new epoch is in the log")
            stale.append(token, [Record(timestamp=0, key=NOOP)])
            old = WriteToken(token.producer_id, token.producer_epoch - 1, 2)
            with pytest.raises(KafkaError) as refused:
                stale.append(old, [Record(timestamp=0, key=NOOP)])
            assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
            await write(one, "goes on in the new epoch")
            stale.close()

    asyncio.run(scenario())


def test_a_producer_id_without_epochs_left_can_not_write_any_more(bootstrap: str) -> None:
    """The coordinator then gives another id; its new owner ends the old one."""
    old = topic(bootstrap)
    token = WriteToken(STRANGER, LAST_EPOCH, 0)
    old.prepare()
    old.append(token, [Record(timestamp=0, key=NOOP)])

    async def scenario() -> None:
        async with opened(bootstrap) as log:
            await write(log, "from the new id")

    asyncio.run(scenario())
    with pytest.raises(KafkaError) as refused:
        old.append(WriteToken(STRANGER, LAST_EPOCH, 1), [Record(timestamp=0, key=NOOP)])
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    old.close()


def test_a_topic_that_would_lose_schemas_is_refused() -> None:
    with LocalCluster() as cluster:
        cluster.create_topic("_schemas")
        refused = topic(cluster.bootstrap_servers)
        with pytest.raises(KafkaError, match=r"cleanup\.policy=delete"):
            refused.prepare()
        refused.close()
