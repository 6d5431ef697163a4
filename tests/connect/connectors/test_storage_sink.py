"""Files of Parquet, JSON and CSV, read back by pyarrow."""

from __future__ import annotations

import datetime
import gzip
import json
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from drives import ErrantRecords, Sink, sink_record

from ottla.connect.connectors.storage import stores, topic_partition_writer
from ottla.connect.connectors.storage.sink import StorageSinkConnector
from ottla.connect.data import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Schema,
    SinkRecord,
    Struct,
    Type,
    array_schema,
    date_schema,
    decimal_schema,
    map_schema,
    struct_schema,
    time_schema,
    timestamp_schema,
)
from ottla.connect.errors import ConfigException, ConnectException, RetriableException

ORDER = struct_schema({"id": INT64_SCHEMA, "item": OPTIONAL_STRING_SCHEMA})
UTC = datetime.UTC


def sink(folder: Path, **config: str) -> Sink:
    named = {name.replace("_", "."): value for name, value in config.items()}
    props = {"store.url": str(folder), "format.class": "parquet", "flush.size": "3", **named}
    return Sink(StorageSinkConnector(), props)


def order(offset: int, item: str | None = "x", **more: Any) -> SinkRecord:
    return sink_record(ORDER, {"id": offset, "item": item}, offset, **more)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_files_are_named_by_offsets_and_only_whole_ones_are_committed(tmp_path: Path) -> None:
    with sink(tmp_path) as writer:
        writer.put(*(order(n) for n in range(5, 12)))
        assert writer.commit() == {("orders", 0): 11}
    assert files(tmp_path) == [
        "topics/orders/partition=0/orders+0+0000000005.snappy.parquet",
        "topics/orders/partition=0/orders+0+0000000008.snappy.parquet",
    ]
    with sink(tmp_path) as writer:  # the pending records are read again
        writer.put(order(11), order(12))
        writer.put(order(13))
        assert writer.commit() == {("orders", 0): 14}
    table = pyarrow.dataset.dataset(tmp_path / "topics/orders", partitioning="hive").to_table()
    assert sorted(table["id"].to_pylist()) == list(range(5, 14))


def test_a_restarted_task_writes_the_same_files(tmp_path: Path) -> None:
    """The offsets were not committed: the same records, cut in other batches."""
    records = [order(n, topic="t", partition=n % 2) for n in range(40)]
    for step in (40, 7, 1):
        with sink(tmp_path, flush_size="4", format_class="json") as writer:
            for first in range(0, 40, step):
                writer.put(*records[first : first + step])
        found = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
        if step == 40:
            wanted = found
        assert found == wanted
    assert len(wanted) == 10
    ids = [json.loads(line)["id"] for text in wanted.values() for line in text.splitlines()]
    assert sorted(ids) == list(range(40))


class Unlucky(stores.FileStore):
    """A store whose every second write fails."""

    writes = 0

    def write(self, path: str, content: Any) -> None:
        Unlucky.writes += 1
        if Unlucky.writes % 2:
            raise RetriableException("not now")
        super().write(path, content)


def test_a_repeated_put_adds_no_duplicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "FileStore", Unlucky)
    with sink(tmp_path, format_class="json") as writer:
        for first in range(0, 12, 4):
            records = [order(n) for n in range(first, first + 4)]
            for _ in range(50):
                try:
                    writer.put(*records)
                    break
                except RetriableException:
                    continue
        assert writer.commit() == {("orders", 0): 12}
    lines = [line for name in files(tmp_path) for line in (tmp_path / name).read_text().split()]
    assert [json.loads(line)["id"] for line in lines] == list(range(12))


EVERYTHING: dict[str, tuple[Schema, Any, pa.DataType]] = {
    "i8": (INT8_SCHEMA, -1, pa.int8()),
    "i64": (INT64_SCHEMA, 1 << 60, pa.int64()),
    "f32": (FLOAT32_SCHEMA, 0.5, pa.float32()),
    "f64": (FLOAT64_SCHEMA, 0.1, pa.float64()),
    "bool": (BOOLEAN_SCHEMA, True, pa.bool_()),
    "text": (OPTIONAL_STRING_SCHEMA, None, pa.string()),
    "bytes": (BYTES_SCHEMA, b"\x00\xff", pa.binary()),
    "dec": (decimal_schema(2), Decimal("12345678.90"), pa.decimal128(38, 2)),
    "date": (date_schema(), datetime.date(2024, 2, 29), pa.date32()),
    "time": (time_schema(), datetime.time(1, 2, 3, 4000), pa.time32("ms")),
    "at": (
        timestamp_schema(),
        datetime.datetime(2024, 1, 1, 0, 0, 0, 5000, UTC),
        pa.timestamp("ms", "UTC"),
    ),
    "list": (array_schema(INT32_SCHEMA), [1, 2], pa.list_(pa.field("element", pa.int32(), False))),
    "map": (
        map_schema(STRING_SCHEMA, INT32_SCHEMA),
        {"a": 1},
        pa.map_(pa.string(), pa.field("value", pa.int32(), False)),
    ),
    "inner": (ORDER, {"id": 1, "item": "y"}, None),
    "given": (Schema(Type.INT32, default=7), None, pa.int32()),
}


