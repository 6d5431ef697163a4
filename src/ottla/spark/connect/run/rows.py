"""Records for topics as Arrow rows, the way Spark's query has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from ottla.spark.connect.run.orders import Report, Rows
from ottla.spark.connect.tolerance import Headers, ProducedRow

COLUMNS: Final = (
    "topic string, partition int, key binary, value binary, timestamp bigint,"
    " headers array<struct<key:string,value:binary>>"
)
SCHEMA_TEXT: Final = COLUMNS + ", report string"
"""A report is a row without a topic: the driver takes it out before anything is written."""

SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("report", pa.string()),
    ]
)


def packed(rows: Sequence[ProducedRow]) -> Rows:
    topics, partitions, keys, values, times, headers = zip(*rows, strict=True)
    count = len(rows)
    arrays = [
        pa.array(topics, SCHEMA.field("topic").type),
        pa.array(partitions, SCHEMA.field("partition").type),
        pa.array(keys, SCHEMA.field("key").type),
        pa.array(values, SCHEMA.field("value").type),
        pa.array(times, SCHEMA.field("timestamp").type),
        _headers(headers),
        pa.nulls(count, pa.string()),
    ]
    return Rows(_bytes(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)))


def unpacked(rows: Rows) -> Any:
    with pa.ipc.open_stream(rows.data) as stream:
        return stream.read_next_batch()


def report_row(report: Report) -> Any:
    row = dict.fromkeys(SCHEMA.names) | {"report": report.to_json()}
    return pa.RecordBatch.from_pylist([row], schema=SCHEMA)


def _headers(headers: Sequence[Headers]) -> Any:
    kind = SCHEMA.field("headers").type
    if not any(headers):
        return pa.nulls(len(headers), kind)
    named = [[{"key": key, "value": value} for key, value in each] or None for each in headers]
    return pa.array(named, kind)


def _bytes(batch: Any) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    made: bytes = out.getvalue().to_pybytes()
    return made
