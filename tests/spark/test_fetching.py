"""Ranges read from a real broker: complete, in order, with errors for deleted records."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.protocol import range_fetcher
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.connection import BrokerConnection
from ottla.client.protocol.range_fetcher import DataLost, OffsetRange
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin, check_batches
from ottla.spark.chunks import close_cached_clients, read_chunks
from ottla.spark.options import ReadOptions
from ottla.testing import LocalCluster

LOREM = b"lorem ipsum dolor sit amet " * 40


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster
    close_cached_clients()


def options(cluster: LocalCluster, **more: Any) -> ReadOptions:
    return ReadOptions(cluster.bootstrap_servers, {}, poll_timeout_ms=2000, **more)


def rows(
    cluster: LocalCluster, *ranges: OffsetRange, **more: Any
) -> list[tuple[str, int, int, bytes]]:
    return [
        (chunk.topic, chunk.partition, offset, value)
        for chunk in read_chunks(options(cluster, **more), ranges)
        for offset, value in zip(
            chunk.columns.offsets.to_pylist(), chunk.columns.values.to_pylist(), strict=True
        )
    ]


def values(cluster: LocalCluster, *ranges: OffsetRange, **more: Any) -> list[bytes]:
    return [value for _, _, _, value in rows(cluster, *ranges, **more)]


def fill(cluster: LocalCluster, topic: str, sent: list[bytes], **settings: Any) -> None:
    with cluster.producer(settings=settings) as producer:
        for value in sent:
            producer.send(topic, value, partition=0)


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression(cluster: LocalCluster, codec: str) -> None:
    topic = f"codec-{codec}"
    cluster.create_topic(topic)
    sent = [b"%d %s" % (number, LOREM) for number in range(500)]
    fill(cluster, topic, sent, **{"compression.type": codec, "linger.ms": 20})
    assert values(cluster, OffsetRange(topic, 0, 0, 500)) == sent
    assert values(cluster, OffsetRange(topic, 0, 123, 321)) == sent[123:321]


def test_many_answers_and_many_ranges_in_one_task(cluster: LocalCluster) -> None:
    topics = ["pipe-a", "pipe-b"]
    for topic in topics:
        cluster.create_topic(topic)
        fill(cluster, topic, numbers(300), **{"batch.num.messages": 7})
    ranges = OffsetRange("pipe-a", 0, 5, 290), OffsetRange("pipe-b", 0, 0, 300)
    found = rows(cluster, *ranges, fetch_bytes_max=2000)
    assert found == [("pipe-a", 0, offset, b"%d" % offset) for offset in range(5, 290)] + [
        ("pipe-b", 0, offset, b"%d" % offset) for offset in range(300)
    ]


def test_a_reader_may_stop_early(cluster: LocalCluster) -> None:
    cluster.create_topic("early")
    fill(cluster, "early", numbers(50), **{"batch.num.messages": 1})
    some = read_chunks(options(cluster), [OffsetRange("early", 0, 0, 50)])
    next(some)
    some.close()  # type: ignore[attr-defined]
    assert values(cluster, OffsetRange("early", 0, 0, 50)) == numbers(50)


def test_read_committed_leaves_out_what_was_aborted(cluster: LocalCluster) -> None:
    cluster.create_topic("transactions")
    with cluster.producer(delivery="exactly_once", transactional_id="fetching") as producer:
        for number in range(6):
            producer.raw.begin_transaction()
            for value in (b"%d a" % number, b"%d b" % number):
                producer.send("transactions", value, partition=0)
            producer.raw.flush()
            if number % 2:
                producer.raw.abort_transaction()
            else:
                producer.raw.commit_transaction()
    everything = OffsetRange("transactions", 0, 0, 18)
    assert values(cluster, everything, read_committed=True) == [
        b"0 a", b"0 b", b"2 a", b"2 b", b"4 a", b"4 b",
    ]  # fmt: skip
    assert len(values(cluster, everything)) == 12
    inside = OffsetRange("transactions", 0, 4, 9)  # begins within an aborted transaction
    assert values(cluster, inside, read_committed=True) == [b"2 a", b"2 b"]


def test_deleted_records_fail_the_query_or_are_left_out(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("trimmed")
    fill(cluster, "trimmed", numbers(20))
    with cluster.admin() as admin:
        from ottla.client import TopicPartition

        admin.offsets.delete_before({TopicPartition("trimmed", 0): 8})
    with pytest.raises(DataLost, match=r'offsets 3 to 7 of trimmed-0 .* "failOnDataLoss"'):
        values(cluster, OffsetRange("trimmed", 0, 3, 20))
    with caplog.at_level(logging.WARNING):
        left = values(cluster, OffsetRange("trimmed", 0, 3, 20), fail_on_data_loss=False)
    assert left == numbers(20)[8:]
    assert "offsets 3 to 7" in caplog.text
    assert values(cluster, OffsetRange("trimmed", 0, 3, 6), fail_on_data_loss=False) == []


def test_a_range_beyond_the_end_is_lost(cluster: LocalCluster) -> None:
    cluster.create_topic("short")
    fill(cluster, "short", numbers(5))
    with pytest.raises(DataLost, match="ends at offset 5 now"):
        values(cluster, OffsetRange("short", 0, 9, 12))
    with pytest.raises(DataLost, match="up to offset 4 only"):
        values(cluster, OffsetRange("short", 0, 2, 12))
    assert (
        values(cluster, OffsetRange("short", 0, 2, 12), fail_on_data_loss=False) == numbers(5)[2:]
    )


def test_a_deleted_topic_is_data_loss(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_fetcher, "GONE_S", 0.2)
    with pytest.raises(DataLost, match="there is no topic never"):
        values(cluster, OffsetRange("never", 0, 0, 2))
    assert values(cluster, OffsetRange("never", 0, 0, 2), fail_on_data_loss=False) == []


def test_a_broker_that_comes_back_is_retried() -> None:
    with LocalCluster() as own:
        own.create_topic("back")
        fill(own, "back", numbers(10))
        assert values(own, OffsetRange("back", 0, 0, 10)) == numbers(10)
        own.restart()  # the connection that was kept is dead now
        assert values(own, OffsetRange("back", 0, 0, 10)) == numbers(10)


def test_a_moved_leader_is_found(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.create_topic("moved")
    fill(cluster, "moved", numbers(10))
    receive, received = BrokerConnection.receive, []

    def once_wrong(line: BrokerConnection, api_key: int, response: Any) -> Any:
        answer = receive(line, api_key, response)
        if api_key == 1 and not received:
            answer.responses[0].partitions[0].error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            received.append(api_key)
        return answer

    monkeypatch.setattr(BrokerConnection, "receive", once_wrong)
    assert values(cluster, OffsetRange("moved", 0, 0, 10)) == numbers(10)
    assert received == [1]


def test_a_gap_at_the_end_of_a_partition_is_no_loss(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction may take a partition's last records: the broker then has nothing to send."""
    cluster.create_topic("gap")
    fill(cluster, "gap", numbers(10), **{"batch.num.messages": 5, "linger.ms": 200})
    receive = BrokerConnection.receive

    def without_the_end(line: BrokerConnection, api_key: int, response: Any) -> Any:
        answer = receive(line, api_key, response)
        if api_key == 1:
            part = answer.responses[0].partitions[0]
            headers = check_batches(
                bytes(part.records), batch_size_max=1 << 30, origin=AppendOrigin.LEADER
            )
            part.records = (
                bytes(part.records)[: headers[0].size] if headers[0].base_offset == 0 else b""
            )
        return answer

    monkeypatch.setattr(BrokerConnection, "receive", without_the_end)
    for committed in (False, True):
        found = values(cluster, OffsetRange("gap", 0, 0, 10), read_committed=committed)
        assert 0 < len(found) <= 5  # the first batch, however many records it was given
        assert found == numbers(10)[: len(found)]
    with pytest.raises(DataLost, match="up to offset 9 only"):
        values(cluster, OffsetRange("gap", 0, 0, 12))