def test_every_type_in_parquet(tmp_path: Path) -> None:
    schema = struct_schema({name: item for name, (item, _, _) in EVERYTHING.items()})
    values = {name: value for name, (_, value, _) in EVERYTHING.items()}
    struct = Struct.of(schema, [*values.values()])
    struct.values_in_order[list(values).index("inner")] = Struct(ORDER, values["inner"])
    with sink(tmp_path, flush_size="1", parquet_codec="zstd") as writer:
        writer.put(SinkRecord("all", 0, None, None, schema, struct, 0))
    (name,) = files(tmp_path)
    assert name.endswith(".zstd.parquet")
    table = pq.ParquetFile(tmp_path / name).read()
    (row,) = table.to_pylist(maps_as_pydicts="strict")
    assert row == {**values, "given": 7}
    for column, (_, _, kind) in EVERYTHING.items():
        assert kind is None or table.schema.field(column).type.equals(kind), column
    assert not table.schema.field("i8").nullable
    assert table.schema.field("text").nullable


def test_json_and_csv_also_packed(tmp_path: Path) -> None:
    schema = struct_schema({"id": INT64_SCHEMA, "price": decimal_schema(2), "note": STRING_SCHEMA})
    value = {"id": 1, "price": Decimal("1.50"), "note": 'a,"b"\nc'}
    for kind in ("json", "csv"):
        for packing in ("none", "gzip"):
            folder = tmp_path / kind / packing
            config = {"format_class": kind, "compression_type": packing, "flush_size": "1"}
            with sink(folder, json_decimal_format="NUMERIC", **config) as writer:
                writer.put(sink_record(schema, value))
            (name,) = files(folder)
            content = (folder / name).read_bytes()
            if packing == "gzip":
                assert name.endswith(f"+0000000000.{kind}.gz")
                content = gzip.decompress(content)
            if kind == "json":
                assert json.loads(content) == {"id": 1, "price": 1.5, "note": 'a,"b"\nc'}
                assert content.endswith(b"}\n")
            else:
                parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
                table = pyarrow.csv.read_csv(pa.BufferReader(content), parse_options=parse)
                assert table.to_pylist() == [{"id": 1, "price": 1.5, "note": 'a,"b"\nc'}]


def test_values_without_a_schema(tmp_path: Path) -> None:
    with sink(tmp_path / "a") as writer:
        writer.put(
            sink_record(None, {"a": 1}, 0),
            sink_record(None, {"b": [1.5], "c": {"d": "x"}}, 1),
            sink_record(None, {"a": None}, 2),
        )
    (name,) = files(tmp_path / "a")
    assert pq.ParquetFile(tmp_path / "a" / name).read().to_pylist() == [
        {"a": 1, "b": None, "c": None},
        {"a": None, "b": [1.5], "c": {"d": "x"}},
        {"a": None, "b": None, "c": None},
    ]
    with sink(tmp_path / "b") as writer:
        writer.put(*(sink_record(STRING_SCHEMA, text, n) for n, text in enumerate("xyz")))
    (name,) = files(tmp_path / "b")
    assert pq.ParquetFile(tmp_path / "b" / name).read().to_pydict() == {"value": ["x", "y", "z"]}
    with sink(tmp_path / "c", flush_size="2") as writer:
        writer.put(sink_record(None, {"a": 1}, 0))
        with pytest.raises(ConnectException, match="do not fit into columns"):
            writer.put(sink_record(None, {"a": {"no": "number"}}, 1))


def test_another_schema_begins_another_file(tmp_path: Path) -> None:
    wider = struct_schema({"id": INT64_SCHEMA, "more": INT32_SCHEMA})
    with sink(tmp_path, flush_size="100") as writer:
        writer.put(order(0), order(1), sink_record(wider, {"id": 2, "more": 3}, 2), order(3))
        assert writer.commit() == {("orders", 0): 3}
    assert [name[-24:] for name in files(tmp_path)] == [
        "0000000000.snappy.parquet"[-24:],
        "0000000002.snappy.parquet"[-24:],
    ]


