"""A streaming query's offsets, on a real broker: limits, new partitions, topics created again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client import TopicPartition
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.range_fetcher import DataLost, OffsetRange
from ottla.errors import KafkaError
from ottla.spark import offset_reader
from ottla.spark.limits import OptionError
from ottla.spark.offset_reader import OffsetReader, batch_ranges
from ottla.spark.offsets import Offsets, ranges_between
from ottla.spark.options import read_options
from ottla.testing import LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture
def brokers(cluster: LocalCluster) -> Iterator[ClusterClient]:
    brokers = ClusterClient(cluster.bootstrap_servers, {}, patience_s=5)
    yield brokers
    brokers.close()


@pytest.fixture(autouse=True)
def _see_everything_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_reader, "METADATA_S_MAX", 0.0)
    monkeypatch.setattr(offset_reader, "GONE_LOOKS", 1)
    monkeypatch.setattr(offset_reader, "GONE_LOOK_S", 0.01)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def follow(
    cluster: LocalCluster, brokers: ClusterClient, *, clock: Any = None, **given: str
) -> OffsetReader:
    options = read_options(
        {"kafka.bootstrap.servers": cluster.bootstrap_servers, **given}, streaming=True
    )
    return OffsetReader(options, brokers, **({"clock": clock} if clock else {}))


def fill(cluster: LocalCluster, topic: str, count: int, partition: int = 0, **more: Any) -> None:
    with cluster.producer() as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=partition, **more)


def places(topic: str, *offsets: int) -> Offsets:
    return {TopicPartition(topic, number): offset for number, offset in enumerate(offsets)}


def delete(cluster: LocalCluster, topic: str) -> None:
    with cluster.admin() as admin:
        admin.topics.delete(topic)


def test_a_query_starts_where_configured_and_reads_to_the_end(
    cluster: LocalCluster, brokers: ClusterClient
) -> None:
    cluster.create_topic("plain", 2)
    fill(cluster, "plain", 5)
    fill(cluster, "plain", 3, 1)
    assert follow(cluster, brokers, subscribe="plain").begin() == places("plain", 5, 3)
    query = follow(cluster, brokers, subscribe="plain", startingOffsets="earliest")
    start = query.begin()
    assert start == places("plain", 0, 0)
    assert query.latest(start) == query.ends == places("plain", 5, 3)
    assert query.latest(places("plain", 5, 3)) == places("plain", 5, 3)
    given = '{"plain":{"0":2,"1":-1}}'
    query = follow(cluster, brokers, subscribe="plain", startingOffsets=given)
    assert query.begin() == places("plain", 2, 3)


def test_a_query_starts_at_a_timestamp(cluster: LocalCluster, brokers: ClusterClient) -> None:
    cluster.create_topic("timed", 1)
    for at in (1000, 2000, 3000):
        fill(cluster, "timed", 1, timestamp_ms=at)
    query = follow(cluster, brokers, subscribe="timed", startingTimestamp="1500")
    assert query.begin() == places("timed", 1)
    late = {"subscribe": "timed", "startingTimestamp": "9000"}
    with pytest.raises(OptionError, match="timed-0 and timestamp 9000"):
        follow(cluster, brokers, **late).begin()
    query = follow(cluster, brokers, **late, startingOffsetsByTimestampStrategy="latest")
    assert query.begin() == places("timed", 3)


def test_an_absent_topic_is_named(cluster: LocalCluster, brokers: ClusterClient) -> None:
    with pytest.raises(KafkaError, match=r"no-such: no such topic.*Create it first"):
        follow(cluster, brokers, subscribe="no-such").begin()
    cluster.create_topic("one-partition")
    with pytest.raises(KafkaError, match="one-partition-3: no such"):
        follow(cluster, brokers, assign='{"one-partition":[0,3]}').begin()


def test_a_batch_has_a_limit(cluster: LocalCluster, brokers: ClusterClient) -> None:
    cluster.create_topic("limited", 2)
    fill(cluster, "limited", 90)
    fill(cluster, "limited", 10, 1)
    query = follow(cluster, brokers, subscribe="limited", maxOffsetsPerTrigger="10")
    assert query.latest(places("limited", 0, 0)) == places("limited", 9, 1)
    assert query.latest(places("limited", 0, 0), limit=False) == places("limited", 90, 10)


def test_a_batch_waits_for_enough_records_but_not_forever(
    cluster: LocalCluster, brokers: ClusterClient
) -> None:
    cluster.create_topic("enough")
    clock = Clock()
    query = follow(
        cluster, brokers, clock=clock,
        subscribe="enough", minOffsetsPerTrigger="5", maxTriggerDelay="10s",
    )  # fmt: skip
    fill(cluster, "enough", 1)
    assert query.latest(places("enough", 0)) == places("enough", 1), "the first batch does not wait"
    fill(cluster, "enough", 3)
    assert query.latest(places("enough", 1)) == places("enough", 1)
    clock.now += 9
    assert query.latest(places("enough", 1)) == places("enough", 1)
    clock.now += 1
    assert query.latest(places("enough", 1)) == places("enough", 4)
    fill(cluster, "enough", 5)
    assert query.latest(places("enough", 4)) == places("enough", 9)


def test_the_first_record_after_a_quiet_time_does_not_wait(
    cluster: LocalCluster, brokers: ClusterClient
) -> None:
    """A poll without new records is not a batch, however often Spark polls."""
    cluster.create_topic("quiet")
    clock = Clock()
    query = follow(
        cluster, brokers, clock=clock,
        subscribe="quiet", minOffsetsPerTrigger="5", maxTriggerDelay="10s",
    )  # fmt: skip
    fill(cluster, "quiet", 1)
    assert query.latest(places("quiet", 0)) == places("quiet", 1)
    for _ in range(3):
        clock.now += 4
        assert query.latest(places("quiet", 1)) == places("quiet", 1)
    fill(cluster, "quiet", 1)
    assert query.latest(places("quiet", 1)) == places("quiet", 2)
    fill(cluster, "quiet", 1)
    assert query.latest(places("quiet", 2)) == places("quiet", 2), "the next batch waits"


def test_single_records_are_read_at_once_until_the_credit_is_used_up(
    cluster: LocalCluster, brokers: ClusterClient
) -> None:
    cluster.create_topic("trickle")
    clock = Clock()
    query = follow(
        cluster, brokers, clock=clock,
        subscribe="trickle", minOffsetsPerTrigger="5", maxTriggerDelay="10s",
        **{"ottla.small.batches": "3"},
    )  # fmt: skip
    for number in range(3):
        fill(cluster, "trickle", 1)
        assert query.latest(places("trickle", number)) == places("trickle", number + 1)
    fill(cluster, "trickle", 1)
    assert query.latest(places("trickle", 3)) == places("trickle", 3), "the credit is used up"
    clock.now += 9
    assert query.latest(places("trickle", 3)) == places("trickle", 3)
    clock.now += 1
    assert query.latest(places("trickle", 3)) == places("trickle", 4), "as without credit"
    clock.now += 1000
    for number in range(4, 7):
        fill(cluster, "trickle", 1)
        assert query.latest(places("trickle", number)) == places("trickle", number + 1)
    fill(cluster, "trickle", 1)
    assert query.latest(places("trickle", 7)) == places("trickle", 7), "credit does not accumulate"


def test_new_partitions_begin_in_one_batch_and_are_read_in_the_next(
    cluster: LocalCluster, brokers: ClusterClient
) -> None:
    cluster.create_topic("growing")
    fill(cluster, "growing", 2)
    query = follow(cluster, brokers, subscribe="growing", startingOffsets="earliest")
    first = query.latest(query.begin())
    with cluster.admin() as admin:
        admin.topics.grow("growing", 2)
    fill(cluster, "growing", 4, 1)
    second = query.latest(first)
    assert second == places("growing", 2, 0)
    assert ranges_between(first, second) == []
    assert ranges_between(second, query.latest(second)) == [OffsetRange("growing", 1, 0, 4)]


def test_new_topics_of_a_pattern_are_seen(cluster: LocalCluster, brokers: ClusterClient) -> None:
    query = follow(cluster, brokers, subscribePattern="seen-.*", startingOffsets="earliest")
    start = query.begin()
    assert start == {}
    cluster.create_topic("seen-a")
    cluster.create_topic("unseen-b")
    fill(cluster, "seen-a", 3)
    joined = query.latest(start)
    assert joined == places("seen-a", 0)
    assert query.latest(joined) == places("seen-a", 3)
    assert "__consumer_offsets" not in {
        place.topic for place in follow(cluster, brokers, subscribePattern=".*").begin()
    }


def test_available_now_stops_at_the_end_of_its_start(
    cluster: LocalCluster, brokers: ClusterClient
) -> None:
    cluster.create_topic("now", 1)
    fill(cluster, "now", 7)
    query = follow(
        cluster, brokers, subscribe="now", maxOffsetsPerTrigger="5", minOffsetsPerTrigger="4"
    )
    query.stop_at_present_end()
    fill(cluster, "now", 7)
    with cluster.admin() as admin:
        admin.topics.grow("now", 3)
    offsets, reached = places("now", 0), []
    while (following_ := query.latest(offsets)) != offsets:
        offsets = following_
        reached.append(offsets[TopicPartition("now", 0)])
    assert reached == [5, 7]
    assert offsets == places("now", 7)


def test_a_deleted_topic_fails_the_query_or_is_skipped(
    cluster: LocalCluster, brokers: ClusterClient, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("goes-a")
    cluster.create_topic("goes-b")
    names = {"subscribe": "goes-a,goes-b", "startingOffsets": "earliest"}
    strict = follow(cluster, brokers, **names)
    lax = follow(cluster, brokers, **names, failOnDataLoss="false")
    start = strict.begin()
    delete(cluster, "goes-a")
    with pytest.raises(DataLost, match="goes-a-0 no longer exist"):
        strict.latest(start)
    with caplog.at_level(logging.WARNING):
        assert lax.latest(start) == places("goes-b", 0)
    assert "goes-a-0 no longer exist" in caplog.text


def test_changes_between_two_lookups_are_reported(
    cluster: LocalCluster, brokers: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata is refreshed once a second: most deletions come in between."""
    monkeypatch.setattr(offset_reader, "METADATA_S_MAX", 1e6)
    monkeypatch.setattr("ottla.client.protocol.cluster_client.GONE_S", 0.2)
    for name in ("between-a", "between-b", "between-c"):
        cluster.create_topic(name)
        fill(cluster, name, 3)
    names = {"subscribe": "between-a,between-b", "startingOffsets": "earliest"}
    strict = follow(cluster, brokers, **names)
    lax = follow(cluster, brokers, **names, failOnDataLoss="false")
    fresh = follow(cluster, brokers, subscribe="between-c", failOnDataLoss="false")
    start = strict.begin()
    assert lax.begin() == start
    assert fresh.begin() == places("between-c", 3)
    delete(cluster, "between-a")
    with pytest.raises(DataLost, match="between-a-0 no longer exist"):
        strict.latest(start)
    assert lax.latest(start) == places("between-b", 3)
    delete(cluster, "between-c")
    cluster.create_topic("between-c")
    fill(cluster, "between-c", 2)
    assert fresh.latest(places("between-c", 3)) == places("between-c", 0)
    assert fresh.latest(places("between-c", 0)) == places("between-c", 2)


