"""Topics for one measurement, created before it and deleted with all their bytes after it."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Generator

from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.brokers import Broker, Target

REQUEST_TIMEOUT_S = 30.0
FILES_GONE_TIMEOUT_S = 5.0
_numbers = itertools.count(1)


def create_topic(
    broker: Target, purpose: str, *, partitions: int = 1, config: dict[str, str] | None = None
) -> str:
    topic = f"bench-{purpose}-{next(_numbers)}"
    new = NewTopic(topic, partitions, 1, config=config or {})
    client = admin(broker)  # keep a reference: a collected client fails its requests in flight
    client.create_topics([new])[topic].result(REQUEST_TIMEOUT_S)
    return topic


def delete_topic(broker: Broker, topic: str) -> None:
    """Deletes, waits until the files are gone, and lets the disk come to rest.

    Never fails: a broker that died must not hide behind this why it died.
    """
    with contextlib.suppress(Exception):
        client = admin(broker)
        client.delete_topics([topic])[topic].result(REQUEST_TIMEOUT_S)
        deadline = time.monotonic() + FILES_GONE_TIMEOUT_S
        while _has_files(broker, topic) and time.monotonic() < deadline:
            time.sleep(0.05)
    os.sync()


def _has_files(broker: Broker, topic: str) -> bool:
    return any((broker.directory / "data").glob(f"{topic}-*"))


@contextlib.contextmanager
def topic_for(broker: Broker, purpose: str, *, partitions: int = 1) -> Generator[str, None, None]:
    topic = create_topic(broker, purpose, partitions=partitions)
    try:
        yield topic
    finally:
        delete_topic(broker, topic)


def admin(broker: Target) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})


def wait_for_group(broker: Target, group: str) -> None:
    """Wait until every member of the group has its partitions."""
    client = admin(broker)
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(KafkaException):  # the group is not known yet
            described = client.describe_consumer_groups([group])[group].result(REQUEST_TIMEOUT_S)
            if described.state == ConsumerGroupState.STABLE:
                return
        time.sleep(0.05)
    raise TimeoutError(f"group {group} is not stable after {REQUEST_TIMEOUT_S:.0f} s")


def first_timestamp_ms(broker: Broker, topic: str) -> int:
    """The timestamp of partition 0's first record: when a producer began."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"{topic}-first"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(REQUEST_TIMEOUT_S)
        if message is None or message.error() is not None:
            raise RuntimeError(f"no first record in {topic}")
        return int(message.timestamp()[1])
    finally:
        consumer.close()
