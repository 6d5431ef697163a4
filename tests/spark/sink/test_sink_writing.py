"""Plain writes, without transactions, to a real broker."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sink_rows import committed, options, rows, topic, turn, values

from ottla.errors import ErrorCode, KafkaError
from ottla.spark.sink.options import SinkError
from ottla.spark.sink.writing import cluster_of, decisions_of, write_once, write_plainly
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
    assert write_plainly(given, [batch]) == 3
    assert [(each.key, each.value, each.timestamp) for each in committed(broker, name)] == [
        (b"a", b"1", 1000),
        (None, b"2", 2000),
        (b"c", None, 3000),
    ]


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_acks(broker: LocalCluster, acks: str) -> None:
    name = topic(broker)
    given = options(broker, topic=name, kafka_acks=acks)
    assert write_plainly(given, rows("a", "b")) == 2
    if acks == "0":  # the same connection: what follows is answered after what came before
        cluster_of(given).topic(name)
    assert values(broker, name) == ["a", "b"]


def test_a_key_stays_in_its_partition_and_in_order(broker: LocalCluster) -> None:
    name = topic(broker, 4)
    numbers = [str(each) for each in range(2000)]
    write_plainly(
        options(broker, topic=name, kafka_batch_size=16384),
        rows(*numbers, key=[f"key-{int(each) % 10}" for each in numbers]),
    )
    found: dict[bytes, list[int]] = {}
    for each in committed(broker, name):
        found.setdefault(each.key or b"", []).append(int(each.value or b""))
    assert found == {b"key-%d" % key: list(range(key, 2000, 10)) for key in range(10)}


def test_java_places_keys_so(broker: LocalCluster) -> None:
    """As librdkafka does it with Java's partitioner."""
    ours, theirs = topic(broker, 5), topic(broker, 5)
    keys = [f"key {each}" for each in range(50)]
    write_plainly(options(broker, topic=ours), rows(*keys, key=keys))
    with broker.producer() as producer:
        for each in keys:
            producer.send(theirs, each.encode(), key=each.encode())
    assert [sorted(values(broker, each)) for each in (ours, theirs)] == [sorted(keys)] * 2
    assert values(broker, ours) == values(broker, theirs)


def test_rows_may_name_topic_and_partition(broker: LocalCluster) -> None:
    one, two = topic(broker, 3), topic(broker, 3)
    columns = {
        "topic": [one, two, one],
        "partition": [2, 1, None],
        "headers": [[{"key": "h", "value": b"x"}], None, []],
    }
    write_plainly(options(broker), rows("a", "b", "c", **columns))
    assert sorted(values(broker, one)) == ["a", "c"]
    assert values(broker, two) == ["b"]
    (first,) = (each for each in committed(broker, one) if each.value == b"a")
    assert first.headers == [("h", b"x")]


def test_rows_that_can_not_be_written(broker: LocalCluster) -> None:
    name = topic(broker, 2)
    with pytest.raises(SinkError, match="null topic present in the data"):
        write_plainly(options(broker), rows("a", topic=pa.array([None], pa.string())))
    with pytest.raises(SinkError, match=r"partition 2 of topic .*, which has 2"):
        write_plainly(options(broker, topic=name), rows("a", partition=[2]))
    with pytest.raises(KafkaError, match=r"larger than the topic's max\.message\.bytes"):
        write_plainly(options(broker, topic=name), rows("x" * 2_000_000))


def test_a_topic_with_small_batches_gets_small_batches(broker: LocalCluster) -> None:
    name = topic(broker, configs={"max.message.bytes": "2000"})
    texts = [f"{each:100}" for each in range(1000)]
    assert write_plainly(options(broker, topic=name), rows(*texts)) == 1000
    assert values(broker, name) == texts


def test_a_topic_that_is_not_there(broker: LocalCluster) -> None:
    with pytest.raises(KafkaError, match="create it") as caught:
        write_plainly(options(broker, topic="nowhere", kafka_delivery_timeout_ms=200), rows("a"))
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_null_keys_change_the_partition_from_batch_to_batch(broker: LocalCluster) -> None:
    name = topic(broker, 2)
    write_plainly(options(broker, topic=name), [*rows("a", "b"), *rows("c", "d")])
    assert sorted([values(broker, name)[:2], values(broker, name)[2:]]) == [["a", "b"], ["c", "d"]]


def test_a_topic_that_grows_is_seen_by_the_next_task(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    keys = [f"key {each}" for each in range(30)]
    write_plainly(given, rows(*keys, key=keys))
    broker.admin().topics.grow(name, 3)
    write_plainly(given, rows(*keys, key=keys))
    assert len(values(broker, name)) == 60
    assert values(broker, name)[:30] == keys
    assert values(broker, name)[30:] != keys


def test_no_rows_are_no_work(broker: LocalCluster) -> None:
    assert write_plainly(options(broker, topic="nowhere"), rows()) == 0


def test_a_topic_that_is_not_there_is_made_where_the_broker_does_so() -> None:
    with LocalCluster() as own:
        write_plainly(options(own, topic="plain"), rows("a"))
        assert values(own, "plain") == ["a"]
        given, at = options(own, topic="once"), turn()
        written = write_once(given, at, rows("b")).written
        decisions_of(given, at.identity).decide(batch=0, run=at.run, written=[written])
        assert values(own, "once") == ["b"]


def test_a_topic_that_nobody_makes_is_named_with_a_remedy(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.protocol.cluster_client.GONE_S", 0.2)
    given = options(broker, topic="nowhere")
    for write in (
        lambda: write_plainly(given, rows("a")),
        lambda: write_once(given, turn(), rows("a")),
    ):
        with pytest.raises(KafkaError, match=r"no topic nowhere.*auto\.create\.topics\.enable"):
            write()
