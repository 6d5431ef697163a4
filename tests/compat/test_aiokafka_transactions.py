"""aiokafka's transactions: an older client (AddPartitionsToTxn before each first record)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced
from compat_confluent import make_topic

PATIENCE_S = 60.0


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test, 2 * PATIENCE_S)

    asyncio.run(bounded())


async def committed_values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        found = [await asyncio.wait_for(consumer.getone(), PATIENCE_S) for _ in range(count)]
        return [record.value for record in found]


def test_commit_and_abort(bootstrap: str, topic_name: str, unique: Callable[[str], str]) -> None:
    make_topic(bootstrap, topic_name)

    async def test() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=unique("txn")
        ) as producer:
            async with producer.transaction():
                await producer.send_and_wait(topic_name, b"a", partition=0)
            with contextlib.suppress(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send_and_wait(topic_name, b"dropped", partition=0)
                    raise ZeroDivisionError
            async with producer.transaction():
                await producer.send_and_wait(topic_name, b"b", partition=0)
        assert await committed_values(bootstrap, topic_name, 2) == [b"a", b"b"]

    run(test())


def test_a_zombie_is_fenced(bootstrap: str, topic_name: str, unique: Callable[[str], str]) -> None:
    make_topic(bootstrap, topic_name)
    name = unique("txn")

    async def test() -> None:
        zombie = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await zombie.start()
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic_name, b"left behind", partition=0)
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as next_one:
            async with next_one.transaction():
                await next_one.send_and_wait(topic_name, b"new", partition=0)
            with pytest.raises(ProducerFenced):
                await zombie.commit_transaction()
        await zombie.stop()
        assert await committed_values(bootstrap, topic_name, 1) == [b"new"]

    run(test())


def test_offsets_go_with_the_transaction(
    bootstrap: str, topic_name: str, group_name: str, unique: Callable[[str], str]
) -> None:
    make_topic(bootstrap, topic_name)
    place = TopicPartition(topic_name, 0)

    async def test() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=unique("txn")
        ) as producer:
            for offset, commit in ((3, True), (7, False)):
                await producer.begin_transaction()
                await producer.send_and_wait(topic_name, b"v", partition=0)
                await producer.send_offsets_to_transaction({place: offset}, group_name)
                if commit:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
        consumer = AIOKafkaConsumer(
            topic_name, bootstrap_servers=bootstrap, group_id=group_name, enable_auto_commit=False
        )
        async with consumer:
            assert await consumer.committed(place) == 3

    run(test())
