"""aiokafka: producer, consumer and groups on asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import (
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
)
from aiokafka.structs import OffsetAndMetadata
from compat_confluent import make_topic

PATIENCE_S = 60.0


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test, 2 * PATIENCE_S)

    asyncio.run(bounded())


async def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        await asyncio.sleep(0.05)


async def send(
    bootstrap: str, topic: str, values: list[bytes], partition: int = 0, **config: Any
) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **config) as producer:
        waiting = [await producer.send(topic, value, partition=partition) for value in values]
        await asyncio.gather(*waiting)


def reader(bootstrap: str, *topics: str, **config: Any) -> AIOKafkaConsumer:
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **config}
    return AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, **settings)


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    return [await asyncio.wait_for(consumer.getone(), PATIENCE_S) for _ in range(count)]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back_as_it_was_sent(
    bootstrap: str, topic_name: str, codec: str | None
) -> None:
    make_topic(bootstrap, topic_name)
    values = [b"value %d " % i * 20 for i in range(300)]

    async def test() -> None:
        await send(bootstrap, topic_name, values, compression_type=codec, linger_ms=20)
        async with reader(bootstrap, topic_name) as consumer:
            got = await take(consumer, 300)
        assert [record.value for record in got] == values
        assert [record.offset for record in got] == list(range(300))

    run(test())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting(bootstrap: str, topic_name: str, acks: int | str) -> None:
    make_topic(bootstrap, topic_name)

    async def test() -> None:
        await send(bootstrap, topic_name, [b"%d" % i for i in range(50)], acks=acks)
        async with reader(bootstrap, topic_name) as consumer:
            assert [int(record.value) for record in await take(consumer, 50)] == list(range(50))

    run(test())


def test_idempotent_producer_with_headers_keys_and_timestamps(
    bootstrap: str, topic_name: str
) -> None:
    make_topic(bootstrap, topic_name)

    async def test() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True
        ) as producer:
            headers = [("a", b"1"), ("a", b"")]
            done = await producer.send_and_wait(
                topic_name, b"v", key=b"k", headers=headers, timestamp_ms=1_700_000_000_000
            )
            assert (done.offset, done.timestamp) == (0, 1_700_000_000_000)
            await producer.send_and_wait(topic_name, None, key=b"tombstone")
            for i in range(100):
                await producer.send(topic_name, b"%d" % i)
            await producer.flush()
        async with reader(bootstrap, topic_name) as consumer:
            got = await take(consumer, 102)
        assert (got[0].key, got[0].value, got[0].timestamp) == (b"k", b"v", 1_700_000_000_000)
        assert list(got[0].headers) == headers
        assert (got[1].key, got[1].value) == (b"tombstone", None)
        assert [int(record.value) for record in got[2:]] == list(range(100))

    run(test())


def test_too_large_is_reported(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, max_message_bytes="1000")

    async def test() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic_name, b"x" * 5000)
            await producer.send_and_wait(topic_name, b"small")

    run(test())


def test_unknown_topic_is_created_on_first_use(bootstrap: str, topic_name: str) -> None:
    async def test() -> None:
        await send(bootstrap, topic_name, [b"first"])
        async with reader(bootstrap, topic_name) as consumer:
            assert (await take(consumer, 1))[0].value == b"first"

    run(test())


def test_log_append_time(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, message_timestamp_type="LogAppendTime")

    async def test() -> None:
        before_ms = int(time.time() * 1000) - 1000
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            done = await producer.send_and_wait(topic_name, b"v", timestamp_ms=1000)
        assert done.timestamp_type == 1
        assert done.timestamp >= before_ms
        async with reader(bootstrap, topic_name) as consumer:
            (record,) = await take(consumer, 1)
        assert (record.timestamp_type, record.timestamp) == (1, done.timestamp)

    run(test())


def test_seeking_and_offsets(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    partition = TopicPartition(topic_name, 0)

    async def test() -> None:
        start_ms = int(time.time() * 1000) - 100_000
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for i in range(20):
                await producer.send_and_wait(
                    topic_name, b"%d" % i, timestamp_ms=start_ms + i * 1000
                )
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 20}
            found = await consumer.offsets_for_times({partition: start_ms + 4500})
            assert (found[partition].offset, found[partition].timestamp) == (5, start_ms + 5000)
            late = await consumer.offsets_for_times({partition: start_ms + 99_000})
            assert late == {partition: None}
            consumer.seek(partition, 17)
            assert [record.offset for record in await take(consumer, 3)] == [17, 18, 19]
            assert consumer.highwater(partition) == 20
            await consumer.seek_to_beginning(partition)
            assert (await take(consumer, 1))[0].offset == 0
            await consumer.seek_to_end(partition)
            assert await consumer.position(partition) == 20
            consumer.pause(partition)
            consumer.seek(partition, 10)
            assert await consumer.getmany(timeout_ms=500) == {}
            consumer.resume(partition)
            assert (await take(consumer, 1))[0].offset == 10

    run(test())


def test_offset_out_of_range_without_a_policy(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)

    async def test() -> None:
        await send(bootstrap, topic_name, [b"v"])
        async with reader(bootstrap, auto_offset_reset="none") as consumer:
            partition = TopicPartition(topic_name, 0)
            consumer.assign([partition])
            consumer.seek(partition, 500)
            with pytest.raises(OffsetOutOfRangeError):
                await asyncio.wait_for(consumer.getone(), PATIENCE_S)

    run(test())


class _Ownership(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.owned: set[TopicPartition] = set()

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.owned = set()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.owned = set(assigned)


@pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor]
)
def test_three_members_share_and_hand_over(
    bootstrap: str, topic_name: str, group_name: str, assignor: type
) -> None:
    make_topic(bootstrap, topic_name, partitions=6)

    async def test() -> None:
        members: list[tuple[AIOKafkaConsumer, _Ownership, asyncio.Task[None]]] = []
        values: list[int] = []

        async def poll(consumer: AIOKafkaConsumer) -> None:
            async for record in consumer:
                values.append(int(record.value))

        def spread() -> bool:
            owned = [p for _, ownership, _ in members for p in ownership.owned]
            everybody = all(ownership.owned for _, ownership, _ in members)
            return everybody and len(owned) == len(set(owned)) == 6

        async def leave() -> None:
            consumer, _, task = members.pop()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await consumer.stop()

        for count in (1, 2, 3):
            consumer = reader(bootstrap, group_id=group_name, heartbeat_interval_ms=300,
                              partition_assignment_strategy=(assignor,))  # fmt: skip
            ownership = _Ownership()
            await consumer.start()
            consumer.subscribe([topic_name], listener=ownership)
            members.append((consumer, ownership, asyncio.create_task(poll(consumer))))
            await until(spread, f"{count} members share")
        for partition in range(6):
            await send(
                bootstrap, topic_name, [b"%d" % (partition * 10 + i) for i in range(10)], partition
            )
        await until(lambda: len(values) >= 60, "all is read")
        assert sorted(values) == list(range(60))
        await leave()
        await until(spread, "two members share")
        await leave()
        await leave()

    run(test())


def test_commit_and_go_on(bootstrap: str, topic_name: str, group_name: str) -> None:
    make_topic(bootstrap, topic_name)
    partition = TopicPartition(topic_name, 0)

    async def test() -> None:
        await send(bootstrap, topic_name, [b"%d" % i for i in range(20)])
        async with reader(bootstrap, topic_name, group_id=group_name) as consumer:
            assert await consumer.committed(partition) is None
            await take(consumer, 8)
            await consumer.commit()
            assert await consumer.committed(partition) == 8
            await consumer.commit({partition: OffsetAndMetadata(12, "note")})
        async with reader(bootstrap, topic_name, group_id=group_name) as consumer:
            assert [record.offset for record in await take(consumer, 2)] == [12, 13]

    run(test())


def test_auto_commit(bootstrap: str, topic_name: str, group_name: str) -> None:
    make_topic(bootstrap, topic_name)

    async def test() -> None:
        await send(bootstrap, topic_name, [b"%d" % i for i in range(5)])
        config = {"group_id": group_name, "enable_auto_commit": True}
        async with reader(bootstrap, topic_name, **config) as consumer:
            await take(consumer, 5)
        async with reader(bootstrap, topic_name, group_id=group_name) as consumer:
            assert await consumer.committed(TopicPartition(topic_name, 0)) == 5

    run(test())


def test_static_member(bootstrap: str, topic_name: str, group_name: str) -> None:
    make_topic(bootstrap, topic_name, partitions=2)

    async def test() -> None:
        generations = []
        for _ in range(2):
            config = {"group_id": group_name, "group_instance_id": "rock"}
            async with reader(bootstrap, topic_name, **config) as consumer:
                await until(lambda: len(consumer.assignment()) == 2, "it has its partitions")
                generations.append(consumer._coordinator.generation)
        assert generations[0] == generations[1]

    run(test())


def test_pattern_subscription(
    bootstrap: str, unique: Callable[[str], str], group_name: str
) -> None:
    prefix = unique("aio")
    make_topic(bootstrap, f"{prefix}-a")

    async def test() -> None:
        async with reader(bootstrap, group_id=group_name, metadata_max_age_ms=500) as consumer:
            consumer.subscribe(pattern=f"^{prefix}-.*")
            await until(lambda: len(consumer.assignment()) == 1, "the first topic")
            await asyncio.to_thread(make_topic, bootstrap, f"{prefix}-b")
            await until(lambda: len(consumer.assignment()) == 2, "the topic that came later")

    run(test())


def test_read_committed_and_large_values(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, max_message_bytes="8000000")
    large = bytes(range(256)) * 15_000

    async def test() -> None:
        await send(bootstrap, topic_name, [large, b"small"], max_request_size=8_000_000)
        async with reader(
            bootstrap, topic_name, isolation_level="read_committed", max_partition_fetch_bytes=1000
        ) as consumer:
            assert [record.value for record in await take(consumer, 2)] == [large, b"small"]

    run(test())
