"""librdkafka's transactional producer: commit, abort, zombies, offsets, timeouts, isolation."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
from compat_confluent import PATIENCE_S, consumer, make_topic, produce, read_all, take
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

Until = Callable[[Callable[[], object], str], None]


@pytest.fixture
def name(unique: Callable[[str], str]) -> str:
    return unique("txn")


def transactional(bootstrap: str, name: str, **config: Any) -> Producer:
    """A producer that has its id and its epoch."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    settings |= {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0}
    # Without this, a fatal error is raised in the middle of some other callback.
    producer = Producer({"error_cb": lambda error: None, **settings})
    producer.init_transactions(PATIENCE_S)
    return producer


def write(producer: Producer, topic: str, *values: str, partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def values_of(bootstrap: str, topic: str, count: int, **config: Any) -> list[str]:
    messages = read_all(bootstrap, topic, count, **config)
    return [(message.value() or b"").decode() for message in messages]


def stable_end(bootstrap: str, topic: str, isolation: IsolationLevel) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    place = TopicPartition(topic, 0)
    found = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=isolation)
    offset: int = found[place].result(PATIENCE_S).offset
    return offset


def committed_offset(bootstrap: str, group: str, topic: str, partition: int = 0) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])]
    answer = admin.list_consumer_group_offsets(asked)[group].result(PATIENCE_S)
    offset: int = answer.topic_partitions[0].offset
    return offset


def error_of(call: Callable[[], object]) -> KafkaError:
    with pytest.raises(KafkaException) as raised:
        call()
    error: KafkaError = raised.value.args[0]
    return error


def test_only_committed_records_are_read(bootstrap: str, topic_name: str, name: str) -> None:
    make_topic(bootstrap, topic_name)
    producer = transactional(bootstrap, name)
    producer.begin_transaction()
    write(producer, topic_name, "a", "b")
    producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    write(producer, topic_name, "dropped", "dropped too")
    producer.abort_transaction(PATIENCE_S)
    producer.begin_transaction()
    write(producer, topic_name, "c")
    producer.commit_transaction(PATIENCE_S)
    assert values_of(bootstrap, topic_name, 3, isolation_level="read_committed") == ["a", "b", "c"]
    everything = values_of(bootstrap, topic_name, 5, isolation_level="read_uncommitted")
    assert everything == ["a", "b", "dropped", "dropped too", "c"]
    messages = read_all(bootstrap, topic_name, 3, isolation_level="read_committed")
    assert [message.offset() for message in messages] == [0, 1, 6]  # markers at 2, 5, 7
    assert stable_end(bootstrap, topic_name, IsolationLevel.READ_COMMITTED) == 8


def test_an_open_transaction_holds_readers_back(bootstrap: str, topic_name: str, name: str) -> None:
    make_topic(bootstrap, topic_name)
    producer = transactional(bootstrap, name)
    producer.begin_transaction()
    write(producer, topic_name, "open")
    produce(bootstrap, topic_name, [{"value": "plain", "partition": 0}])
    assert stable_end(bootstrap, topic_name, IsolationLevel.READ_COMMITTED) == 0
    assert stable_end(bootstrap, topic_name, IsolationLevel.READ_UNCOMMITTED) == 2
    reader = consumer(bootstrap, isolation_level="read_committed")
    reader.assign([TopicPartition(topic_name, 0, OFFSET_BEGINNING)])
    assert reader.poll(1.0) is None
    producer.commit_transaction(PATIENCE_S)
    assert [message.value() for message in take(reader, 2)] == [b"open", b"plain"]
    reader.close()


def test_one_transaction_spans_topics_and_partitions(
    bootstrap: str, unique: Callable[[str], str], name: str
) -> None:
    topics = [make_topic(bootstrap, unique("topic"), partitions=3) for _ in range(2)]
    producer = transactional(bootstrap, name)
    for commit in (True, False, True):
        producer.begin_transaction()
        for topic in topics:
            for partition in range(3):
                write(producer, topic, f"{commit} {partition}", partition=partition)
        if commit:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
    for topic in topics:
        for partition in range(3):
            config = {"partition": partition, "isolation_level": "read_committed"}
            assert values_of(bootstrap, topic, 2, **config) == [f"True {partition}"] * 2