def test_a_response_that_a_quota_has_emptied_is_fetched_again(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("quota")
    fill(cluster, "quota", numbers(3))
    receive, received = BrokerConnection.receive, []

    def once_nothing(line: BrokerConnection, api_key: int, response: Any) -> Any:
        answer = receive(line, api_key, response)
        if api_key == 1 and not received:
            received.append(api_key)
            answer.responses = []
        return answer

    monkeypatch.setattr(BrokerConnection, "receive", once_nothing)
    assert values(cluster, OffsetRange("quota", 0, 0, 3)) == numbers(3)
    assert received == [1]


def test_a_broken_batch_is_reported(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.create_topic("broken")
    fill(cluster, "broken", numbers(3))
    monkeypatch.setattr(range_fetcher, "_bytes", _with_a_wrong_byte)
    with pytest.raises(KafkaError, match=r"broken-0 at offset 0: wrong checksum"):
        values(cluster, OffsetRange("broken", 0, 0, 3))


def _with_a_wrong_byte(part: Any) -> bytes:
    data = bytearray(part.records)
    data[-1] ^= 1
    return bytes(data)


def test_a_wrong_address_is_reported_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = ClusterClient("127.0.0.1:1", {}, patience_s=0.1)
    with pytest.raises(KafkaError, match=r"cannot reach 127\.0\.0\.1:1"):
        brokers.topics(["t"])