def test_a_topic_that_a_broker_briefly_does_not_know_is_not_lost(
    cluster: LocalCluster, brokers: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("for-a-moment")
    query = follow(cluster, brokers, subscribe="for-a-moment")
    start = query.begin()
    topics, asked = brokers.topics, []

    def first_nothing(names: Any) -> Any:
        asked.append(names)
        return topics(names) if len(asked) > 1 else {}

    monkeypatch.setattr(brokers, "topics", first_nothing)
    assert query.latest(start) == start
    assert len(asked) == 2


def test_available_now_from_latest_has_nothing_to_read(
    cluster: LocalCluster, brokers: ClusterClient
) -> None:
    """Spark asks for the end before the start: records may arrive in between."""
    cluster.create_topic("now-latest")
    query = follow(cluster, brokers, subscribe="now-latest")
    query.stop_at_present_end()
    fill(cluster, "now-latest", 3)
    with cluster.admin() as admin:
        admin.topics.grow("now-latest", 2)
    start = query.begin()
    assert start == places("now-latest", 3, 0)
    fill(cluster, "now-latest", 1)
    assert query.latest(start) == start


def test_a_topic_created_again_is_read_from_its_beginning(
    cluster: LocalCluster, brokers: ClusterClient
) -> None:
    """Its id shows it, even if it has more records than the old one had."""
    cluster.create_topic("recreated")
    fill(cluster, "recreated", 3)
    names = {"subscribe": "recreated", "startingOffsets": "earliest"}
    strict = follow(cluster, brokers, **names)
    lax = follow(cluster, brokers, **names, failOnDataLoss="false")
    start = strict.latest(strict.begin())
    assert lax.latest(lax.begin()) == start == places("recreated", 3)
    delete(cluster, "recreated")
    cluster.create_topic("recreated")
    fill(cluster, "recreated", 5)
    with pytest.raises(DataLost, match="created again"):
        strict.latest(start)
    again = lax.latest(start)
    assert again == places("recreated", 0)
    assert lax.latest(again) == places("recreated", 5)


def test_after_a_restart_an_end_before_the_start_shows_a_new_topic(
    cluster: LocalCluster, brokers: ClusterClient
) -> None:
    cluster.create_topic("restarted")
    fill(cluster, "restarted", 2)
    lax = follow(cluster, brokers, subscribe="restarted", failOnDataLoss="false")
    again = lax.latest(places("restarted", 50))
    assert again == places("restarted", 0)
    assert lax.latest(again) == places("restarted", 2)


def test_a_batch_query_reads_between_its_limits(
    cluster: LocalCluster, brokers: ClusterClient
) -> None:
    cluster.create_topic("between", 2)
    fill(cluster, "between", 9)

    def ranges(**given: str) -> list[OffsetRange]:
        servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
        return batch_ranges(read_options({**servers, **given}, streaming=False), brokers)

    assert ranges(subscribe="between") == [OffsetRange("between", 0, 0, 9)]
    assert ranges(
        assign='{"between":[0]}',
        startingOffsets='{"between":{"0":4}}',
        endingOffsets='{"between":{"0":6}}',
    ) == [OffsetRange("between", 0, 4, 6)]
    beyond = {"assign": '{"between":[0]}', "endingOffsets": '{"between":{"0":50}}'}
    with pytest.raises(DataLost, match="endingOffsets has 50 for between-0, which ends at 9"):
        ranges(**beyond)
    assert ranges(**beyond, failOnDataLoss="false") == [OffsetRange("between", 0, 0, 9)]
    assert ranges(subscribe="between", endingTimestamp=str(1 << 50)) == [
        OffsetRange("between", 0, 0, 9)
    ]


def test_read_committed_stops_at_open_transactions(
    cluster: LocalCluster, brokers: ClusterClient
) -> None:
    cluster.create_topic("open")
    with cluster.producer(delivery="exactly_once", transactional_id="following") as producer:
        producer.raw.begin_transaction()
        producer.send("open", b"1", partition=0)
        producer.raw.flush()
        names = {"subscribe": "open", "startingOffsets": "earliest"}
        assert follow(cluster, brokers, **names).latest(places("open", 0)) == places("open", 1)
        committed = follow(cluster, brokers, **names, **{"kafka.isolation.level": "read_committed"})
        assert committed.latest(places("open", 0)) == places("open", 0)
        producer.raw.commit_transaction()
        assert committed.latest(places("open", 0)) == places("open", 2)


@pytest.mark.parametrize(
    ("given", "limit"),
    [({}, "IDLE_WAIT_MS"), ({"ottla.work": "some"}, "IDLE_WAIT_ALONE_MS")],
)
def test_an_idle_reader_waits_for_the_first_record(
    cluster: LocalCluster,
    brokers: ClusterClient,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    limit: str,
) -> None:
    monkeypatch.setattr(offset_reader, limit, 60_000)
    topic = f"idle-{limit}"
    cluster.create_topic(topic)
    query = follow(cluster, brokers, subscribe=topic, **given)
    start = query.begin()
    assert query.latest(start) == start, "the first batch does not wait"
    later = threading.Timer(0.1, fill, (cluster, topic, 1))
    later.start()
    begin = time.monotonic()
    assert query.latest(start) == places(topic, 1)
    later.join()
    assert query.latest(places(topic, 1)) == places(topic, 1)
    query.batch_ran()
    assert query.latest(places(topic, 1)) == places(topic, 1)
    assert time.monotonic() - begin < 45


def test_the_reader_waits_for_a_restarting_broker() -> None:
    with LocalCluster() as own:
        own.create_topic("back")
        brokers = ClusterClient(own.bootstrap_servers, {}, patience_s=20)
        query = follow(own, brokers, subscribe="back")
        start = query.begin()
        assert query.latest(start) == start
        own.restart()
        fill(own, "back", 2)
        assert query.latest(start) == places("back", 2)
        brokers.close()


def test_the_first_offset_of_a_stream_is_kept(cluster: LocalCluster) -> None:
    from pyspark.sql import types

    from ottla.spark.source import StreamReader

    fill(cluster, "first-answer", 3)
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "first-answer"}
    options = read_options({**given, "startingOffsets": "latest"}, streaming=True)
    binary, text, number = types.BinaryType(), types.StringType(), types.IntegerType()
    schema = types.StructType().add("key", binary).add("value", binary).add("topic", text)
    schema.add("partition", number).add("offset", types.LongType())
    schema.add("timestamp", types.TimestampType()).add("timestampType", number)
    reader = StreamReader(options, schema)
    try:
        first = reader.initialOffset()
        fill(cluster, "first-answer", 1)  # before Spark asks again, as it does
        assert reader.initialOffset() == first == {"first-answer": {"0": 3}}
    finally:
        reader.stop()


