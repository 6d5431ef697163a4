"""Helpers for the confluent-kafka tests: create topics, produce and read back."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

PATIENCE_S = 60.0


def make_topic(bootstrap: str, name: str, partitions: int = 1, **config: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
    admin.create_topics([new])[name].result(PATIENCE_S)
    await_leaders(bootstrap, name, partitions)
    return name


def await_leaders(bootstrap: str, topic: str, partitions: int) -> None:
    """Apache Kafka's metadata follows its controller a moment later, above all after a start.

    (confluent-kafka crashes when it describes a partition that has no leader.)"""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        if len(found) == partitions and all(p.leader >= 0 for p in found.values()):
            return
        assert time.monotonic() < deadline, f"no leaders for {topic}"
        time.sleep(0.05)


def produce(
    bootstrap: str, topic: str, records: Iterable[dict[str, Any]], **config: Any
) -> list[Message]:
    """Sends records (arguments of Producer.produce); returns what was delivered, in order."""
    delivered: list[Message] = []

    def on_delivery(error: Any, message: Message) -> None:
        assert error is None, error
        delivered.append(message)

    settings = {key.replace("_", "."): value for key, value in config.items()}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    count = 0
    for record in records:
        producer.produce(topic, on_delivery=on_delivery, **record)
        count += 1
    assert producer.flush(PATIENCE_S) == 0
    assert len(delivered) == count
    return delivered


def consumer(bootstrap: str, **config: Any) -> Consumer:
    callbacks = ("error_cb", "on_commit")
    settings = {k if k in callbacks else k.replace("_", "."): v for k, v in config.items()}
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )


def take(reader: Consumer, count: int, patience_s: float = PATIENCE_S) -> list[Message]:
    """Exactly the next `count` messages; fails on an error and after a timeout."""
    messages: list[Message] = []
    deadline = time.monotonic() + patience_s
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} messages came"
        message = reader.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


def read_all(
    bootstrap: str, topic: str, count: int, partition: int = 0, **config: Any
) -> list[Message]:
    reader = consumer(bootstrap, **config)
    try:
        reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        return take(reader, count)
    finally:
        reader.close()


def refusal(future: Any) -> int | None:
    """The error code of a failed call, or None."""
    try:
        future.result(PATIENCE_S)
    except KafkaException as raised:
        code: int = raised.args[0].code()
        return code
    return None
