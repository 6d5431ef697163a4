"""Records for topics as Spark's query has them: many in a cell, which Spark does not look into.

A record as a row of Spark's would be taken apart and put together again twice, between Python and
the JVM; a cell is only copied. The sink unpacks it (`ottla.packed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from ottla.connect.run.orders import Report, Rows
from ottla.connect.tolerance import Headers, ProducedRow

SCHEMA_TEXT: Final = "rows binary, report string"
"""A report is a row without a cell: the driver takes it out before anything is written."""
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


class Packing:
    """Rows as they come, into cells that are large and not too large."""

    def __init__(self, send: Callable[[Rows], None]) -> None:
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
            self._send(packed(self._rows))
            self._rows, self._size = [], 0


def packed(rows: Sequence[ProducedRow]) -> Rows:
    topics, partitions, keys, values, times, headers = zip(*rows, strict=True)
    arrays = [
        pa.array(topics, INNER.field("topic").type),
        pa.array(partitions, INNER.field("partition").type),
        pa.array(keys, INNER.field("key").type),
        pa.array(values, INNER.field("value").type),
        pa.array(times, INNER.field("timestamp").type),
        _headers(headers),
    ]
    return Rows(_bytes(pa.RecordBatch.from_arrays(arrays, schema=INNER)))


def unpacked(rows: Rows) -> Any:
    with pa.ipc.open_stream(rows.data) as stream:
        return stream.read_next_batch()


def cell(rows: Rows) -> Any:
    """As Spark has it."""
    return pa.RecordBatch.from_pydict({"rows": [rows.data], "report": [None]}, schema=SCHEMA)


def report_row(report: Report) -> Any:
    return pa.RecordBatch.from_pydict({"rows": [None], "report": [report.to_json()]}, schema=SCHEMA)


def _headers(headers: Sequence[Headers]) -> Any:
    kind = INNER.field("headers").type
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
