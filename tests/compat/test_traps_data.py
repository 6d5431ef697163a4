"""Details on which real clients depend: produce, fetch and offsets, byte by byte."""

from __future__ import annotations

import itertools
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from compat_raw import RawClient, batch, code, new_producer

Until = Callable[[Callable[[], object], str], None]


@pytest.fixture
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as opened:
        yield opened


@pytest.fixture
def make_topic(client: RawClient, topic_name: str, until: Until) -> Callable[..., uuid.UUID]:
    """Creates `topic_name` and returns its id once every partition has a leader."""

    def make(partitions: int = 1, **configs: str) -> uuid.UUID:
        settings = [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()]
        topic = {
            "name": topic_name, "num_partitions": partitions, "replication_factor": 1,
            "configs": settings,
        }  # fmt: skip
        (created,) = client.call("create_topics", 7, topics=[topic], timeout=30_000).topics
        assert created.error_code == code("none"), created

        def ready() -> bool:
            (found,) = client.call("metadata", 9, topics=[{"name": topic_name}]).topics
            errors = [found.error_code, *(p.error_code for p in found.partitions)]
            return len(found.partitions) == partitions and set(errors) == {code("none")}

        until(ready, "the topic has leaders")
        topic_id: uuid.UUID = created.topic_id
        return topic_id

    return make


def produce(client: RawClient, topic: str, records: bytes, version: int = 9, **values: Any) -> Any:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    request = {"acks": -1, "timeout": 30_000, "topic_data": data, **values}
    return client.call("produce", version, **request).responses[0].partition_responses[0]


def fetch(client: RawClient, topic: str, offset: int, version: int = 11, **values: Any) -> Any:
    size = values.pop("partition_max_bytes", 1 << 20)
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": size}
    request = {
        "replica_id": -1, "max_wait": 500, "min_bytes": 1, "max_bytes": 1 << 24,
        "topics": [{"topic": topic, "partitions": [partition]}], **values,
    }  # fmt: skip
    return client.call("fetch", version, **request)


def only(answer: Any) -> Any:
    return answer.responses[0].partitions[0]


def base_offsets(records: bytes | None) -> list[int]:
    """The base offsets of the whole batches in a fetch; a cut one at the end does not count."""
    found, position = [], 0
    data = records or b""
    while position + 12 <= len(data):
        offset, length = struct.unpack_from(">qi", data, position)
        if position + 12 + length > len(data):
            break
        found.append(offset)
        position += 12 + length
    return found


# Produce


@pytest.mark.parametrize("version", range(3, 13))
def test_produce_and_fetch_in_every_version(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID], version: int
) -> None:
    make_topic()
    for number in range(2):
        done = produce(client, topic_name, batch([b"a", b"b", b"c"]), version)
        assert (done.error_code, done.base_offset) == (code("none"), number * 3)
        assert done.log_append_time is None
        if version >= 5:
            assert done.log_start_offset == 0
        if version >= 8:
            assert (done.record_errors, done.error_message) == ((), None)
    got = only(fetch(client, topic_name, 0, min(version + 1, 12)))
    assert (got.error_code, got.high_watermark, got.last_stable_offset) == (code("none"), 6, 6)
    assert base_offsets(got.records) == [0, 3]