def test_empty_transactions_leave_nothing(bootstrap: str, topic_name: str, name: str) -> None:
    make_topic(bootstrap, topic_name)
    producer = transactional(bootstrap, name)
    for _ in range(2):
        producer.begin_transaction()
        producer.commit_transaction(PATIENCE_S)
        producer.begin_transaction()
        producer.abort_transaction(PATIENCE_S)
    assert stable_end(bootstrap, topic_name, IsolationLevel.READ_UNCOMMITTED) == 0


def test_a_zombie_is_fenced_and_its_transaction_aborted(
    bootstrap: str, topic_name: str, name: str
) -> None:
    make_topic(bootstrap, topic_name)
    zombie = transactional(bootstrap, name)
    zombie.begin_transaction()
    write(zombie, topic_name, "left behind")
    successor = transactional(bootstrap, name)
    error = error_of(lambda: zombie.commit_transaction(PATIENCE_S))
    assert error.fatal()
    assert error.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    successor.begin_transaction()
    write(successor, topic_name, "new")
    successor.commit_transaction(PATIENCE_S)
    assert values_of(bootstrap, topic_name, 1, isolation_level="read_committed") == ["new"]
    assert stable_end(bootstrap, topic_name, IsolationLevel.READ_COMMITTED) == 4


def test_a_zombie_cannot_write(bootstrap: str, topic_name: str, name: str) -> None:
    make_topic(bootstrap, topic_name)
    zombie = transactional(bootstrap, name)
    zombie.begin_transaction()
    write(zombie, topic_name, "first")
    transactional(bootstrap, name)
    zombie.produce(topic_name, "late", partition=0)
    with contextlib.suppress(KafkaException):
        zombie.flush(PATIENCE_S)
    assert error_of(lambda: zombie.commit_transaction(PATIENCE_S)).fatal()
    produce(bootstrap, topic_name, [{"value": "plain", "partition": 0}])
    everything = values_of(bootstrap, topic_name, 2, isolation_level="read_uncommitted")
    assert everything == ["first", "plain"]
    assert values_of(bootstrap, topic_name, 1, isolation_level="read_committed") == ["plain"]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    bootstrap: str, unique: Callable[[str], str], name: str, group_name: str
) -> None:
    source, target = (make_topic(bootstrap, unique("topic")) for _ in range(2))
    produce(bootstrap, source, [{"value": str(number), "partition": 0} for number in range(10)])
    producer = transactional(bootstrap, name)
    reader = consumer(bootstrap, group_id=group_name)
    reader.subscribe([source])
    for count, commit in ((4, True), (3, False)):
        messages = take(reader, count)
        producer.begin_transaction()
        write(producer, target, *((m.value() or b"").decode() for m in messages))
        after = [TopicPartition(source, 0, cast(int, messages[-1].offset()) + 1)]
        metadata = reader.consumer_group_metadata()
        producer.send_offsets_to_transaction(after, metadata, PATIENCE_S)
        if commit:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
    assert reader.committed([TopicPartition(source, 0)], PATIENCE_S)[0].offset == 4
    reader.close()
    expected = ["0", "1", "2", "3"]
    assert values_of(bootstrap, target, 4, isolation_level="read_committed") == expected
    again = consumer(bootstrap, group_id=group_name)
    again.subscribe([source])
    assert take(again, 1)[0].value() == b"4"
    again.close()


def test_offsets_of_an_open_transaction_are_not_stable(
    bootstrap: str, topic_name: str, name: str, group_name: str, until: Until
) -> None:
    """KIP-447: OffsetFetch waits until the transaction has ended."""
    make_topic(bootstrap, topic_name)
    produce(bootstrap, topic_name, [{"value": "v", "partition": 0}] * 5)
    producer = transactional(bootstrap, name)
    reader = consumer(bootstrap, group_id=group_name, isolation_level="read_committed")
    reader.subscribe([topic_name])
    take(reader, 2)
    producer.begin_transaction()
    metadata = reader.consumer_group_metadata()
    after = [TopicPartition(topic_name, 0, 2)]
    producer.send_offsets_to_transaction(after, metadata, PATIENCE_S)
    reader.close()
    assert committed_offset(bootstrap, group_name, topic_name) == OFFSET_INVALID
    waiting = consumer(bootstrap, group_id=group_name, isolation_level="read_committed")
    waiting.subscribe([topic_name])
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        assert waiting.poll(0.1) is None
    producer.commit_transaction(PATIENCE_S)
    assert take(waiting, 1)[0].offset() == 2
    waiting.close()
    assert committed_offset(bootstrap, group_name, topic_name) == 2


