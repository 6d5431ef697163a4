"""The sink of `format("ottla")`, without Spark, on these tests' broker: Apache Kafka's, too."""

from __future__ import annotations

import pyarrow as pa
import pytest
from compat_confluent import make_topic
from confluent_kafka import Consumer, KafkaError, TopicPartition

from ottla.client.protocol.transactions import end_transaction
from ottla.spark.sink import commit_log
from ottla.spark.sink.commit_log import DeliveryError, SinkIdentity, TaskTransaction
from ottla.spark.sink.options import WriteOptions, write_options
from ottla.spark.sink.task_attempt import (
    TaskAttempt,
    cluster_of,
    commit_log_of,
    write_at_least_once,
    write_exactly_once,
)

PATIENCE_S = 60.0


def options(bootstrap: str, topic: str, **more: str) -> WriteOptions:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return write_options({"kafka.bootstrap.servers": bootstrap, "topic": topic, **named})


def rows(*values: str) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"key": list(values), "value": list(values)})]


def turn(topic: str, *, batch: int = 0, run: str = "one", task: int = 0) -> TaskAttempt:
    return TaskAttempt(SinkIdentity(topic), batch, run, task)


def write(given: WriteOptions, at: TaskAttempt, *values: str) -> TaskTransaction:
    return write_exactly_once(given, at, rows(*values)).transaction


def decide(given: WriteOptions, at: TaskAttempt, *written: TaskTransaction) -> None:
    commit_log_of(given, at.identity).commit(batch=at.batch, run=at.run, transactions=written)


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
    texts = [f"{number} " + "lorem ipsum " * 50 for number in range(1000)]
    given = options(bootstrap, topic_name, kafka_compression_type=codec)
    assert write_at_least_once(given, rows(*texts)) == 1000
    assert committed(bootstrap, topic_name) == texts


def test_batches_become_visible_when_decided(bootstrap: str, topic_name: str) -> None:
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


def test_a_new_run_takes_over_undecided_batches(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    given = options(bootstrap, topic_name)
    zombies = [write(given, turn(topic_name, task=task), "lost") for task in range(3)]
    at = turn(topic_name, run="two")
    written = write(given, at, "a")
    with pytest.raises(DeliveryError, match="another run"):
        decide(given, turn(topic_name), *zombies)
    decide(given, at, written)
    assert committed(bootstrap, topic_name) == ["a"]


def test_a_new_run_completes_decided_batches(
    bootstrap: str, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(bootstrap, topic_name)
    given = options(bootstrap, topic_name)
    written = [write(given, turn(topic_name, task=task), str(task)) for task in range(3)]
    with monkeypatch.context() as patch:
        patch.setattr(commit_log, "end_transactions", lambda *_, **__: None)
        decide(given, turn(topic_name), *written)
    assert committed(bootstrap, topic_name) == []
    at = turn(topic_name, run="two")
    assert write(given, at, "again").skipped
    assert committed(bootstrap, topic_name) == ["0", "1", "2"]


def test_a_transaction_aborted_by_the_broker_is_detected(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    given, at = options(bootstrap, topic_name), turn(topic_name)
    written = write(given, at, "lost")
    assert written.producer is not None
    end_transaction(cluster_of(given), written.producer, commit=False)
    with pytest.raises(DeliveryError, match="is no longer open"):
        decide(given, at, written)
    again = turn(topic_name, run="two")
    decide(given, again, write(given, again, "a"))
    assert committed(bootstrap, topic_name) == ["a"]
