"""librdkafka's producer: codecs, acks, idempotence, headers, sizes, partitioners, errors."""

from __future__ import annotations

import time
from typing import Any

import pytest
from compat_confluent import PATIENCE_S, make_topic, produce, read_all
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    Producer,
)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back_as_it_was_sent(bootstrap: str, topic_name: str, codec: str) -> None:
    make_topic(bootstrap, topic_name)
    sent = [{"key": f"k{i}", "value": f"value {i} " * 20} for i in range(500)]
    delivered = produce(bootstrap, topic_name, sent, compression_type=codec, linger_ms=20)
    assert [message.offset() for message in delivered] == list(range(500))
    got = read_all(bootstrap, topic_name, 500, check_crcs=True)
    assert [(m.key().decode(), m.value().decode()) for m in got] == [
        (r["key"], r["value"]) for r in sent
    ]
    assert [m.offset() for m in got] == list(range(500))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_delivers(bootstrap: str, topic_name: str, acks: str) -> None:
    make_topic(bootstrap, topic_name)
    delivered = produce(bootstrap, topic_name, [{"value": f"v{i}"} for i in range(100)], acks=acks)
    if acks != "0":
        assert [message.offset() for message in delivered] == list(range(100))
    assert [m.value() for m in read_all(bootstrap, topic_name, 100)] == [
        f"v{i}".encode() for i in range(100)
    ]


def test_idempotent_producer_keeps_order_with_requests_in_flight(
    bootstrap: str, topic_name: str
) -> None:
    make_topic(bootstrap, topic_name)
    records = [{"value": str(i)} for i in range(5000)]
    delivered = produce(
        bootstrap, topic_name, records, enable_idempotence=True, batch_num_messages=100, linger_ms=1
    )
    assert [m.offset() for m in delivered] == list(range(5000))
    assert [int(m.value()) for m in read_all(bootstrap, topic_name, 5000)] == list(range(5000))


def test_headers_come_back_in_order_with_duplicates_and_nulls(
    bootstrap: str, topic_name: str
) -> None:
    make_topic(bootstrap, topic_name)
    headers = [
        ("trace", b"1"),
        ("trace", b"2"),
        ("empty", b""),
        ("null", None),
        ("ünï", b"\x00\xff"),
    ]
    produce(bootstrap, topic_name, [{"value": b"v", "headers": headers}])
    (message,) = read_all(bootstrap, topic_name, 1)
    assert message.headers() == headers


