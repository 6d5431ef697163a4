"""Quotas and clients' metrics, as librdkafka meets them."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from compat_confluent import make_topic, read_all
from confluent_kafka import Consumer, Producer

from ottla.client.admin import Admin
from ottla.client.configs import ResourceType

OTHER_BROKER = os.environ.get("OTTLA_COMPAT_BROKER") == "apache"
SIZE, COUNT = 1000, 1200
RATE = 100_000  # ten windows' worth pass at once: the last 200 records are too many


@pytest.fixture
def client_id(bootstrap: str) -> Iterator[str]:
    """A client with quotas for producing and consuming."""
    name = f"slow-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap) as admin:
        rates = {"producer_byte_rate": RATE, "consumer_byte_rate": RATE}
        admin.quotas.alter({"client-id": name}, set=rates)
        deadline = time.monotonic() + 60
        while not admin.quotas.describe({"client-id": name}):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(0.5)  # Apache Kafka lists it before it is in force
        yield name
        admin.quotas.alter({"client-id": name}, delete=list(rates))


def test_a_producer_and_a_consumer_see_their_throttle_time(
    bootstrap: str, topic_name: str, client_id: str
) -> None:
    make_topic(bootstrap, topic_name)
    waits: dict[str, list[float]] = {"producer": [], "consumer": []}

    def listener(who: str) -> Callable[[object], None]:
        return lambda event: waits[who].append(event.throttle_time)  # type: ignore[attr-defined]

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "throttle_cb": listener("producer"),
            "batch.size": 20 * SIZE,
            "linger.ms": 5,
        }
    )
    for _ in range(COUNT):
        producer.produce(topic_name, b"x" * SIZE)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert any(waits["producer"])
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": topic_name,
            "auto.offset.reset": "earliest",
            "throttle_cb": listener("consumer"),
            "max.partition.fetch.bytes": 50 * SIZE,
        }
    )
    consumer.subscribe([topic_name])
    got = 0
    deadline = time.monotonic() + 60
    while got < COUNT and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None
            got += 1
    consumer.close()
    assert got == COUNT
    assert any(waits["consumer"])
    # Nobody else waits for them.
    assert len(read_all(bootstrap, topic_name, COUNT)) == COUNT


def test_topic_creations_are_rate_limited(bootstrap: str, topic_name: str) -> None:
    """librdkafka speaks an older CreateTopics: it is not refused, its connection is muted."""
    with Admin(bootstrap, settings={"client.id": topic_name}) as admin:
        admin.quotas.alter({"client-id": topic_name}, set={"controller_mutation_rate": 1.0})
        time.sleep(0.5)
        admin.topics.create(f"{topic_name}-1", partitions=15)  # 11 are there: a debt of 4 seconds
        started = time.monotonic()
        admin.topics.create(f"{topic_name}-2", partitions=1)
        assert time.monotonic() - started > 2.5
        admin.quotas.alter({"client-id": topic_name}, delete=["controller_mutation_rate"])


def test_subscribed_metrics_are_pushed(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    said: list[logging.LogRecord] = []
    logger = logging.getLogger(f"telemetry.{topic_name}")
    logger.setLevel(logging.DEBUG)
    handler = logging.Handler()
    handler.emit = said.append  # type: ignore[method-assign]
    logger.addHandler(handler)
    with Admin(bootstrap) as admin:
        values = {"metrics": "*", "interval.ms": "300", "match": f"client_id={topic_name}"}
        admin.configs.alter(ResourceType.CLIENT_METRICS, topic_name, set=values)
        try:
            settings = {"bootstrap.servers": bootstrap, "client.id": topic_name}
            producer = Producer({**settings, "debug": "telemetry"}, logger=logger)
            until = time.monotonic() + 3.0
            while time.monotonic() < until:
                producer.produce(topic_name, b"x")
                producer.poll(0.05)
            assert producer.flush(10) == 0
            producer.poll(0)
        finally:
            admin.configs.alter(ResourceType.CLIENT_METRICS, topic_name, delete=list(values))
    lines = [record.getMessage() for record in said]
    if OTHER_BROKER and not any("Setting telemetry broker" in line for line in lines):
        pytest.skip("this broker has no receiver for clients' metrics, and hides the APIs")
    assert any("PushTelemetryRequest succeeded" in line for line in lines)
    assert [record.getMessage() for record in said if record.levelno >= logging.WARNING] == []
