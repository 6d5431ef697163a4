"""Rows a second through the formats, and the time of a pull query; no broker, no Spark.

python -m benchmarks.formats_speed
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from typing import Any, Final

import fastavro
import orjson
import pyarrow as pa

from ottla.client.schema_registry import RegisteredSchema
from ottla.rows import types as t
from ottla.rows.formats import Decoder, Encoder
from ottla.rows.schema import Column, FormatInfo, Layout, LogicalSchema, Role
from ottla.schemas.schema_types import ParsedSchema
from ottla.schemas.schema_types import parse as parse_schema
from ottla.spark.table_rows import TableRowReader
from ottla.spark.table_store import ANY, Bounds, RowUpdate, UnwindowedRows
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import Select
from ottla.sql.table_pull import table_pull

ROWS: Final = 100_000
ROUNDS: Final = 5
QUESTIONS: Final = 5_000

COLUMNS: Final = (
    Column("K", t.STRING, Role.KEY),
    Column("ID", t.BIGINT),
    Column("NAME", t.STRING),
    Column("PRICE", t.DOUBLE),
    Column("ACTIVE", t.BOOLEAN),
    Column("COMMENT", t.STRING),
)


def layout_of(name: str) -> Layout:
    value = FormatInfo(name, properties={"SUBJECT": "t-value"})
    return Layout(LogicalSchema(COLUMNS), FormatInfo("KAFKA"), value, is_table=True)


def json_value(number: int) -> bytes:
    """About 120 bytes."""
    return orjson.dumps(
        {
            "id": number,
            "name": f"name {number % 1000}",
            "price": number % 10_000 / 100,
            "active": number % 2 == 0,
            "comment": f"some longer text that is here for size, {number}",
        }
    )


class HeldSchemas:
    """A registry of one schema."""

    text = ""

    def register(self, subject: str, kind: str, text: str) -> RegisteredSchema:
        self.kind, self.text = kind, text
        return self.by_id(1)

    def by_id(self, id: int) -> RegisteredSchema:
        return RegisteredSchema(id, self.kind, self.text)

    def parsed(self, schema: RegisteredSchema) -> ParsedSchema:
        return parse_schema(schema.kind, schema.text, {})


class Held:
    """A table's rows without a topic behind them."""

    def __init__(self, layout: Layout, changes: list[RowUpdate]) -> None:
        self._reader = TableRowReader(layout)
        self._store = UnwindowedRows()
        self._store.apply(changes, 0)

    def get(self, keys: Any, bounds: Bounds = ANY) -> list[dict[str, Any]]:
        wanted = [self._reader.hashed(key) for key in keys]
        return self._reader.decoded(self._store.get(wanted, bounds))

    def range(self, wanted: Any, bounds: Bounds = ANY) -> list[dict[str, Any]]:
        found = self._store.scan(lambda key: bool(wanted((key,))), bounds)
        return self._reader.decoded(found)

    def scan(self, bounds: Bounds = ANY) -> list[dict[str, Any]]:
        return self._reader.decoded(self._store.scan(None, bounds))


def best(work: Callable[[], object]) -> float:
    """CPU time, so that other processes on the machine do not count."""
    seconds = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def formats() -> None:
    numbers = pa.array(range(ROWS), pa.int64())
    keys = pa.array([str(number).encode() for number in range(ROWS)], pa.binary())
    partitions = pa.array([0] * ROWS, pa.int32())
    values = pa.array([json_value(number) for number in range(ROWS)], pa.binary())
    rows, _ = Decoder(layout_of("JSON")).decode(keys, values, numbers, partitions, numbers)
    for name in ("JSON", "DELIMITED", "AVRO", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR"):
        schemas: Any = HeldSchemas()
        encoder, decoder = Encoder(layout_of(name), schemas), Decoder(layout_of(name), schemas)
        written = encoder.encode(rows)[1]
        given = values if name == "JSON" else written

        def read(decoder: Decoder = decoder, given: pa.Array = given) -> object:
            return decoder.decode(keys, given, numbers, partitions, numbers)

        print(f"{name:13} read  {ROWS / best(read):12,.0f} rows/s")
        print(f"{name:13} write {ROWS / best(lambda e=encoder: e.encode(rows)):12,.0f} rows/s")
        if name == "AVRO":
            fastavro_beside(given, schemas)


def fastavro_beside(values: pa.Array, schemas: HeldSchemas) -> None:
    """The same payloads by fastavro, row by row, with its dicts turned into Arrow columns."""
    schema = fastavro.parse_schema(json.loads(schemas.text))

    def read() -> object:
        rows = [
            fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)
            for value in values.to_pylist()
        ]
        names = [column.name for column in COLUMNS[1:]]
        return [pa.array([row[name] for row in rows]) for name in names]

    print(f"{'fastavro':13} read  {ROWS / best(read):12,.0f} rows/s")


def questions() -> None:
    changes = [RowUpdate(f"key-{n}", json_value(n), n, n) for n in range(ROWS)]
    table = Held(layout_of("JSON"), changes)
    for what, text in (
        ("one key", "SELECT * FROM T WHERE K = 'key-{}';"),
        ("one key, computed", "SELECT NAME, PRICE * 2 FROM T WHERE K = 'key-{}' AND PRICE >= 0;"),
    ):
        seconds = []
        for number in range(QUESTIONS):
            asked = text.format(number * 7 % ROWS)
            begin = time.perf_counter()
            (statement,) = parse(asked)
            assert isinstance(statement, Select)
            pull = table_pull(statement.query, layout_of("JSON"))
            assert pull is not None
            assert len(pull.rows(table)) == 1
            seconds.append(time.perf_counter() - begin)
        seconds.sort()
        middle, last = seconds[len(seconds) // 2], seconds[len(seconds) * 99 // 100]
        print(f"{what:18} p50 {middle * 1000:6.2f} ms  p99 {last * 1000:6.2f} ms  of {ROWS:,} rows")


if __name__ == "__main__":
    formats()
    questions()
