"""Turns rows of a DataFrame into records, as columns, and checks the rows' columns.

Raw rows have the columns of Spark's Kafka sink: `value`, optionally `key`, `topic`, `partition` and
`headers`, and additionally `timestamp`. With `ottla.layout` rows are typed and a format encodes
them; with `ottla.packed` a cell has many raw rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.binary_columns import Numbers, binary_column, milliseconds
from ottla.rows.formats import Encoder
from ottla.rows.formats.registry_format import registry_of
from ottla.rows.schema import Layout, WindowKind
from ottla.spark.sink.encode import RecordColumns
from ottla.spark.sink.headers import encode_headers
from ottla.spark.sink.options import SinkError, SinkOutput, WriteOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TEXT: Final = ("string", "binary")
TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": TEXT,
    "value": TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp", "timestamp_ntz", "bigint"),
}
WINDOW_START_BYTES: Final = 8
WINDOW_BOUNDS_BYTES: Final = 16


@dataclass(slots=True)
class TopicRecords:
    """Records of one topic; `partitions` if rows have the column (-1 where it is null)."""

    topic: str
    columns: RecordColumns
    partitions: Numbers | None = None
    hashed: Any = None
    """The part of the keys that is hashed for the partition, if not all of it."""


Read = Callable[[Any], Iterator[TopicRecords]]


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Raises SinkError for rows that this sink can't write, before the query runs."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if options.outputs:
        for output in options.outputs:
            if not types.get(output.column, "").startswith("struct<"):
                raise SinkError(
                    f"ottla.layouts names column '{output.column}', which is not a struct column"
                    f" of the rows: they have {_listed(types)}"
                )
        return
    if options.layout:
        _check_layout(types, options.layout)
        return
    if options.packed:
        if types.get("rows") != "binary":
            raise SinkError(f"ottla.packed needs a binary column rows, not {_listed(types)}")
        return
    if "value" not in types:
        raise SinkError(
            f"Required attribute 'value' not found. The rows have {_listed(types)}: name one of"
            " them value, or make one, for instance with to_json(struct('*')).alias('value')"
        )
    if "topic" not in types and not options.topic:
        raise SinkError(
            "topic option required when no 'topic' attribute is present. Use the topic option for"
            " setting a topic"
        )
    for name, allowed in TYPES.items():
        if name in types and types[name] not in allowed:
            raise SinkError(
                f"{name} attribute type must be {' or '.join(allowed)}, but is {types[name]}: cast"
                " the column"
            )


def reader(options: WriteOptions) -> Read:
    """The function that turns Arrow batches of rows into records."""
    if options.outputs:
        return _fan_out(options.outputs, options.registry)
    if options.layout:
        read = _typed(Layout.from_json(options.layout), options.topic, options.registry)
        return lambda batch: iter((read(batch),))
    if options.packed:
        return lambda batch: _packed(batch, options.topic)
    return lambda batch: _raw(batch, options.topic)


def _check_layout(types: Mapping[str, str], text: str) -> None:
    schema = Layout.from_json(text).schema
    missing = [column.name for column in (*schema.key, *schema.value) if column.name not in types]
    if missing:
        lacking = ", ".join(missing)
        raise SinkError(f"ottla.layout has {lacking}, the rows have {_listed(types)}")


def _fan_out(outputs: tuple[SinkOutput, ...], registry: Mapping[str, str]) -> Read:
    """Each column has its own layout and topic: a row may give records of several topics."""
    reads = [
        (output.column, _typed(Layout.from_json(output.layout), output.topic, registry))
        for output in outputs
    ]

    def read(batch: Any) -> Iterator[TopicRecords]:
        for column, typed in reads:
            structs = batch.column(column)
            if structs.null_count:
                structs = structs.drop_null()
            if len(structs):
                yield typed(pa.RecordBatch.from_struct_array(structs))

    return read


def _typed(
    layout: Layout, topic: str, registry: Mapping[str, str]
) -> Callable[[Any], TopicRecords]:
    encoder = Encoder(layout, registry_of(registry))

    def read(batch: Any) -> TopicRecords:
        keys, values, timestamps = encoder.encode(batch)
        times = milliseconds(timestamps, _now_ms())
        columns = RecordColumns(binary_column(keys), binary_column(values), times)
        return TopicRecords(topic, columns, hashed=_without_window(layout, columns.keys))

    return read


def _without_window(layout: Layout, keys: Any) -> Any:
    """As in Kafka Streams, all windows of a key are in one partition."""
    if layout.windowed is None:
        return None
    session = layout.windowed.kind is WindowKind.SESSION
    return pc.binary_slice(keys, 0, -(WINDOW_BOUNDS_BYTES if session else WINDOW_START_BYTES))


def _raw(batch: Any, topic: str) -> Iterator[TopicRecords]:
    names = set(batch.schema.names)
    count = batch.num_rows
    if not count:
        return
    keys = binary_column(batch.column("key")) if "key" in names else pa.nulls(count, pa.binary())
    times = batch.column("timestamp") if "timestamp" in names else pa.nulls(count, pa.int64())
    headers = encode_headers(batch.column("headers")) if "headers" in names else None
    columns = RecordColumns(
        keys, binary_column(batch.column("value")), milliseconds(times, _now_ms()), headers
    )
    partitions = _partitions(batch.column("partition")) if "partition" in names else None
    if topic:
        yield TopicRecords(topic, columns, partitions)
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise SinkError(
            "null topic present in the data. Use the topic option for setting a topic, or filter"
            " these rows out"
        )
    for name in topics.unique().to_pylist():
        rows = np.flatnonzero(pc.equal(topics, name).to_numpy(zero_copy_only=False))
        some = columns if len(rows) == count else columns.take(rows)
        yield TopicRecords(name, some, None if partitions is None else partitions[rows])


def _packed(batch: Any, topic: str) -> Iterator[TopicRecords]:
    """Unpacks cells that hold many rows, which Spark has passed on unread."""
    for cell in batch.column("rows"):
        with pa.ipc.open_stream(cell.as_buffer()) as stream:
            for rows in stream:
                yield from _raw(rows, topic)


def _partitions(array: Any) -> Numbers:
    found: Numbers = array.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return found


def _now_ms() -> int:
    return int(time.time() * 1000)


def _listed(types: Mapping[str, str]) -> str:
    return ", ".join(types) or "no columns"