def test_produce_and_fetch_by_topic_id(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    topic_id = make_topic()

    def by_id(topic: uuid.UUID) -> Any:
        data = [{"topic_id": topic, "partition_data": [{"index": 0, "records": batch([b"v"])}]}]
        answer = client.call("produce", 13, acks=-1, timeout=30_000, topic_data=data)
        return answer.responses[0]

    done = by_id(topic_id)
    assert done.topic_id == topic_id
    assert done.partition_responses[0].error_code == code("none")
    stranger = by_id(uuid.uuid4())
    assert stranger.partition_responses[0].error_code == code("unknown_topic_id")
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    for version in range(13, 19):
        for topic, expected in ((topic_id, "none"), (uuid.uuid4(), "unknown_topic_id")):
            answer = client.call(
                "fetch", version, max_wait=100, min_bytes=1, max_bytes=10_000,
                topics=[{"topic_id": topic, "partitions": [partition]}],
            )  # fmt: skip
            assert answer.responses[0].topic_id == topic
            assert only(answer).error_code == code(expected)


def test_duplicate_sequence_returns_the_first_offset(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic()
    who = new_producer(client)
    first = batch([b"a", b"b"], producer=(*who, 0))
    second = batch([b"c"], producer=(*who, 2))
    assert produce(client, topic_name, first).base_offset == 0
    assert produce(client, topic_name, second).base_offset == 2
    for again, offset in ((first, 0), (second, 2)):
        repeated = produce(client, topic_name, again)
        assert repeated.error_code in (code("none"), code("duplicate_sequence_number"))
        assert repeated.base_offset == offset
    gap = produce(client, topic_name, batch([b"z"], producer=(*who, 7)))
    assert gap.error_code == code("out_of_order_sequence_number")
    third = produce(client, topic_name, batch([b"d"], producer=(*who, 3)))
    assert (third.error_code, third.base_offset) == (code("none"), 3)


def test_producer_ids_are_never_given_twice(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        found = [new_producer(client)[0]]
    for version in range(6):
        with RawClient(bootstrap) as client:
            values = {"transactional_id": None, "transaction_timeout": 60_000}
            given = client.call("init_producer_id", version, **values)
            assert (given.error_code, given.producer_epoch) == (code("none"), 0)
            found.append(given.producer_id)
    assert len(set(found)) == 7


def test_an_older_producer_epoch_is_refused(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic()
    producer_id, _ = new_producer(client)
    newer = batch([b"v"], producer=(producer_id, 5, 0))
    assert produce(client, topic_name, newer).error_code == code("none")
    older = produce(client, topic_name, batch([b"v"], producer=(producer_id, 4, 1)))
    assert older.error_code == code("invalid_producer_epoch")


def test_log_append_time_is_returned_and_written(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic(message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000) - 1000
    done = produce(client, topic_name, batch([b"v"], timestamp=1_700_000_000_000))
    told_ms = int(done.log_append_time.timestamp() * 1000)
    assert told_ms >= before_ms
    records = only(fetch(client, topic_name, 0)).records
    attributes, _, _, max_timestamp = struct.unpack_from(">hiqq", records, 21)
    assert attributes & 8
    assert abs(max_timestamp - told_ms) <= 1


def test_record_errors_name_the_bad_record(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    """KIP-467, from v8: a compacted topic needs keys; the second record has none."""
    make_topic(cleanup_policy="compact")
    records = batch([b"a", b"b", b"c"], keys=[b"k", None, b"k"])
    refused = produce(client, topic_name, records, 8)
    assert refused.error_code == code("invalid_record")
    assert [error.batch_index for error in refused.record_errors] == [1]
    assert refused.base_offset == -1
    old = produce(client, topic_name, records, 7)
    assert old.error_code in (code("invalid_record"), code("corrupt_message"))


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("checksum", {"corrupt_message"}),
        ("magic 1", {"invalid_record", "unsupported_for_message_format", "corrupt_message"}),
        ("cut", {"corrupt_message", "invalid_record"}),
        ("no records", {"invalid_record", "corrupt_message"}),
        # Apache Kafka does not expect an unknown codec, and says so.
        ("codec 7", {"unsupported_compression_type", "invalid_record", "unknown_server_error"}),
        ("count", {"invalid_record", "corrupt_message"}),
        ("length", {"corrupt_message", "invalid_record", "message_too_large"}),
    ],
)
def test_damaged_batches_are_refused_and_the_topic_goes_on(
    bootstrap: str,
    topic_name: str,
    make_topic: Callable[..., uuid.UUID],
    damage: str,
    expected: set[str],
) -> None:
    """An error for the partition, or the end of this connection: never an append."""
    make_topic()
    whole = batch([b"a", b"b"])
    records = {
        "checksum": whole[:17] + b"\x00\x00\x00\x00" + whole[21:],
        "magic 1": whole[:16] + b"\x01" + whole[17:],
        "cut": whole[:-3],
        "no records": batch([], records=b""),
        "codec 7": batch([b"a"], attributes=7),
        "count": batch([b"a", b"b"], records=b""),
        "length": struct.pack(">qi", 0, 2_000_000_000) + whole[12:],
    }[damage]
    with RawClient(bootstrap) as client:
        try:
            refused = produce(client, topic_name, records)
            assert refused.error_code in {code(name) for name in expected}
        except ConnectionError:
            pass  # Apache Kafka closes where the request itself cannot be read
    with RawClient(bootstrap) as client:
        done = produce(client, topic_name, whole)
        assert (done.error_code, done.base_offset) == (code("none"), 0)


def test_produce_refusals(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic(max_message_bytes="200")
    good = batch([b"v"])
    assert produce(client, topic_name, good, acks=7).error_code == code("invalid_required_acks")
    too_large = produce(client, topic_name, batch([b"x" * 500]))
    assert too_large.error_code == code("message_too_large")
    ghost = produce(client, f"{topic_name}-ghost", good)
    assert ghost.error_code == code("unknown_topic_or_partition")
    data = [{"name": topic_name, "partition_data": [{"index": 9, "records": good}]}]
    answer = client.call("produce", 9, acks=-1, timeout=1000, topic_data=data)
    refused = answer.responses[0].partition_responses[0]
    assert refused.error_code == code("unknown_topic_or_partition")
    late = batch([b"v"], timestamp=int(time.time() * 1000) + 86_400_000)
    assert produce(client, topic_name, late).error_code == code("invalid_timestamp")


def test_acks_0_has_no_reply_and_keeps_the_order(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic()
    data = [{"name": topic_name, "partition_data": [{"index": 0, "records": batch([b"v"])}]}]
    for _ in range(3):
        client.send("produce", 9, acks=0, timeout=1000, topic_data=data)
    answer = client.call("list_offsets", 6, replica_id=-1, topics=[_times(topic_name, -1)])
    assert answer.topics[0].partitions[0].offset == 3


def test_replies_come_in_the_order_of_requests(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic()
    data = [{"name": topic_name, "partition_data": [{"index": 0, "records": batch([b"v"])}]}]
    sent = []
    for number in range(50):
        if number % 5 == 4:
            sent.append(("metadata", 9, client.send("metadata", 9, topics=())))
        else:
            sent.append(
                ("produce", 9, client.send("produce", 9, acks=-1, timeout=1000, topic_data=data))
            )
    offsets = []
    for api, version, correlation_id in sent:
        answer = client.receive(api, version, correlation_id)
        if api == "produce":
            offsets.append(answer.responses[0].partition_responses[0].base_offset)
    assert offsets == list(range(40))


# Fetch


def test_an_offset_in_the_middle_returns_the_whole_batch(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic()
    for _ in range(2):
        produce(client, topic_name, batch([b"%d" % i for i in range(10)]))
    assert base_offsets(only(fetch(client, topic_name, 4)).records) == [0, 10]
    assert base_offsets(only(fetch(client, topic_name, 10)).records) == [10]
    assert base_offsets(only(fetch(client, topic_name, 19)).records) == [10]


def test_the_first_batch_is_whole_even_above_the_limit(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic()
    for _ in range(3):
        produce(client, topic_name, batch([b"x" * 5000]))
    got = only(fetch(client, topic_name, 1, partition_max_bytes=10, max_bytes=10))
    assert base_offsets(got.records)[:1] == [1]
    assert len(got.records) < 10_100


def test_an_empty_fetch_carries_the_high_watermark(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic()
    produce(client, topic_name, batch([b"a", b"b"]))
    for version in (4, 11, 12):
        got = only(fetch(client, topic_name, 2, version, max_wait=50))
        assert (got.error_code, got.high_watermark) == (code("none"), 2)
        assert not got.records
        if version >= 5:
            assert got.log_start_offset == 0


def test_fetch_outside_the_log(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic()
    produce(client, topic_name, batch([b"a"]))
    for offset in (5, -1):
        got = only(fetch(client, topic_name, offset))
        assert got.error_code == code("offset_out_of_range")
        assert not got.records
    ghost = only(fetch(client, f"{topic_name}-ghost", 0))
    assert ghost.error_code == code("unknown_topic_or_partition")


def test_fetch_with_a_wrong_leader_epoch(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic()
    partition = {
        "partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": 99,
    }  # fmt: skip
    topics = [{"topic": topic_name, "partitions": [partition]}]
    got = only(fetch(client, topic_name, 0, topics=topics))
    assert got.error_code == code("unknown_leader_epoch")


def test_fetch_waits_for_min_bytes_or_the_time(
    bootstrap: str, client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic()
    start = time.monotonic()
    got = only(fetch(client, topic_name, 0, max_wait=1500))
    assert not got.records
    assert time.monotonic() - start >= 1.4
    with RawClient(bootstrap) as waiting:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        sent = waiting.send(
            "fetch", 11, replica_id=-1, max_wait=50_000, min_bytes=1, max_bytes=1 << 20,
            topics=[{"topic": topic_name, "partitions": [partition]}],
        )  # fmt: skip
        time.sleep(0.3)
        produced_at = time.monotonic()
        produce(client, topic_name, batch([b"wake up"]))
        answer = waiting.receive("fetch", 11, sent)
        assert base_offsets(only(answer).records) == [0]
        assert time.monotonic() - produced_at < 20


def test_fetch_session_rules(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID], until: Until
) -> None:
    """KIP-227: a full fetch opens a session; later fetches name only what changed."""
    make_topic(partitions=2)
    both = [{"partition": p, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for p in (0, 1)]
    full = fetch(
        client, topic_name, 0, session_id=0, session_epoch=0, max_wait=0,
        topics=[{"topic": topic_name, "partitions": both}],
    )  # fmt: skip
    session = full.session_id
    assert session != 0
    assert len(full.responses[0].partitions) == 2

    epochs = itertools.count(1)

    def incremental(epoch: int | None = None, **values: Any) -> Any:
        number = next(epochs) if epoch is None else epoch
        request = {"session_id": session, "session_epoch": number, "topics": [], "max_wait": 0}
        return fetch(client, topic_name, 0, **{**request, **values})

    until(lambda: incremental().responses == (), "nothing is new")
    produce(client, topic_name, batch([b"a", b"b"]))
    news = incremental(max_wait=5000)
    assert [p.partition_index for p in news.responses[0].partitions] == [0]
    assert base_offsets(only(news).records) == [0]
    moved = [{"partition": 0, "fetch_offset": 2, "partition_max_bytes": 1 << 20}]
    quiet = incremental(topics=[{"topic": topic_name, "partitions": moved}])
    assert [p.records or b"" for t in quiet.responses for p in t.partitions] in ([], [b""])
    incremental(forgotten_topics_data=[{"topic": topic_name, "partitions": [0]}])
    produce(client, topic_name, batch([b"c"]))
    assert incremental().responses == ()
    assert incremental(77).error_code == code("invalid_fetch_session_epoch")
    unknown = fetch(client, topic_name, 0, session_id=123_456, session_epoch=1, topics=[])
    assert unknown.error_code == code("fetch_session_id_not_found")
    assert incremental(-1).error_code == code("none")
    assert incremental().error_code == code("fetch_session_id_not_found")


def test_fetch_without_a_session(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic()
    produce(client, topic_name, batch([b"a"]))
    answer = fetch(client, topic_name, 0, session_id=0, session_epoch=-1)
    assert answer.session_id == 0
    assert base_offsets(only(answer).records) == [0]


# ListOffsets, DeleteRecords, OffsetForLeaderEpoch


def _times(topic: str, timestamp: int) -> dict[str, Any]:
    return {"name": topic, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets_in_every_version(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID], version: int
) -> None:
    make_topic()
    start_ms = 1_700_000_000_000
    for shift in (0, 9000, 5000):
        produce(client, topic_name, batch([b"v"], timestamp=start_ms + shift))

    def ask(timestamp: int, **values: Any) -> Any:
        request = {"replica_id": -1, "topics": [_times(topic_name, timestamp)], **values}
        (found,) = client.call("list_offsets", version, **request).topics[0].partitions
        assert found.error_code == code("none"), found
        return found

    assert ask(-2).offset == 0
    assert ask(-1).offset == 3
    if version >= 2:
        assert ask(-1, isolation_level=1).offset == 3
    found = ask(start_ms + 1)
    assert found.offset == 1
    assert found.timestamp == start_ms + 9000
    assert ask(start_ms + 9001).offset == -1
    if version >= 7:
        largest = ask(-3)
        assert largest.offset == 1
        assert largest.timestamp == start_ms + 9000
    if version >= 8:
        assert ask(-4).offset == 0  # earliest local
    if version >= 9:
        assert ask(-5).offset == -1  # latest tiered


def test_offsets_after_delete_records(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic()
    produce(client, topic_name, batch([b"%d" % i for i in range(10)]))

    def delete(offset: int, version: int) -> Any:
        topics = [{"name": topic_name, "partitions": [{"partition_index": 0, "offset": offset}]}]
        answer = client.call("delete_records", version, topics=topics, timeout=10_000)
        return answer.topics[0].partitions[0]

    assert (delete(4, 0).low_watermark, delete(6, 2).low_watermark) == (4, 6)
    assert delete(2, 2).low_watermark == 6  # already gone: nothing comes back
    assert delete(11, 2).error_code == code("offset_out_of_range")
    got = only(fetch(client, topic_name, 6))
    assert (got.log_start_offset, base_offsets(got.records)) == (6, [0])
    assert only(fetch(client, topic_name, 5)).error_code == code("offset_out_of_range")
    assert delete(-1, 2).low_watermark == 10


def test_offset_for_leader_epoch(
    client: RawClient, topic_name: str, make_topic: Callable[..., uuid.UUID]
) -> None:
    make_topic()
    produce(client, topic_name, batch([b"a", b"b"]))
    for version in (2, 3, 4):
        partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        answer = client.call(
            "offset_for_leader_epoch", version,
            topics=[{"topic": topic_name, "partitions": [partition]}],
            **({"replica_id": -1} if version >= 3 else {}),
        )  # fmt: skip
        (found,) = answer.topics[0].partitions
        assert (found.error_code, found.leader_epoch, found.end_offset) == (code("none"), 0, 2)