def test_a_query_driven_by_the_clock_always_has_a_batch(
    cluster: LocalCluster,
) -> None:
    from pyspark.sql import types
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from ottla.spark.source import OttlaInputPartition, StreamReader

    fill(cluster, "timed-work", 2)
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "timed-work"}
    work = {"ottla.work": "(never done)", "ottla.work.ticks": "true"}
    options = read_options({**given, **work, "startingOffsets": "earliest"}, streaming=True)
    schema = types.StructType().add("task", types.IntegerType()).add("rows", types.BinaryType())
    reader = StreamReader(options, schema)
    try:
        first = reader.initialOffset()
        assert reader.initialOffset() == first
        second = reader.latestOffset(first, ReadAllAvailable())
        assert second["timed-work"] == {"0": 2}
        (part,) = reader.partitions(first, second)
        assert isinstance(part, OttlaInputPartition)
        assert part.tick_ms == second["@clock"]["0"] >= first["@clock"]["0"]
        assert [offset_range.size for offset_range in part.ranges] == [2]
        third = reader.latestOffset(second, ReadAllAvailable())
        (part,) = reader.partitions(second, third)
        assert isinstance(part, OttlaInputPartition)
        assert (part.ranges, part.tick_ms) == ((), third["@clock"]["0"])
        assert reader.reportLatestOffset() == {"timed-work": {"0": 2}}
    finally:
        reader.stop()