def test_null_keys_empty_keys_and_tombstones(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    pairs = [(None, b"v"), (b"", b""), (b"k", None), (None, None)]
    produce(bootstrap, topic_name, [{"key": key, "value": value} for key, value in pairs])
    assert [(m.key(), m.value()) for m in read_all(bootstrap, topic_name, 4)] == pairs


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_large_messages(bootstrap: str, topic_name: str, codec: str) -> None:
    make_topic(bootstrap, topic_name, max_message_bytes="20000000")
    large = bytes(range(256)) * 4096 * 8  # 8 MiB
    records = [{"value": large}, {"value": b"small"}, {"value": large}]
    produce(bootstrap, topic_name, records, message_max_bytes=16_000_000, compression_type=codec)
    got = read_all(
        bootstrap,
        topic_name,
        3,
        fetch_message_max_bytes=1_000_000,
        receive_message_max_bytes=60_000_000,
    )
    assert [m.value() for m in got] == [large, b"small", large]


@pytest.mark.parametrize(
    "partitioner",
    ["random", "consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a"],
)
def test_partitioners_place_equal_keys_together(
    bootstrap: str, topic_name: str, partitioner: str
) -> None:
    make_topic(bootstrap, topic_name, partitions=6)
    keys = [f"key-{i % 20}" for i in range(200)]
    delivered = produce(
        bootstrap, topic_name, [{"key": k, "value": k} for k in keys], partitioner=partitioner
    )
    places: dict[bytes, set[int]] = {}
    for message in delivered:
        places.setdefault(message.key(), set()).add(message.partition())
    assert len(set.union(*places.values())) > 1
    if partitioner != "random":
        assert all(len(partitions) == 1 for partitions in places.values())


def test_explicit_partition(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, partitions=3)
    delivered = produce(
        bootstrap, topic_name, [{"value": "v", "partition": p} for p in (2, 0, 1, 2)]
    )
    assert sorted((m.partition(), m.offset()) for m in delivered) == [
        (0, 0),
        (1, 0),
        (2, 0),
        (2, 1),
    ]


def test_timestamps_of_the_producer_are_kept(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    now_ms = int(time.time() * 1000)
    times = [now_ms - 86_400_000, now_ms, now_ms - 5]
    produce(bootstrap, topic_name, [{"value": "v", "timestamp": t} for t in times])
    assert [m.timestamp() for m in read_all(bootstrap, topic_name, 3)] == [
        (TIMESTAMP_CREATE_TIME, t) for t in times
    ]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_log_append_time_replaces_the_producers_timestamps(
    bootstrap: str, topic_name: str, codec: str
) -> None:
    make_topic(bootstrap, topic_name, message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000) - 1000
    records = [{"value": "v", "timestamp": 1_000_000 + i} for i in range(10)]
    produce(bootstrap, topic_name, records, compression_type=codec)
    after_ms = int(time.time() * 1000) + 1000
    for message in read_all(bootstrap, topic_name, 10, check_crcs=True):
        kind, at_ms = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert before_ms <= at_ms <= after_ms


def test_unknown_topic_is_created_on_first_use(bootstrap: str, topic_name: str) -> None:
    produce(bootstrap, topic_name, [{"value": "first"}])
    assert (
        topic_name
        in Producer({"bootstrap.servers": bootstrap}).list_topics(timeout=PATIENCE_S).topics
    )


TRIES = 10


def _delivery_error(
    bootstrap: str, topic: str, record: dict[str, Any], **config: Any
) -> KafkaError:
    errors: list[KafkaError] = []
    for _ in range(TRIES):
        producer = Producer({"bootstrap.servers": bootstrap, **config})
        try:
            producer.produce(topic, on_delivery=lambda error, _: errors.append(error), **record)
            break
        except KafkaException as refused:
            # The broker's response preceded the record: librdkafka refuses it without a reason.
            if refused.args[0].code() != KafkaError._UNKNOWN_TOPIC:
                raise
    assert producer.flush(PATIENCE_S) == 0
    assert errors
    assert errors[0] is not None
    return errors[0]


def test_too_large_for_the_topic_is_reported(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, max_message_bytes="2000")
    error = _delivery_error(bootstrap, topic_name, {"value": b"x" * 5000})
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    produce(bootstrap, topic_name, [{"value": b"x" * 500}])


def test_too_large_for_the_client_is_refused_at_once(bootstrap: str, topic_name: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    with pytest.raises(KafkaException) as raised:
        producer.produce(topic_name, value=b"x" * 2_000_000)
    assert raised.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_unknown_topic_without_auto_create_is_reported(bootstrap: str, topic_name: str) -> None:
    error = _delivery_error(
        bootstrap, topic_name, {"value": "v"},
        **{"allow.auto.create.topics": False, "message.timeout.ms": 60000,
           "topic.metadata.propagation.max.ms": 0},
    )  # fmt: skip
    assert error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


@pytest.mark.parametrize("name", ["no spaces", "slash/es", "..", "x" * 250, "ünï"])
def test_invalid_topic_name_is_reported(bootstrap: str, name: str) -> None:
    error = _delivery_error(bootstrap, name, {"value": "v"})
    assert error.code() == KafkaError.TOPIC_EXCEPTION


def test_unknown_partition_is_reported(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    error = _delivery_error(bootstrap, topic_name, {"value": "v", "partition": 7})
    assert error.code() == KafkaError._UNKNOWN_PARTITION


def test_compacted_topic_refuses_a_record_without_a_key(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, cleanup_policy="compact")
    error = _delivery_error(bootstrap, topic_name, {"value": "no key"})
    assert error.code() == KafkaError.INVALID_RECORD
    produce(bootstrap, topic_name, [{"key": "k", "value": "v"}])


def test_timestamp_outside_the_topics_window_is_refused(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, message_timestamp_before_max_ms="60000")
    error = _delivery_error(bootstrap, topic_name, {"value": "v", "timestamp": 1_000_000})
    assert error.code() == KafkaError.INVALID_TIMESTAMP


def test_topic_compression_type_overrides_the_producers(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, compression_type="zstd")
    records = [{"value": f"value {i}"} for i in range(100)]
    produce(bootstrap, topic_name, records, compression_type="gzip", linger_ms=20)
    assert [m.value() for m in read_all(bootstrap, topic_name, 100, check_crcs=True)] == [
        record["value"].encode() for record in records
    ]