def test_folders_by_fields_and_by_time(tmp_path: Path) -> None:
    with sink(tmp_path / "f", partitioner_class="field", partition_field_name="item,id") as writer:
        writer.put(order(1, "a/b"), order(2, None), order(3, ".."))
    assert [name.rpartition("/")[0] for name in files(tmp_path / "f")] == [
        "topics/orders/item=%2E%2E/id=3",
        "topics/orders/item=a%2Fb/id=1",
        "topics/orders/item=null/id=2",
    ]
    config = {
        "partitioner_class": "io.confluent.connect.storage.partitioner.HourlyPartitioner",
        "timestamp_extractor": "Record",
        "timezone": "Europe/Berlin",
    }
    times = [1704063540000, 1704063660000, 1704063599999]  # 22:59, 23:01, 22:59:59.999 UTC
    with sink(tmp_path / "h", **config) as writer:
        writer.put(*(order(n, timestamp=moment) for n, moment in enumerate(times)))
    assert files(tmp_path / "h") == [
        "topics/orders/year=2023/month=12/day=31/hour=23/orders+0+0000000000.snappy.parquet",
        "topics/orders/year=2024/month=01/day=01/hour=00/orders+0+0000000001.snappy.parquet",
    ]
    config = {
        "partitioner_class": "timebased",
        "partition_duration_ms": "600000",
        "path_format": "'at'=YYYY-MM-dd/HHmm",
        "timestamp_extractor": "RecordField",
        "timestamp_field": "item",
        "topics_dir": "by/time",
    }
    with sink(tmp_path / "t", **config) as writer:
        texts = ["2024-01-01T10:09:59Z", "2024-01-01 10:10:00", "2024-01-01T12:19:59+02:00"]
        writer.put(*(order(n, text) for n, text in enumerate(texts)))
    assert [name.rpartition("/")[0] for name in files(tmp_path / "t")] == [
        "by/time/orders/at=2024-01-01/1000",
        "by/time/orders/at=2024-01-01/1010",
    ]


def test_files_are_closed_by_the_time_of_records(tmp_path: Path) -> None:
    config = {"flush_size": "100", "timestamp_extractor": "Record", "rotate_interval_ms": "1000"}
    with sink(tmp_path, **config) as writer:
        times = [0, 999, 1000, 500, 1999, 2000]
        writer.put(*(order(n, timestamp=moment) for n, moment in enumerate(times)))
        assert writer.commit() == {("orders", 0): 5}
        writer.put()
        assert writer.commit() == {("orders", 0): 5}, "without a later record the file stays open"
    assert len(files(tmp_path)) == 2


def test_files_are_closed_by_the_clock_without_records(tmp_path: Path) -> None:
    for name in ("rotate_interval_ms", "rotate_schedule_interval_ms"):
        folder = tmp_path / name
        with sink(folder, flush_size="100", **{name: "50"}) as writer:
            writer.put(order(0))
            deadline = time.monotonic() + 240
            while writer.commit() != {("orders", 0): 1}:
                assert time.monotonic() < deadline
                time.sleep(0.01)
                writer.put()
        assert len(files(folder)) == 1
    berlin_ms = 3_600_000
    assert (
        topic_partition_writer.next_rotation_ms(0, 86_400_000, lambda now: berlin_ms) == 82_800_000
    )


def test_tombstones_and_bad_records(tmp_path: Path) -> None:
    with (
        sink(tmp_path / "fail") as writer,
        pytest.raises(ConnectException, match="has no value"),
    ):
        writer.put(sink_record(None, None))
    with sink(tmp_path / "ignore", behavior_on_null_values="ignore") as writer:
        writer.put(sink_record(None, None, 0), order(1), sink_record(None, None, 2))
        assert writer.commit() == {("orders", 0): 1}
        writer.put(order(3), order(4), sink_record(None, None, 5))
        assert writer.commit() == {("orders", 0): 6}
    config = {"partitioner_class": "field", "partition_field_name": "colour"}
    with sink(tmp_path / "report", **config) as writer:
        with pytest.raises(ConnectException, match="no field colour"):
            writer.put(order(0))
        writer.context.errant_record_reporter = reported = ErrantRecords()
        writer.put(order(0))
        assert len(reported.records) == 1


def test_csv_has_no_place_for_nested_fields(tmp_path: Path) -> None:
    schema = struct_schema({"a": array_schema(INT32_SCHEMA)})
    with (
        sink(tmp_path, format_class="csv", flush_size="1") as writer,
        pytest.raises(ConnectException, match="Flatten"),
    ):
        writer.put(sink_record(schema, {"a": [1]}))


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"store.url": ""}, "set store.url"),
        ({"store.url": "relative/path"}, "must begin with /"),
        ({"store.url": "ftp://x/y"}, "store.url"),
        ({"format.class": "io.confluent.connect.s3.format.avro.AvroFormat"}, "parquet, json, csv"),
        ({"flush.size": "0"}, "at least 1"),
        ({"partitioner.class": "field"}, "needs partition.field.name"),
        (
            {"partitioner.class": "timebased", "path.format": "YYYY"},
            "needs a time span above 0",
        ),
        ({"schema.compatibility": "BACKWARD"}, "NONE"),
    ],
)
def test_storage_configs_that_can_not_work_are_refused(config: dict[str, str], text: str) -> None:
    props = {"store.url": "/tmp/x", "format.class": "parquet", "flush.size": "3", **config}
    with pytest.raises(ConfigException, match=text):
        StorageSinkConnector().start(props)
