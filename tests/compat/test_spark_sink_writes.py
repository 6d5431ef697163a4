"""The sink of `format("ottla")`, without Spark, on these tests' broker: Apache Kafka's, too."""

from __future__ import annotations

import pyarrow as pa
import pytest
from compat_confluent import make_topic
from confluent_kafka import Consumer, KafkaError, TopicPartition

from ottla.client.protocol.transactions import end
from ottla.spark.sink import decisions as sink_decisions
from ottla.spark.sink.decisions import DeliveryError, Identity, Written
from ottla.spark.sink.options import WriteOptions, write_options
from ottla.spark.sink.writing import Turn, cluster_of, decisions_of, write_once, write_plainly

PATIENCE_S = 60.0


def options(bootstrap: str, topic: str, **more: str) -> WriteOptions:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return write_options({"kafka.bootstrap.servers": bootstrap, "topic": topic, **named})


def rows(*values: str) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"key": list(values), "value": list(values)})]


def turn(topic: str, *, batch: int = 0, run: str = "one", task: int = 0) -> Turn:
    return Turn(Identity(topic), batch, run, task)


def write(given: WriteOptions, at: Turn, *values: str) -> Written:
    return write_once(given, at, rows(*values)).written


def decide(given: WriteOptions, at: Turn, *written: Written) -> None:
    decisions_of(given, at.identity).decide(batch=at.batch, run=at.run, written=written)


def committed(bootstrap: str, topic: str) -> list[str]:
    """What librdkafka reads of the topic's one partition, up to an open transaction or the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "neither a record nor the end"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            break
        value = message.value()
        assert value is not None
        found.append(value.decode())
    consumer.close()
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_reads_what_the_sink_encodes(
    bootstrap: str, topic_name: str, codec: str
) -> None:
    make_topic(bootstrap, topic_name)
    texts = [f"{each} " + "lorem ipsum " * 50 for each in range(1000)]
    given = options(bootstrap, topic_name, kafka_compression_type=codec)
    assert write_plainly(given, rows(*texts)) == 1000
    assert committed(bootstrap, topic_name) == texts


def test_batches_are_seen_when_they_are_decided(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    given = options(bootstrap, topic_name)
    seen: list[str] = []
    for batch in range(4):
        at = turn(topic_name, batch=batch)
        first = write(given, at, f"{batch} a")
        second = write(given, turn(topic_name, batch=batch, task=1), f"{batch} b")
        assert committed(bootstrap, topic_name) == seen
        decide(given, at, first, second)
        seen += [f"{batch} a", f"{batch} b"]
        assert committed(bootstrap, topic_name) == seen


def test_a_run_takes_over_what_is_not_decided(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    given = options(bootstrap, topic_name)
    zombies = [write(given, turn(topic_name, task=each), "lost") for each in range(3)]
    at = turn(topic_name, run="two")
    written = write(given, at, "a")
    with pytest.raises(DeliveryError, match="another run"):
        decide(given, turn(topic_name), *zombies)
    decide(given, at, written)
    assert committed(bootstrap, topic_name) == ["a"]


def test_a_run_finishes_what_is_decided(
    bootstrap: str, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(bootstrap, topic_name)
    given = options(bootstrap, topic_name)
    written = [write(given, turn(topic_name, task=each), str(each)) for each in range(3)]
    with monkeypatch.context() as patch:
        patch.setattr(sink_decisions, "end_all", lambda *_, **__: None)
        decide(given, turn(topic_name), *written)
    assert committed(bootstrap, topic_name) == []
    at = turn(topic_name, run="two")
    assert write(given, at, "again").skipped
    assert committed(bootstrap, topic_name) == ["0", "1", "2"]


def test_a_transaction_that_the_broker_ended_is_found_out(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    given, at = options(bootstrap, topic_name), turn(topic_name)
    written = write(given, at, "lost")
    assert written.producer is not None
    end(cluster_of(given), written.producer, commit=False)
    with pytest.raises(DeliveryError, match="is not open any more"):
        decide(given, at, written)
    again = turn(topic_name, run="two")
    decide(given, again, write(given, again, "a"))
    assert committed(bootstrap, topic_name) == ["a"]
