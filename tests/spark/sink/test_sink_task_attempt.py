"""Plain writes, without transactions, to a real broker."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sink_rows import committed, options, rows, topic, turn, values

from ottla.errors import ErrorCode, KafkaError
from ottla.spark.sink.options import SinkError
from ottla.spark.sink.task_attempt import (
    cluster_of,
    commit_log_of,
    write_at_least_once,
    write_exactly_once,
)
from ottla.testing import LocalCluster


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_become_records(broker: LocalCluster, codec: str) -> None:
    name = topic(broker)
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array(["a", None, "c"]),
            "value": pa.array([b"1", b"2", None], pa.binary()),
            "timestamp": pa.array([1_000_000, 2_000_000, 3_000_000], pa.timestamp("us", "UTC")),
            "something": pa.array([1, 2, 3]),
        }
    )
    given = options(broker, topic=name, kafka_compression_type=codec)
    assert write_at_least_once(given, [batch]) == 3
    assert [(record.key, record.value, record.timestamp) for record in committed(broker, name)] == [
        (b"a", b"1", 1000),
        (None, b"2", 2000),
        (b"c", None, 3000),
    ]


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_acks(broker: LocalCluster, acks: str) -> None:
    name = topic(broker)
    given = options(broker, topic=name, kafka_acks=acks)
    assert write_at_least_once(given, rows("a", "b")) == 2
    if acks == "0":  # the same connection: what follows is answered after what came before
        cluster_of(given).topic(name)
    assert values(broker, name) == ["a", "b"]


def test_a_key_stays_in_its_partition_and_in_order(broker: LocalCluster) -> None:
    name = topic(broker, 4)
    numbers = [str(number) for number in range(2000)]
    write_at_least_once(
        options(broker, topic=name, kafka_batch_size=16384),
        rows(*numbers, key=[f"key-{int(number) % 10}" for number in numbers]),
    )
    found: dict[bytes, list[int]] = {}
    for record in committed(broker, name):
        found.setdefault(record.key or b"", []).append(int(record.value or b""))
    assert found == {b"key-%d" % key: list(range(key, 2000, 10)) for key in range(10)}


def test_keys_are_partitioned_like_javas(broker: LocalCluster) -> None:
    """As librdkafka does it with Java's partitioner."""
    ours, theirs = topic(broker, 5), topic(broker, 5)
    keys = [f"key {number}" for number in range(50)]
    write_at_least_once(options(broker, topic=ours), rows(*keys, key=keys))
    with broker.producer() as producer:
        for key in keys:
            producer.send(theirs, key.encode(), key=key.encode())
    assert [sorted(values(broker, topic)) for topic in (ours, theirs)] == [sorted(keys)] * 2
    assert values(broker, ours) == values(broker, theirs)


def test_rows_may_name_topic_and_partition(broker: LocalCluster) -> None:
    one, two = topic(broker, 3), topic(broker, 3)
    columns = {
        "topic": [one, two, one],
        "partition": [2, 1, None],
        "headers": [[{"key": "h", "value": b"x"}], None, []],
    }
    write_at_least_once(options(broker), rows("a", "b", "c", **columns))
    assert sorted(values(broker, one)) == ["a", "c"]
    assert values(broker, two) == ["b"]
    (first,) = (record for record in committed(broker, one) if record.value == b"a")
    assert first.headers == [("h", b"x")]


def test_rows_that_can_not_be_written_are_refused(broker: LocalCluster) -> None:
    name = topic(broker, 2)
    with pytest.raises(SinkError, match="null topic present in the data"):
        write_at_least_once(options(broker), rows("a", topic=pa.array([None], pa.string())))
    with pytest.raises(SinkError, match=r"has partition 2, but topic .* has 2 partitions"):
        write_at_least_once(options(broker, topic=name), rows("a", partition=[2]))
    with pytest.raises(KafkaError, match=r"larger than the topic's max\.message\.bytes"):
        write_at_least_once(options(broker, topic=name), rows("x" * 2_000_000))


def test_batches_respect_the_limit_of_their_topic(broker: LocalCluster) -> None:
    name = topic(broker, configs={"max.message.bytes": "2000"})
    texts = [f"{number:100}" for number in range(1000)]
    assert write_at_least_once(options(broker, topic=name), rows(*texts)) == 1000
    assert values(broker, name) == texts


def test_an_absent_topic_fails_the_write(broker: LocalCluster) -> None:
    with pytest.raises(KafkaError, match="create it") as caught:
        write_at_least_once(
            options(broker, topic="nowhere", kafka_delivery_timeout_ms=200), rows("a")
        )
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_null_keys_change_the_partition_from_batch_to_batch(broker: LocalCluster) -> None:
    name = topic(broker, 2)
    write_at_least_once(options(broker, topic=name), [*rows("a", "b"), *rows("c", "d")])
    assert sorted([values(broker, name)[:2], values(broker, name)[2:]]) == [["a", "b"], ["c", "d"]]


def test_new_partitions_are_used_by_the_next_task(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    keys = [f"key {number}" for number in range(30)]
    write_at_least_once(given, rows(*keys, key=keys))
    broker.admin().topics.grow(name, 3)
    write_at_least_once(given, rows(*keys, key=keys))
    assert len(values(broker, name)) == 60
    assert values(broker, name)[:30] == keys
    assert values(broker, name)[30:] != keys


def test_no_rows_cause_no_request(broker: LocalCluster) -> None:
    assert write_at_least_once(options(broker, topic="nowhere"), rows()) == 0


def test_an_absent_topic_is_created_if_the_broker_allows_it() -> None:
    with LocalCluster() as own:
        write_at_least_once(options(own, topic="plain"), rows("a"))
        assert values(own, "plain") == ["a"]
        given, at = options(own, topic="once"), turn()
        written = write_exactly_once(given, at, rows("b")).transaction
        commit_log_of(given, at.identity).commit(batch=0, run=at.run, transactions=[written])
        assert values(own, "once") == ["b"]


def test_an_absent_topic_is_named_with_a_remedy(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.protocol.cluster_client.GONE_S", 0.2)
    given = options(broker, topic="nowhere")
    for write in (
        lambda: write_at_least_once(given, rows("a")),
        lambda: write_exactly_once(given, turn(), rows("a")),
    ):
        with pytest.raises(KafkaError, match=r"no topic nowhere.*auto\.create\.topics\.enable"):
            write()