def test_a_member_of_an_older_generation_cannot_send_offsets(
    bootstrap: str, topic_name: str, name: str, group_name: str
) -> None:
    make_topic(bootstrap, topic_name)
    produce(bootstrap, topic_name, [{"value": "v", "partition": 0}] * 3)
    reader = consumer(bootstrap, group_id=group_name)
    reader.subscribe([topic_name])
    take(reader, 1)
    old = reader.consumer_group_metadata()
    reader.close()
    successor = consumer(bootstrap, group_id=group_name)
    successor.subscribe([topic_name])
    take(successor, 1)
    producer = transactional(bootstrap, name)
    producer.begin_transaction()
    write(producer, topic_name, "never seen")
    after = [TopicPartition(topic_name, 0, 1)]
    error = error_of(lambda: producer.send_offsets_to_transaction(after, old, PATIENCE_S))
    assert error.txn_requires_abort()
    producer.abort_transaction(PATIENCE_S)
    assert committed_offset(bootstrap, group_name, topic_name) == OFFSET_INVALID
    successor.close()


def test_a_transaction_that_takes_too_long_is_aborted(
    own_broker: Callable[..., Any], topic_name: str, name: str, until: Until
) -> None:
    broker = own_broker(transaction_abort_timed_out_transaction_cleanup_interval_ms="200")
    make_topic(broker.bootstrap, topic_name)
    producer = transactional(broker.bootstrap, name, transaction_timeout_ms=1000)
    producer.begin_transaction()
    write(producer, topic_name, "too slow")
    until(
        lambda: stable_end(broker.bootstrap, topic_name, IsolationLevel.READ_COMMITTED) == 2,
        "the transaction is aborted",
    )
    # KIP-890: the producer notices at its next step, and may continue if its client can.
    error = error_of(lambda: producer.commit_transaction(PATIENCE_S))
    assert error.fatal() or error.txn_requires_abort(), error
    successor = transactional(broker.bootstrap, name)
    successor.begin_transaction()
    write(successor, topic_name, "in time")
    successor.commit_transaction(PATIENCE_S)
    committed = values_of(broker.bootstrap, topic_name, 1, isolation_level="read_committed")
    assert committed == ["in time"]


def test_a_timeout_beyond_the_brokers_limit_is_refused(bootstrap: str, name: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": name}
    producer = Producer({**settings, "transaction.timeout.ms": 2_000_000})
    error = error_of(lambda: producer.init_transactions(PATIENCE_S))
    assert error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_many_producers_at_once(
    bootstrap: str, topic_name: str, unique: Callable[[str], str]
) -> None:
    make_topic(bootstrap, topic_name)
    producers = [transactional(bootstrap, unique("txn")) for _ in range(8)]
    for round_number in range(5):
        for producer in producers:
            producer.begin_transaction()
        for number, producer in enumerate(producers):
            write(producer, topic_name, f"{number} {round_number}")
        for number, producer in enumerate(producers):
            if (number + round_number) % 3:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)
    expected = {f"{n} {r}" for n in range(8) for r in range(5) if (n + r) % 3}
    shown = values_of(bootstrap, topic_name, len(expected), isolation_level="read_committed")
    assert set(shown) == expected
    assert len(shown) == len(expected)


def test_a_transaction_continues_after_the_broker_was_killed(
    own_broker: Callable[..., Any], topic_name: str, name: str
) -> None:
    broker = own_broker()
    make_topic(broker.bootstrap, topic_name)
    producer = transactional(broker.bootstrap, name, reconnect_backoff_max_ms=200)
    producer.begin_transaction()
    write(producer, topic_name, "before")
    broker.kill()
    broker.start()
    write(producer, topic_name, "after")
    producer.commit_transaction(PATIENCE_S)
    if broker.name == "apache":  # killed at once, 4.3.1 was seen to show nothing of it for a minute
        values_of(broker.bootstrap, topic_name, 2, isolation_level="read_committed")
    broker.kill()
    broker.start()
    reader = consumer(broker.bootstrap, isolation_level="read_committed")
    reader.assign([TopicPartition(topic_name, 0, OFFSET_BEGINNING)])
    assert [message.value() for message in take(reader, 2)] == [b"before", b"after"]
    reader.assign([TopicPartition(topic_name, 0, OFFSET_END)])
    producer.begin_transaction()
    write(producer, topic_name, "and on")
    producer.commit_transaction(PATIENCE_S)
    reader.assign([TopicPartition(topic_name, 0, 3)])
    assert take(reader, 1)[0].value() == b"and on"
    reader.close()
