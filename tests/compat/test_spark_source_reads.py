"""The source of `format("ottla")`, without Spark, on these tests' broker: Apache Kafka's, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from compat_confluent import make_topic, produce
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from ottla.client import Admin, TopicPartition
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.range_fetcher import DataLost, OffsetRange
from ottla.spark.chunks import close_cached_clients, read_chunks
from ottla.spark.offset_reader import OffsetReader
from ottla.spark.offsets import Offsets, ranges_between
from ottla.spark.options import ReadOptions, read_options

PATIENCE_S = 60.0


@pytest.fixture
def brokers(bootstrap: str) -> Iterator[ClusterClient]:
    brokers = ClusterClient(bootstrap, {})
    yield brokers
    brokers.close()
    close_cached_clients()


def options(bootstrap: str, topic: str, **more: str) -> ReadOptions:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}
    named = {name.replace("__", "."): value for name, value in more.items()}
    return read_options({**given, "startingOffsets": "earliest", **named}, streaming=True)


def values(options: ReadOptions, *ranges: OffsetRange) -> list[bytes]:
    return [
        value
        for chunk in read_chunks(options, ranges)
        for value in chunk.columns.values.to_pylist()
    ]


def read_on(
    query: OffsetReader, options: ReadOptions, start: Offsets
) -> tuple[list[bytes], Offsets]:
    end = query.latest(start)
    return values(options, *ranges_between(start, end)), end


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_all_records_of_a_topic(
    bootstrap: str, topic_name: str, brokers: ClusterClient, codec: str
) -> None:
    make_topic(bootstrap, topic_name)
    sent = [b"%d %s" % (number, b"lorem ipsum " * 50) for number in range(1000)]
    records = [{"value": entry, "headers": [("h", b"1")]} for entry in sent]
    produce(bootstrap, topic_name, records, compression_type=codec, linger_ms=10)
    chosen = options(bootstrap, topic_name)
    query = OffsetReader(chosen, brokers)
    found, end = read_on(query, chosen, query.begin())
    assert found == sent
    assert query.latest(end) == query.latest(end) == end  # the second one waits at the broker
    (chunk,) = read_chunks(chosen, [OffsetRange(topic_name, 0, 7, 8)])
    assert chunk.columns.headers.to_pylist() == [[{"key": "h", "value": b"1"}]]


def test_committed_records_only(
    bootstrap: str, topic_name: str, unique: Callable[[str], str], brokers: ClusterClient
) -> None:
    make_topic(bootstrap, topic_name)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("tx")})
    producer.init_transactions(PATIENCE_S)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic_name, b"%d" % number)
        producer.flush(PATIENCE_S)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(PATIENCE_S)
    chosen = options(bootstrap, topic_name, kafka__isolation__level="read_committed")
    query = OffsetReader(chosen, brokers)
    assert read_on(query, chosen, query.begin())[0] == [b"0", b"2", b"4"]


def test_new_partitions_and_deleted_records(
    bootstrap: str, topic_name: str, brokers: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.spark.offset_reader.METADATA_S_MAX", 0.0)
    make_topic(bootstrap, topic_name)
    produce(bootstrap, topic_name, [{"value": b"%d" % number} for number in range(10)])
    chosen = options(bootstrap, topic_name)
    query = OffsetReader(chosen, brokers)
    start = query.begin()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_partitions([NewPartitions(topic_name, 2)]).values():
        future.result(PATIENCE_S)
    end = start
    while TopicPartition(topic_name, 1) not in end:
        end = query.latest(start)
    assert end == {TopicPartition(topic_name, 0): 10, TopicPartition(topic_name, 1): 0}
    produce(bootstrap, topic_name, [{"value": b"new", "partition": 1}])
    assert read_on(query, chosen, end)[0] == [b"new"]
    with Admin(bootstrap) as ours:
        ours.offsets.delete_before({TopicPartition(topic_name, 0): 4})
    with pytest.raises(DataLost, match="offsets 0 to 3"):
        values(chosen, OffsetRange(topic_name, 0, 0, 10))
    lax = options(bootstrap, topic_name, failOnDataLoss="false")
    assert values(lax, OffsetRange(topic_name, 0, 0, 10)) == [
        b"%d" % number for number in range(4, 10)
    ]
