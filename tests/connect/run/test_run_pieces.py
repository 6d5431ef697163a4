"""Parts of connect.run that need no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.client.protocol.range_fetcher import OffsetRange
from ottla.client.record import TopicPartition
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.run.connector_offsets import (
    InvalidOffsetsError,
    check_not_empty,
    parse_sink_entry,
    parse_source_entry,
)
from ottla.connect.run.connector_query import spark_retries_tasks, write_options
from ottla.connect.run.connector_runner import progress_in_records
from ottla.connect.run.datasource import failure_in, failure_text, ranges_by_task
from ottla.connect.run.read_options import spark_options, topics_pattern
from ottla.connect.run.row_packer import RowPacker, cell_batch, pack_rows, report_batch, unpack_rows
from ottla.connect.run.source_offsets import FileOffsetBackingStore, canonical, key_of
from ottla.connect.run.task_requests import ConnectorJob, TaskFailure, TaskReport, query_name_of
from ottla.connect.run.topic_creation import topic_creation_groups
from ottla.connect.run.worker_context import WorkerContext
from ottla.connect.transformation_chain import ProducedRow


def job(source: bool = True, exactly_once: bool = True, **config: str) -> ConnectorJob:
    worker = WorkerContext({"bootstrap.servers": "b:1", "group.id": "g"})
    named = {name.replace("_", "."): value for name, value in config.items()}
    return ConnectorJob(
        "c", "r", source, "m:C", named, worker, [(0, {}), (2, {"a": "b"})], exactly_once, 7
    )


def test_a_job_and_a_report_survive_json() -> None:
    assert ConnectorJob.from_json(job(topics="a").to_json()) == job(topics="a")
    place = {TopicPartition("t", 1): 5}
    report = TaskReport(3, ("t", "u"), 12, place, {'{"a":1}': '{"b":2}'})
    assert TaskReport.from_json(report.to_json()) == report


def test_partitions_are_shared_among_tasks_also_without_news() -> None:
    parts = [TopicPartition("t", number) for number in range(3)]
    start = {parts[0]: 1, parts[1]: 5}
    end = {parts[0]: 4, parts[1]: 5, parts[2]: 9}
    assert ranges_by_task(start, end, 2) == [
        [OffsetRange("t", 0, 1, 4), OffsetRange("t", 2, 9, 9)],
        [OffsetRange("t", 1, 5, 5)],
    ]
    assert ranges_by_task(start, end, 4)[3] == []


def test_a_task_failure_is_found_in_sparks_error() -> None:
    failure = TaskFailure(2, 'Traceback\n  File "x"\nConnectException: no "way"')
    text = f"[STREAM_FAILED] Query terminated: {failure_text(failure)}\n\tat java.lang.Thread"
    assert failure_in(text) == failure
    assert failure_in("Py4JNetworkError") is None


def test_rows_travel_with_headers_nulls_and_reports() -> None:
    rows = [
        ProducedRow("t", None, b"k", None, 5, (("h", b"v"), ("h", None))),
        ProducedRow("u", 3, None, b"v", None),
    ]
    batch = unpack_rows(pack_rows(rows))
    assert batch.column("partition").to_pylist() == [None, 3]
    assert batch.column("headers").to_pylist() == [
        [{"key": "h", "value": b"v"}, {"key": "h", "value": None}],
        None,
    ]
    assert cell_batch(pack_rows(rows)).schema == report_batch(TaskReport(1)).schema
    assert report_batch(TaskReport(1)).column("rows").to_pylist() == [None]


def test_cells_are_cut_by_rows_and_by_bytes() -> None:
    sent: list[list[bytes]] = []
    packing = RowPacker(lambda rows: sent.append(unpack_rows(rows).column("value").to_pylist()))
    small = [ProducedRow("t", None, None, b"%d" % number, None) for number in range(25_000)]
    packing.add(small[:9_999])
    assert sent == []
    packing.add(small[9_999:])
    packing.finish()
    assert list(map(len, sent)) == [10_000, 10_000, 5_000]
    assert [row for cell in sent for row in cell] == [row.value for row in small]
    sent.clear()
    large = ProducedRow("t", None, None, bytes(3 << 20), None)
    packing.add([large, small[0], large, ProducedRow("t", None, b"k", None, None), large])
    packing.finish()
    packing.finish()
    assert list(map(len, sent)) == [3, 2]


def test_progress_is_in_records() -> None:
    reports = [TaskReport(0, records=5), TaskReport(1, records=7), TaskReport(0, records=3)]
    seen = progress_in_records(
        {"rows": 3, "rows_per_second": 1.0, "batch_ms": 200, "lag": 4}, reports
    )
    assert seen == {"rows": 10, "rows_per_second": 50.0, "batch_ms": 200, "lag": 4}
    assert progress_in_records({}, reports) == {}


def test_topics_are_created_by_the_first_matching_group() -> None:
    assert topic_creation_groups({}) == []
    groups = topic_creation_groups(
        {
            "topic.creation.groups": "small, compacted",
            "topic.creation.default.replication.factor": "3",
            "topic.creation.default.partitions": "5",
            "topic.creation.small.include": "s-.*,x",
            "topic.creation.small.exclude": "s-large",
            "topic.creation.small.partitions": "1",
            "topic.creation.compacted.include": ".*-table",
            "topic.creation.compacted.cleanup.policy": "compact",
        }
    )
    assert [group.name for group in groups] == ["small", "compacted", "default"]

    def made(topic: str) -> tuple[str, int, int]:
        group = next(group for group in groups if group.matches(topic))
        return group.name, group.partitions, group.replicas

    assert made("s-1") == ("small", 1, 3)
    assert made("s-large") == ("default", 5, 3)
    assert made("a-table") == ("compacted", 5, 3)
    assert dict(groups[1].configs) == {"cleanup.policy": "compact"}
    with pytest.raises(ConfigException, match=r"default\.partitions"):
        topic_creation_groups({"topic.creation.default.replication.factor": "1"})


def test_offsets_are_stored_by_canonical_partition(tmp_path: Path) -> None:
    assert key_of("c", {"b": 1, "a": "x"}) == b'["c",{"a":"x","b":1}]'
    file = FileOffsetBackingStore(tmp_path / "offsets")
    file.update("c", {canonical({"b": 1, "a": 2}): {"at": 5}, canonical({"z": 1}): {"at": 1}})
    file.update("d", {canonical({"z": 1}): {"at": 9}})
    file.update("c", {canonical({"z": 1}): None})
    assert file.of("c") == {canonical({"a": 2, "b": 1}): {"at": 5}}
    assert file.of("d") == {canonical({"z": 1}): {"at": 9}}
    (tmp_path / "java").write_bytes(b"\xac\xed\x00\x05 a map of Java's")
    with pytest.raises(ConnectException, match="name another one"):
        FileOffsetBackingStore(tmp_path / "java").of("c")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "cannot be null or missing"),
        ({"partition": {"kafka_topic": "t"}}, "must contain the keys 'kafka_topic' and"),
        ({"partition": {"kafka_topic": None, "kafka_partition": 1}}, "topic names must be valid"),
        ({"partition": {"kafka_topic": "t", "kafka_partition": None}}, "partitions must be valid"),
        ({"partition": {"kafka_topic": "t", "kafka_partition": "x"}}, "partition value in the"),
        (
            {"partition": {"kafka_topic": "t", "kafka_partition": 1}, "offset": {"at": 1}},
            "should either be null or contain the key 'kafka_offset'",
        ),
        (
            {
                "partition": {"kafka_topic": "t", "kafka_partition": 1},
                "offset": {"kafka_offset": "y"},
            },
            "offset value in the provided offsets: 'y'",
        ),
    ],
)
def test_offsets_of_a_sink_that_make_no_sense(entry: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidOffsetsError, match=words):
        parse_sink_entry(entry)


def test_offsets_that_make_sense() -> None:
    where = {"kafka_topic": "t", "kafka_partition": "1"}
    assert parse_sink_entry({"partition": where, "offset": {"kafka_offset": "7"}}) == (("t", 1), 7)
    assert parse_sink_entry({"partition": where, "offset": None}) == (("t", 1), None)
    assert parse_source_entry({"partition": {"a": 1}, "offset": None}) == ({"a": 1}, None)
    with pytest.raises(InvalidOffsetsError, match="source connector offset cannot be null"):
        parse_source_entry({"offset": {}})
    with pytest.raises(InvalidOffsetsError, match="need to be provided"):
        check_not_empty([])


def test_the_options_of_a_connectors_query() -> None:
    once = write_options(job(producer_override_compression_type="zstd"))
    assert once["ottla.query.id"] == "connect-g-c"
    assert (once["ottla.run.id"], once["ottla.batch.id"]) == ("r", "7")
    assert once["kafka.compression.type"] == "zstd"
    plainly = write_options(job(exactly_once=False, offsets_storage_topic="mine"))
    assert plainly["ottla.delivery"] == "at_least_once"
    assert plainly["ottla.topic.last"] == "mine"
    read = spark_options(job(source=False, topics="a.b, c", consumer_override_group_id="x"))
    assert read["subscribePattern"] == r"a\.b|c"
    assert "kafka.group.id" not in read
    assert job(source=False, consumer_override_group_id="x").group == "x"
    assert topics_pattern({"topics.regex": "a.*"}) == "a.*"
    with pytest.raises(ConfigException, match=r"topics or topics\.regex"):
        topics_pattern({})


def test_ids_of_connectors_with_odd_names_differ() -> None:
    worker = WorkerContext({"group.id": "g"})
    names = ["a", "a b", "a/b", "ä", "x" * 80, "x" * 81]
    ids = {query_name_of(name, worker) for name in names}
    assert len(ids) == len(names)
    assert all(len(worker_id) <= 100 and worker_id.isascii() for worker_id in ids)


def test_only_a_plain_local_master_never_retries_tasks() -> None:
    assert not any(map(spark_retries_tasks, ("local", "local[*]", "local[4]")))
    assert all(
        map(spark_retries_tasks, ("local[2,4]", "local-cluster[1,1,512]", "spark://x:1", ""))
    )
