"""confluent.value.schema.validation: which records a topic accepts, also during look-ups."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.admin_session import AdminSession
from ottla.client.configs import ResourceType
from ottla.client.schema_registry import SchemaRegistry
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import build_batch
from ottla.records.compression import ZSTD
from ottla.records.record import Record
from ottla.schemas.framing import with_guid, with_id
from ottla.testing import LocalCluster
from ottla.wire.apis import ApiKey
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

AVRO = '{"type":"record","name":"shop.%s","fields":[{"name":"a","type":"int"}]}'
PROTO = 'syntax = "proto3"; package shop; message Order { int32 a = 1; }'
STRATEGY = "io.confluent.kafka.serializers.subject.%sStrategy"
VALUES = {"confluent.value.schema.validation": "true"}
TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(registry=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def registry(cluster: LocalCluster) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(cluster.registry_url)
    yield registry
    registry.close()


@pytest.fixture(scope="module")
def session(cluster: LocalCluster) -> Iterator[AdminSession]:
    session = AdminSession(cluster.bootstrap_servers, {}, 20)
    yield session
    session.close()


def produce(session: AdminSession, topic: str, *batches: bytes) -> list[PartitionProduceResponse]:
    """The responses for the partitions of the topic, each with its batch."""
    parts = [PartitionProduceData(index, data) for index, data in enumerate(batches)]
    request = ProduceRequest(
        acks=-1, timeout=5000, topic_data=[TopicProduceData(topic, partition_data=parts)]
    )
    line = session.connections.connection(session.connections.nodes()[0].id)
    answer = line.call(request, ApiKey.PRODUCE, ProduceResponse, version_max=12)
    return list(answer.responses[0].partition_responses)


def batch(*values: bytes | None, **options: Any) -> bytes:
    return build_batch([Record(timestamp=1, value=value) for value in values], **options)


def values_of(cluster: LocalCluster, topic: str) -> list[bytes | None]:
    """The response for partition 0."""

    def read() -> list[bytes | None]:
        from ottla.records.batch import read_header
        from ottla.records.record import read_records

        partition = cluster.broker().partitions.of_topic(topic)[0]
        found = partition.log.read(0, size_max=1 << 20, end_offset=1 << 40, whole_first_batch=True)
        data, position, values = (found.read() if found else b""), 0, []
        while position < len(data):
            header = read_header(data, position)
            values += [record.value for record in read_records(data, header)]
            position += header.size
        return values

    return cluster.call(read)


def test_a_record_with_an_id_of_another_subject_is_refused_by_its_index(
    cluster: LocalCluster, registry: SchemaRegistry, session: AdminSession
) -> None:
    cluster.create_topic("orders", 2, VALUES)
    good = with_id(registry.register("orders-value", "AVRO", AVRO % "Order").id, b"x")
    other = with_id(registry.register("bills-value", "AVRO", AVRO % "Bill").id, b"x")
    unknown = with_id(99_999, b"x")
    mixed, fine = produce(
        session, "orders", batch(good, other, None, unknown, b"bare", b""), batch(good, None)
    )
    assert (mixed.error_code, fine.error_code) == (ErrorCode.INVALID_RECORD, ErrorCode.NONE)
    assert [error.batch_index for error in mixed.record_errors] == [
        4,
        5,
    ]  # without asking the registry
    (mixed,) = produce(session, "orders", batch(good, other, None))
    assert [error.batch_index for error in mixed.record_errors] == [1]
    received = mixed.record_errors[0].batch_index_error_message
    assert received == f"schema id {other[4]} is not a schema of the subject orders-value"
    (unfit,) = produce(session, "orders", batch(unknown))
    assert unfit.error_code == ErrorCode.INVALID_RECORD
    assert values_of(cluster, "orders") == []


def test_compressed_batches_guids_and_headers_are_validated(
    cluster: LocalCluster, registry: SchemaRegistry, session: AdminSession
) -> None:
    cluster.create_topic("packed", 1, VALUES)
    schema = registry.register("packed-value", "AVRO", AVRO % "Packed")
    framed = with_id(schema.id, b"x")
    by_guid = with_guid(schema.guid, b"x")
    header = ("__value_schema_id", with_guid(schema.guid, b""))
    wrong = ("__value_schema_id", with_id(99_998, b""))
    answers = [
        produce(session, "packed", data)[0]
        for data in (
            batch(*[framed] * 200, compression=ZSTD),
            batch(by_guid, framed),
            build_batch([Record(timestamp=1, value=b"bare", headers=[("a", b"b"), header])]),
            build_batch([Record(timestamp=1, value=framed, headers=[wrong])]),
            build_batch([Record(timestamp=1, value=None, headers=[("t", None)])]),
            build_batch([Record(timestamp=1, key=b"bare", value=b"bare", headers=[("a", b"b")])]),
        )
    ]
    refused = ErrorCode.INVALID_RECORD
    assert [answer.error_code for answer in answers] == [0, 0, 0, refused, 0, refused]


def test_strategies_name_the_subject_after_the_record(
    cluster: LocalCluster, registry: SchemaRegistry, session: AdminSession
) -> None:
    key = {"confluent.key.schema.validation": "true"}
    cluster.create_topic(
        "by-name", 1, VALUES | {"confluent.value.subject.name.strategy": STRATEGY % "RecordName"}
    )
    cluster.create_topic(
        "both", 1, key | {"confluent.key.subject.name.strategy": STRATEGY % "TopicRecordName"}
    )
    named = registry.register("shop.Named", "AVRO", AVRO % "Named").id
    elsewhere = registry.register("elsewhere", "AVRO", AVRO % "Elsewhere").id
    proto = registry.register("shop.Order", "PROTOBUF", PROTO).id
    both = registry.register("both-Both", "JSON", json.dumps({"title": "Both"})).id
    codes = [
        produce(session, "by-name", batch(with_id(id_, b"x")))[0].error_code
        for id_ in (named, proto, elsewhere)
    ]
    assert codes == [0, 0, ErrorCode.INVALID_RECORD]
    codes = [
        produce(session, "both", build_batch([Record(timestamp=1, key=k, value=b"any")]))[
            0
        ].error_code
        for k in (with_id(both, b"x"), None, with_id(named, b"x"))
    ]
    assert codes == [0, 0, ErrorCode.INVALID_RECORD]


def test_a_schema_is_accepted_as_soon_as_it_is_registered_and_an_alias_counts(
    cluster: LocalCluster, registry: SchemaRegistry, session: AdminSession
) -> None:
    cluster.create_topic("late", 1, VALUES)
    cluster.create_topic("nick", 1, VALUES)
    text = AVRO % "Late"
    id_ = registry.register("before-value", "AVRO", text).id
    (early,) = produce(session, "late", batch(with_id(id_, b"x")))
    assert early.error_code == ErrorCode.INVALID_RECORD
    assert registry.register("late-value", "AVRO", text).id == id_
    registry.ask("PUT", "config", "nick-value", body={"alias": "late-value"})
    for topic in ("late", "nick"):
        deadline = time.monotonic() + 60
        while produce(session, topic, batch(with_id(id_, b"x")))[0].error_code:
            assert time.monotonic() < deadline  # denials are cached for 100 ms


def test_an_idempotent_producer_keeps_its_order_while_schemas_are_looked_up(
    cluster: LocalCluster, registry: SchemaRegistry
) -> None:
    cluster.create_topic("ordered", 1, VALUES)
    schemas = [registry.register("ordered-value", "AVRO", _with_default(n)) for n in range(20)]
    settings = {"enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 3}
    producer = cluster.producer(value=bytes, settings=settings)
    wanted = [with_id(schemas[n // 10].id, b"%d" % n) for n in range(200)]
    for receipt in [producer.send("ordered", value) for value in wanted]:
        receipt.result(timeout=60)
    assert values_of(cluster, "ordered") == wanted


def _with_default(count: int) -> str:
    fields = [{"name": f"f{n}", "type": "int", "default": 0} for n in range(count)]
    return json.dumps({"type": "record", "name": "Many", "fields": fields})


def test_without_the_registry_known_ids_are_accepted_and_others_are_retried() -> None:
    with LocalCluster(registry=True) as cluster:
        registry = SchemaRegistry(cluster.registry_url)
        session = AdminSession(cluster.bootstrap_servers, {}, 20)
        cluster.create_topic("down", 1, VALUES)
        known = with_id(registry.register("down-value", "AVRO", AVRO % "Down").id, b"x")
        later = with_id(registry.register("down-value", "AVRO", _same("Down")).id, b"y")
        assert produce(session, "down", batch(known))[0].error_code == ErrorCode.NONE
        registry.close()
        cluster._stop_registry()
        (received,) = produce(session, "down", batch(later))
        assert received.error_code == TOO_FEW
        assert received.error_message is not None
        assert "schema registry is unavailable" in received.error_message
        assert produce(session, "down", batch(known, None))[0].error_code == ErrorCode.NONE
        assert produce(session, "down", batch(b"bare"))[0].error_code == ErrorCode.INVALID_RECORD
        assert values_of(cluster, "down") == [known, known, None]
        session.close()


def _same(name: str) -> str:
    return (AVRO % name).replace("]}", ',{"name":"b","type":"int","default":1}]}')


def test_a_hanging_registry_delays_no_other_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with LocalCluster(config={"confluent.schema.registry.url": url}) as cluster:
            cluster.create_topic("stuck", 1, VALUES)
            cluster.create_topic("free", 1)
            sessions = [AdminSession(cluster.bootstrap_servers, {}, 20) for _ in range(2)]
            received: list[PartitionProduceResponse] = []
            waiting = threading.Thread(
                target=lambda: received.extend(
                    produce(sessions[0], "stuck", batch(with_id(1, b"x"))),
                )
            )
            waiting.start()
            accepted = [silent.accept()[0]]  # the look-up has begun
            assert produce(sessions[1], "free", batch(b"any"))[0].error_code == ErrorCode.NONE
            assert produce(sessions[1], "stuck", batch(None))[0].error_code == ErrorCode.NONE
            assert not received
            silent.close()
            for connection in accepted:
                connection.close()
            waiting.join(60)
            assert [partition.error_code for partition in received] == [TOO_FEW]
            for session in sessions:
                session.close()


def test_a_broker_without_a_registry_accepts_nothing_unchecked() -> None:
    with LocalCluster() as cluster:
        session = AdminSession(cluster.bootstrap_servers, {}, 20)
        cluster.create_topic("checked", 1, VALUES)
        (received,) = produce(session, "checked", batch(with_id(1, b"x")))
        assert received.error_code == TOO_FEW
        assert "confluent.schema.registry.url" in str(received.error_message)
        session.close()


def test_the_configs_are_described_and_validated(cluster: LocalCluster) -> None:
    cluster.create_topic("configured", 1, VALUES)
    with cluster.admin() as admin:
        found = {
            entry.name: entry.value
            for entry in admin.configs.describe(ResourceType.TOPIC, "configured")
        }
        assert found["confluent.value.schema.validation"] == "true"
        assert found["confluent.key.schema.validation"] == "false"
        assert found["confluent.key.subject.name.strategy"] == STRATEGY % "TopicName"
        for name, value in (
            ("confluent.value.schema.validation", "perhaps"),
            ("confluent.value.subject.name.strategy", "MyOwnStrategy"),
        ):
            with pytest.raises(KafkaError) as refused:
                admin.configs.alter(ResourceType.TOPIC, "configured", set={name: value})
            assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_transactional_records_are_validated_but_not_markers(
    cluster: LocalCluster, registry: SchemaRegistry
) -> None:
    import confluent_kafka

    cluster.create_topic("booked", 1, VALUES)
    good = with_id(registry.register("booked-value", "AVRO", AVRO % "Booked").id, b"x")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "booking"}
    )
    producer.init_transactions(20)
    failures: list[Any] = []
    for value, end in ((good, producer.commit_transaction), (b"bare", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("booked", value, on_delivery=lambda error, _: failures.append(error))
        producer.flush(20)
        end(20)
    assert failures[0] is None
    assert failures[1].code() == ErrorCode.INVALID_RECORD
    assert values_of(cluster, "booked")[0] == good
    assert len(values_of(cluster, "booked")) == 3  # the value, and two transactions' markers


def test_brokers_of_a_local_cluster_know_its_registry_also_after_a_restart() -> None:
    with LocalCluster(registry=True, process=True) as cluster:
        registry = SchemaRegistry(cluster.registry_url)
        cluster.create_topic("apart", 1, VALUES)
        good = with_id(registry.register("apart-value", "AVRO", AVRO % "Apart").id, b"x")
        for turn in range(2):
            if turn:
                cluster.restart()
            session = AdminSession(cluster.bootstrap_servers, {}, 20)
            assert produce(session, "apart", batch(good))[0].error_code == ErrorCode.NONE
            (received,) = produce(session, "apart", batch(with_id(77, b"x")))
            assert received.error_code == ErrorCode.INVALID_RECORD
            session.close()
        registry.close()
