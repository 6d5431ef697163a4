"""Records that can't be read: the error says where, and a handler can leave them out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ottla.client import (
    Admin,
    Avro,
    Consumer,
    ConsumerRecord,
    Producer,
    Protobuf,
    RecordDeserializationError,
    ShareConsumer,
    TopicPartition,
)
from ottla.client.dead_letters import dead_letters
from ottla.client.redrive import read_letter
from ottla.client.schema_registry import SchemaRegistry
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record as LogRecord
from ottla.testing import LocalCluster


@dataclass
class Order:
    id: int


@pytest.fixture
def servers(with_registry: LocalCluster) -> str:
    return with_registry.bootstrap_servers


@pytest.fixture
def admin(servers: str) -> Iterator[Admin]:
    with Admin(servers) as admin:
        yield admin


@pytest.fixture
def broken(servers: str, topic: str, registry_url: str) -> str:
    """A topic with two orders, and between them a record that names a schema and ends too early."""
    serde = Avro(Order, registry=registry_url)
    good = serde.serialize(topic, Order(1))
    assert good is not None
    with Producer(servers, key=str) as producer:
        for value in (good, good[:-1], good):
            producer.send(topic, value, key="k", headers={"h": b"1"})
    return topic


def test_a_serde_takes_its_settings_from_the_client(
    servers: str, topic: str, group: str, registry_url: str
) -> None:
    settings = {"schema.registry.url": registry_url, "value.schema.id.serializer": "header"}
    orders = [Order(number) for number in range(3)]
    with Producer(servers, key=Protobuf(Order), value=Avro(Order), settings=settings) as producer:
        for order in orders:
            producer.send(topic, order, key=order)
        producer.send(topic, None, key=orders[0])
    with Consumer(
        servers,
        topic,
        group=group,
        key=Protobuf(Order),
        value=Avro(Order),
        auto_offset_reset="earliest",
        settings={"schema.registry.url": registry_url},
    ) as consumer:
        records = consumer.take(4)
    assert [record.key for record in records] == [*orders, orders[0]]
    assert [record.value for record in records] == [*orders, None]
    assert [name for name, _ in records[0].headers] == ["__value_schema_id"]


def test_the_error_names_place_and_schema(servers: str, broken: str, registry_url: str) -> None:
    value = Avro(Order, registry=registry_url)
    with Consumer(servers, broken, value=value, auto_offset_reset="earliest") as consumer:
        assert [record.value for record in consumer.take(1)] == [Order(1)]
        with pytest.raises(RecordDeserializationError, match="schema id") as error:
            consumer.take(1)
        assert (error.value.topic, error.value.partition, error.value.offset) == (broken, 0, 1)
        assert str(error.value).startswith(f"can't deserialize the value of {broken}-0 at offset 1")
        assert error.value.schema.startswith("schema id ")
        assert error.value.key == b"k"
        assert error.value.headers == (("h", b"1"),)
        assert not error.value.is_key
        # Asking for the next one leaves it out.
        assert [record.offset for record in consumer.take(1)] == [2]


def test_errors_of_plain_serdes_name_the_place_too(servers: str, topic: str) -> None:
    with Producer(servers) as producer:
        producer.send(topic, b"\xff", key=b"\xff")
    with Consumer(servers, topic, key=str, auto_offset_reset="earliest") as consumer:
        with pytest.raises(RecordDeserializationError, match=r"the key of .* at offset 0") as error:
            consumer.take(1)
        assert isinstance(error.value.__cause__, UnicodeDecodeError)
        assert error.value.schema == ""


def test_malformed_json_is_reported_with_its_place_and_can_be_skipped(
    servers: str, topic: str
) -> None:
    with Producer(servers, value=str) as producer:
        for text in ('{"a": 1}', "{no JSON", '{"a": 2}'):
            producer.send(topic, text)
    with Consumer(servers, topic, value=dict, auto_offset_reset="earliest") as consumer:
        assert consumer.take(1)[0].value == {"a": 1}
        with pytest.raises(RecordDeserializationError) as error:
            consumer.take(1)
    assert str(error.value).startswith(f"can't deserialize the value of {topic}-0 at offset 1: ")
    assert isinstance(error.value.__cause__, ValueError)
    with Consumer(
        servers,
        topic,
        value=dict,
        auto_offset_reset="earliest",
        deserialization_exception_handler="continue",
    ) as consumer:
        assert [record.value for record in consumer.take(2)] == [{"a": 1}, {"a": 2}]


def test_records_can_be_left_out(servers: str, broken: str, group: str, registry_url: str) -> None:
    def consumer() -> Consumer[bytes, Order]:
        return Consumer(
            servers,
            broken,
            group=group,
            value=Avro(Order, registry=registry_url),
            deserialization_exception_handler="continue",
            auto_offset_reset="earliest",
        )

    async def offsets() -> list[int]:
        found: list[int] = []
        async with consumer() as reader:
            async for record in reader:
                found.append(record.offset)
                if len(found) == 2:
                    return found
        return found

    with consumer() as reader:
        batches = [record.offset for record in next(reader.batches(30.0))]
        batches += [record.offset for record in reader.take(2 - len(batches))]
        assert batches == [0, 2]
        reader.commit()
        place = TopicPartition(broken, 0)
        assert reader.committed([place]) == {place: 3}
    group_before, group = group, f"{group}-async"
    assert group != group_before
    assert asyncio.run(offsets()) == [0, 2]


def test_records_can_go_to_a_dead_letter_topic(
    servers: str, broken: str, admin: Admin, registry_url: str
) -> None:
    letters = f"{broken}-letters"
    admin.topics.create(letters, 1)
    with (
        Producer(servers) as producer,
        Consumer(
            servers,
            broken,
            value=Avro(Order, registry=registry_url),
            deserialization_exception_handler=dead_letters(producer, letters, "readers"),
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        assert [record.offset for record in consumer.take(2)] == [0, 2]
    with Consumer(servers, letters, auto_offset_reset="earliest") as consumer:
        (letter,) = consumer.take(1)
    assert letter.key == b"k"
    assert letter.value is not None
    assert letter.headers[0] == ("h", b"1")
    words = dict(letter.headers)
    assert b"schema id" in (words["__dlq.errors.message"] or b"")
    found = read_letter(_as_logged(letter))
    assert found is not None
    assert (found.source, found.offset, found.group_id) == (
        TopicPartition(broken, 0),
        1,
        "readers",
    )


def _as_logged(letter: ConsumerRecord[bytes, bytes]) -> LogRecord:
    return LogRecord(
        offset=letter.offset,
        timestamp=letter.timestamp_ms,
        key=letter.key,
        value=letter.value,
        headers=list(letter.headers),
    )


def test_a_registry_that_is_gone_loses_no_record(
    servers: str, broken: str, registry_url: str
) -> None:
    value = Avro(Order, registry=SchemaRegistry("http://127.0.0.1:9", tries_max=1))
    with Consumer(
        servers,
        broken,
        value=value,
        deserialization_exception_handler="continue",
        auto_offset_reset="earliest",
    ) as consumer:
        for _ in range(2):
            with pytest.raises(KafkaError, match="No schema registry answers"):
                consumer.take(1)
        value._registry_given = registry_url
        assert [record.offset for record in consumer.take(2)] == [0, 2]


def test_a_share_consumer_rejects_what_it_cant_read(
    servers: str, broken: str, group: str, admin: Admin, registry_url: str
) -> None:
    from ottla.client.configs import ResourceType

    admin.configs.alter(ResourceType.GROUP, group, set={"share.auto.offset.reset": "earliest"})
    found = []
    with ShareConsumer(
        servers,
        broken,
        group=group,
        value=Avro(Order, registry=registry_url),
        deserialization_exception_handler="continue",
    ) as consumer:
        while len(found) < 2:
            record = consumer.poll(30.0)
            assert record is not None
            found.append(record.offset)
    assert found == [0, 2]


def test_a_record_is_read_again_if_a_service_failed_that_its_callable_needs(
    servers: str, topic: str
) -> None:
    failures = [KafkaError(ErrorCode.REQUEST_TIMED_OUT), ValueError("no such")]

    def refuse(data: bytes) -> str:
        if failures:
            raise failures.pop(0)
        return data.decode()

    with Producer(servers, value=str) as producer:
        producer.send(topic, "first")
        producer.send(topic, "second")
    with Consumer(servers, topic, value=refuse, auto_offset_reset="earliest") as consumer:
        with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            consumer.poll(10)
        with pytest.raises(RecordDeserializationError, match="at offset 0: no such"):
            consumer.poll(10)
        record = consumer.poll(10)
    assert record is not None
    assert record.value == "second"
