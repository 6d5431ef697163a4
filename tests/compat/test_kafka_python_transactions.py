"""kafka-python's transactions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from compat_confluent import make_topic
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

PATIENCE_S = 60.0


def transactional(bootstrap: str, name: str) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    return producer


def committed_values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    with KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=500).values():
                found += [record.value for record in records]
        return found


def test_commit_and_abort(bootstrap: str, topic_name: str, unique: Callable[[str], str]) -> None:
    make_topic(bootstrap, topic_name)
    producer = transactional(bootstrap, unique("txn"))
    for value in (b"a", b"dropped", b"b"):
        producer.begin_transaction()
        producer.send(topic_name, value, partition=0).get(PATIENCE_S)
        if value == b"dropped":
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    assert committed_values(bootstrap, topic_name, 2) == [b"a", b"b"]


def test_a_zombie_is_fenced(bootstrap: str, topic_name: str, unique: Callable[[str], str]) -> None:
    make_topic(bootstrap, topic_name)
    name = unique("txn")
    zombie = transactional(bootstrap, name)
    zombie.begin_transaction()
    zombie.send(topic_name, b"left behind", partition=0).get(PATIENCE_S)
    successor = transactional(bootstrap, name)
    successor.begin_transaction()
    successor.send(topic_name, b"new", partition=0).get(PATIENCE_S)
    successor.commit_transaction()
    successor.close()
    with pytest.raises(KafkaError):
        zombie.commit_transaction()
    zombie.close(timeout=5)
    assert committed_values(bootstrap, topic_name, 1) == [b"new"]


def test_offsets_go_with_the_transaction(
    bootstrap: str, topic_name: str, group_name: str, unique: Callable[[str], str]
) -> None:
    make_topic(bootstrap, topic_name)
    place = TopicPartition(topic_name, 0)
    producer = transactional(bootstrap, unique("txn"))
    for offset, commit in ((3, True), (7, False)):
        producer.begin_transaction()
        producer.send(topic_name, b"v", partition=0).get(PATIENCE_S)
        offsets = {place: OffsetAndMetadata(offset, "", -1)}
        producer.send_offsets_to_transaction(offsets, group_name)
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    with KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group_name, enable_auto_commit=False
    ) as consumer:
        assert consumer.committed(place) == 3
