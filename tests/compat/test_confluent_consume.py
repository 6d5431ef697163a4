"""librdkafka's consumer on its own: assign, seek, offsets, watermarks, limits."""

from __future__ import annotations

import threading
import time

import pytest
from compat_confluent import PATIENCE_S, consumer, make_topic, produce, read_all, take
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)


def _numbered(bootstrap: str, topic: str, count: int, partition: int = 0, **config: object) -> None:
    produce(
        bootstrap,
        topic,
        [{"value": str(i), "partition": partition} for i in range(count)],
        **config,
    )


def test_assign_at_an_offset_and_seek(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    _numbered(bootstrap, topic_name, 100, linger_ms=50)
    reader = consumer(bootstrap)
    reader.assign([TopicPartition(topic_name, 0, 40)])
    assert [m.offset() for m in take(reader, 3)] == [40, 41, 42]
    reader.seek(TopicPartition(topic_name, 0, 97))
    assert [m.offset() for m in take(reader, 3)] == [97, 98, 99]
    reader.seek(TopicPartition(topic_name, 0, 1))
    assert [m.offset() for m in take(reader, 2)] == [1, 2]
    assert reader.position([TopicPartition(topic_name, 0)])[0].offset == 3
    reader.close()


def test_offset_end_sees_only_what_comes_later(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    _numbered(bootstrap, topic_name, 10)
    reader = consumer(bootstrap)
    reader.assign([TopicPartition(topic_name, 0, OFFSET_END)])
    assert reader.poll(1.0) is None
    produce(bootstrap, topic_name, [{"value": "later"}])
    (message,) = take(reader, 1)
    assert (message.value(), message.offset()) == (b"later", 10)
    reader.close()


def test_offsets_for_times(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    start_ms = int(time.time() * 1000) - 100_000
    produce(
        bootstrap, topic_name, [{"value": "v", "timestamp": start_ms + i * 1000} for i in range(50)]
    )
    reader = consumer(bootstrap)

    def offset_at(timestamp_ms: int) -> int:
        (found,) = reader.offsets_for_times(
            [TopicPartition(topic_name, 0, timestamp_ms)], timeout=PATIENCE_S
        )
        assert found.error is None
        offset: int = found.offset
        return offset

    assert offset_at(start_ms - 5000) == 0
    assert offset_at(start_ms) == 0
    assert offset_at(start_ms + 1) == 1
    assert offset_at(start_ms + 20_000) == 20
    assert offset_at(start_ms + 49_000) == 49
    assert offset_at(start_ms + 49_001) == OFFSET_END
    reader.close()


def test_watermarks(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, partitions=2)
    _numbered(bootstrap, topic_name, 25, partition=1)
    reader = consumer(bootstrap)
    empty, full = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    assert reader.get_watermark_offsets(empty, timeout=PATIENCE_S) == (0, 0)
    assert reader.get_watermark_offsets(full, timeout=PATIENCE_S) == (0, 25)
    reader.assign([TopicPartition(topic_name, 1, 0)])
    take(reader, 1)
    assert reader.get_watermark_offsets(full, cached=True) == (0, 25)
    reader.close()


def test_pause_and_resume(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, partitions=2)
    first, second = TopicPartition(topic_name, 0, 0), TopicPartition(topic_name, 1, 0)
    reader = consumer(bootstrap)
    reader.assign([first, second])
    reader.pause([first])
    for partition in (0, 1):
        _numbered(bootstrap, topic_name, 20, partition=partition)
    assert {m.partition() for m in take(reader, 20)} == {1}
    assert reader.poll(1.0) is None
    reader.resume([first])
    assert {m.partition() for m in take(reader, 20)} == {0}
    reader.close()


def test_end_of_partition_event(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    _numbered(bootstrap, topic_name, 3)
    reader = consumer(bootstrap, enable_partition_eof=True)
    reader.assign([TopicPartition(topic_name, 0, 0)])
    take(reader, 3)
    event = reader.poll(PATIENCE_S)
    assert event is not None
    assert event.error().code() == KafkaError._PARTITION_EOF
    assert event.offset() == 3
    reader.close()


def test_offset_out_of_range_follows_the_reset_policy(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    _numbered(bootstrap, topic_name, 5)
    reader = consumer(bootstrap, auto_offset_reset="earliest")
    reader.assign([TopicPartition(topic_name, 0, 1000)])
    assert [m.offset() for m in take(reader, 5)] == [0, 1, 2, 3, 4]
    reader.close()
    strict = consumer(bootstrap, auto_offset_reset="error")
    strict.assign([TopicPartition(topic_name, 0, 1000)])
    event = strict.poll(PATIENCE_S)
    assert event is not None
    assert event.error().code() == KafkaError._AUTO_OFFSET_RESET
    strict.close()


def test_long_poll_delivers_soon_after_the_produce(bootstrap: str, topic_name: str) -> None:
    """A record wakes a consumer that waits with a long fetch.wait.max.ms."""
    make_topic(bootstrap, topic_name)
    reader = consumer(
        bootstrap, fetch_wait_max_ms=80_000, fetch_min_bytes=1, socket_timeout_ms=120_000
    )
    reader.assign([TopicPartition(topic_name, 0, 0)])
    assert reader.poll(2.0) is None
    produced_at: list[float] = []

    def later() -> None:
        produce(bootstrap, topic_name, [{"value": "wake up"}])
        produced_at.append(time.monotonic())

    thread = threading.Thread(target=later)
    thread.start()
    take(reader, 1)
    thread.join()
    assert time.monotonic() - produced_at[0] < 40
    reader.close()


def test_fetch_min_bytes_waits_for_more(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    reader = consumer(bootstrap, fetch_min_bytes=100_000, fetch_wait_max_ms=3000)
    reader.assign([TopicPartition(topic_name, 0, OFFSET_BEGINNING)])
    produce(bootstrap, topic_name, [{"value": "small"}])
    assert take(reader, 1)[0].value() == b"small"
    produce(bootstrap, topic_name, [{"value": b"x" * 1000} for _ in range(200)])
    assert len(take(reader, 200)) == 200
    reader.close()


@pytest.mark.parametrize("limit", [1, 1000, 50_000])
def test_small_fetch_limits_still_make_progress(
    bootstrap: str, topic_name: str, limit: int
) -> None:
    """The first batch is returned even when it is larger than what was asked for."""
    make_topic(bootstrap, topic_name)
    _numbered(bootstrap, topic_name, 300, batch_num_messages=10)
    got = read_all(bootstrap, topic_name, 300, max_partition_fetch_bytes=limit)
    assert [int(m.value()) for m in got] == list(range(300))


def test_many_partitions_in_one_consumer(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, partitions=20)
    produce(bootstrap, topic_name, [{"value": str(i), "partition": i % 20} for i in range(1000)])
    reader = consumer(bootstrap)
    reader.assign([TopicPartition(topic_name, p, 0) for p in range(20)])
    got = take(reader, 1000)
    for partition in range(20):
        values = [int(m.value()) for m in got if m.partition() == partition]
        assert values == list(range(partition, 1000, 20))
    reader.close()


def test_a_reader_keeps_up_with_several_producers(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)

    def write(who: int) -> None:
        produce(bootstrap, topic_name, [{"value": f"{who} {i}"} for i in range(1000)], linger_ms=1)

    threads = [threading.Thread(target=write, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    got = read_all(bootstrap, topic_name, 3000)
    for thread in threads:
        thread.join()
    assert [m.offset() for m in got] == list(range(3000))
    for who in range(3):
        mine = [int(m.value().split()[1]) for m in got if m.value().startswith(f"{who} ".encode())]
        assert mine == list(range(1000))


def test_read_committed_reads_plain_records(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    _numbered(bootstrap, topic_name, 10, enable_idempotence=True)
    assert len(read_all(bootstrap, topic_name, 10, isolation_level="read_committed")) == 10


def test_consume_returns_batches(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    _numbered(bootstrap, topic_name, 250)
    reader = consumer(bootstrap)
    reader.assign([TopicPartition(topic_name, 0, 0)])
    got: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(got) < 250 and time.monotonic() < deadline:
        got += [int(m.value()) for m in reader.consume(100, timeout=1.0)]
    assert got == list(range(250))
    reader.close()


def test_unknown_topic_is_reported_to_a_subscriber(
    bootstrap: str, topic_name: str, group_name: str
) -> None:
    reader = consumer(bootstrap, group_id=group_name, allow_auto_create_topics=False)
    reader.subscribe([topic_name])
    deadline = time.monotonic() + PATIENCE_S
    event = None
    while event is None and time.monotonic() < deadline:
        event = reader.poll(1.0)
    assert event is not None
    assert event.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    reader.close()


def test_subscriber_finds_a_topic_created_later(
    bootstrap: str, topic_name: str, group_name: str
) -> None:
    reader = consumer(bootstrap, group_id=group_name, topic_metadata_refresh_interval_ms=500)
    reader.subscribe([topic_name])
    event = reader.poll(PATIENCE_S)
    assert event is not None
    assert event.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    make_topic(bootstrap, topic_name)
    produce(bootstrap, topic_name, [{"value": "v"}])
    deadline = time.monotonic() + PATIENCE_S
    message = None
    while message is None or message.error() is not None:
        assert time.monotonic() < deadline
        message = reader.poll(0.5)
    assert message.value() == b"v"
    reader.close()


def test_leader_epoch_comes_with_messages(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    _numbered(bootstrap, topic_name, 1)
    (message,) = read_all(bootstrap, topic_name, 1)
    epoch = message.leader_epoch()
    assert epoch is not None
    assert epoch >= 0


def test_unknown_partition_has_no_watermarks(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    reader: Consumer = consumer(bootstrap)
    with pytest.raises(KafkaException) as raised:
        reader.get_watermark_offsets(TopicPartition(topic_name, 9), timeout=10)
    assert raised.value.args[0].code() in (
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    )
    reader.close()
