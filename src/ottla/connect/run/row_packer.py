"""Records on their way through Spark's query: many are packed into one opaque cell.

A record as a Spark row would be serialised and deserialised twice, between Python and the JVM; a
cell is only copied. The sink unpacks it (`ottla.packed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from ottla.connect.run.task_requests import PackedRows, TaskReport
from ottla.connect.transformation_chain import Headers, ProducedRow

SCHEMA_TEXT: Final = "rows binary, report string"
"""A report is a row without packed records: the query filters it out before writing."""
SCHEMA: Final = pa.schema([("rows", pa.binary()), ("report", pa.string())])
CELL_ROWS_MAX: Final = 10_000
CELL_BYTES_MAX: Final = 4 << 20

INNER: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


class RowPacker:
    """Packs rows as they come into cells of bounded size."""

    def __init__(self, send: Callable[[PackedRows], None]) -> None:
        self._send = send
        self._rows: list[ProducedRow] = []
        self._size = 0

    def add(self, rows: Sequence[ProducedRow]) -> None:
        size = sum([len(row.value) for row in rows if row.value is not None])
        if self._size + size <= CELL_BYTES_MAX and len(self._rows) + len(rows) <= CELL_ROWS_MAX:
            self._rows += rows
            self._size += size
            return
        for row in rows:
            self._rows.append(row)
            self._size += len(row.value or b"")
            if self._size > CELL_BYTES_MAX or len(self._rows) >= CELL_ROWS_MAX:
                self.finish()

    def finish(self) -> None:
        if self._rows:
            self._send(pack_rows(self._rows))
            self._rows, self._size = [], 0


def pack_rows(rows: Sequence[ProducedRow]) -> PackedRows:
    topics, partitions, keys, values, times, headers = zip(*rows, strict=True)
    arrays = [
        pa.array(topics, INNER.field("topic").type),
        pa.array(partitions, INNER.field("partition").type),
        pa.array(keys, INNER.field("key").type),
        pa.array(values, INNER.field("value").type),
        pa.array(times, INNER.field("timestamp").type),
        _headers(headers),
    ]
    return PackedRows(_bytes(pa.RecordBatch.from_arrays(arrays, schema=INNER)))


def unpack_rows(rows: PackedRows) -> Any:
    with pa.ipc.open_stream(rows.data) as stream:
        return stream.read_next_batch()


def cell_batch(rows: PackedRows) -> Any:
    """The packed rows as a record batch of Spark's schema."""
    return pa.RecordBatch.from_pydict({"rows": [rows.data], "report": [None]}, schema=SCHEMA)


def report_batch(report: TaskReport) -> Any:
    return pa.RecordBatch.from_pydict({"rows": [None], "report": [report.to_json()]}, schema=SCHEMA)


def _headers(headers: Sequence[Headers]) -> Any:
    kind = INNER.field("headers").type
    if not any(headers):
        return pa.nulls(len(headers), kind)
    named = [[{"key": key, "value": value} for key, value in pairs] or None for pairs in headers]
    return pa.array(named, kind)


def _bytes(batch: Any) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    made: bytes = out.getvalue().to_pybytes()
    return made
