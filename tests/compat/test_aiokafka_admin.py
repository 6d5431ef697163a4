"""aiokafka's admin client, which speaks rather old versions of the admin APIs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from compat_confluent import make_topic

PATIENCE_S = 60.0


def with_admin(bootstrap: str, test: Callable[[AIOKafkaAdminClient], Awaitable[None]]) -> None:
    async def bounded() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await asyncio.wait_for(test(admin), 2 * PATIENCE_S)
        finally:
            await admin.close()

    asyncio.run(bounded())


async def until(condition: Callable[[], Awaitable[object]], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await condition():
        assert time.monotonic() < deadline, f"never: {what}"
        await asyncio.sleep(0.05)


def test_create_describe_grow_and_delete_topics(bootstrap: str, topic_name: str) -> None:
    async def test(admin: AIOKafkaAdminClient) -> None:
        created = await admin.create_topics([NewTopic(topic_name, 2, 1)])
        assert [(entry[0], entry[1]) for entry in created.topic_errors] == [(topic_name, 0)]
        again = await admin.create_topics([NewTopic(topic_name, 2, 1)])
        assert again.topic_errors[0][1] == 36  # TOPIC_ALREADY_EXISTS

        async def partitions() -> int:
            (described,) = await admin.describe_topics([topic_name])
            return len(described["partitions"])

        async def has_two() -> bool:
            return await partitions() == 2

        async def has_four() -> bool:
            return await partitions() == 4

        await until(has_two, "two partitions")
        assert topic_name in await admin.list_topics()
        await admin.create_partitions({topic_name: NewPartitions(4)})
        await until(has_four, "four partitions")
        deleted = await admin.delete_topics([topic_name])
        assert deleted.topic_error_codes[0][1] == 0

        async def gone() -> bool:
            return topic_name not in await admin.list_topics()

        await until(gone, "it is gone")

    with_admin(bootstrap, test)


def test_describe_and_alter_configs(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)

    async def test(admin: AIOKafkaAdminClient) -> None:
        async def retention() -> str:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic_name)
            (answer,) = await admin.describe_configs([resource], include_synonyms=True)
            (described,) = answer.resources
            assert described[0] == 0
            values: dict[str, Any] = {entry[0]: entry[1] for entry in described[4]}
            return str(values["retention.ms"])

        assert await retention() == "604800000"
        change = ConfigResource(ConfigResourceType.TOPIC, topic_name, {"retention.ms": "777000"})
        await admin.alter_configs([change])

        async def changed() -> bool:
            return await retention() == "777000"

        await until(changed, "the new value")

    with_admin(bootstrap, test)


def test_groups_offsets_and_coordinator(bootstrap: str, topic_name: str, group_name: str) -> None:
    make_topic(bootstrap, topic_name)

    async def test(admin: AIOKafkaAdminClient) -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(topic_name, b"v")
        async with AIOKafkaConsumer(
            topic_name, bootstrap_servers=bootstrap, group_id=group_name,
            auto_offset_reset="earliest", enable_auto_commit=False,
        ) as consumer:  # fmt: skip
            await asyncio.wait_for(consumer.getone(), PATIENCE_S)
            await consumer.commit()
            assert await admin.find_coordinator(group_name) == 0
            groups = await admin.list_consumer_groups()
            assert (group_name, "consumer") in [tuple(group[:2]) for group in groups]
            (answer,) = await admin.describe_consumer_groups([group_name])
            (described,) = answer.groups
            assert (described[0], described[1], described[2]) == (0, group_name, "Stable")
        offsets = await admin.list_consumer_group_offsets(group_name)
        assert offsets[TopicPartition(topic_name, 0)].offset == 1

    with_admin(bootstrap, test)


def test_delete_records_and_describe_cluster(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    partition = TopicPartition(topic_name, 0)

    async def test(admin: AIOKafkaAdminClient) -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for _ in range(10):
                await producer.send_and_wait(topic_name, b"v")
        low = await admin.delete_records({partition: RecordsToDelete(before_offset=7)})
        assert low == {partition: 7}
        cluster = await admin.describe_cluster()
        (broker,) = cluster["brokers"]
        assert f"{broker['host']}:{broker['port']}" == bootstrap
        assert cluster["controller_id"] == broker["node_id"]

    with_admin(bootstrap, test)
