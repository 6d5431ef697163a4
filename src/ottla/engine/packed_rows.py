"""Rows of tasks as bytes: Arrow's stream format, many rows in one cell of a DataFrame.

Spark moves a few such cells per batch instead of a row per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Any, Final, cast

import pyarrow as pa

from ottla.engine.records import Headers, InputRow, OutputColumns, OutputRow, output_rows
from ottla.spark.chunks import Chunk

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORDS_MAX: Final = 32_768
"""In one cell."""
GROUPS_MAX: Final = 8
"""More of them are packed row by row, because each would have a cell of its own."""
# Input._make without its check of the length.
_input: Final[Callable[[tuple[Any, ...]], InputRow]] = partial(tuple.__new__, InputRow)


def pack_chunk(chunk: Chunk) -> bytes:
    """The records of a chunk, as they were read."""
    columns = chunk.columns
    count = len(chunk)
    arrays = {
        "topic": pa.repeat(pa.scalar(chunk.topic), count),
        "partition": pa.repeat(pa.scalar(chunk.partition, pa.int32()), count),
        "offset": columns.offsets,
        "timestamp": columns.timestamps_ms,
        "key": columns.keys,
        "value": columns.values,
    }
    if columns.headers is not None and columns.headers.null_count < count:
        arrays["headers"] = columns.headers
    return _packed(pa.RecordBatch.from_pydict(arrays))


def pack_input_rows(rows: Sequence[InputRow]) -> bytes:
    """Packs rows that a prefix has rekeyed."""
    columns = list(zip(*rows, strict=True))
    arrays = {
        "topic": pa.array(columns[0], pa.string()),
        "partition": pa.array(columns[1], pa.int32()),
        "offset": pa.array(columns[2], pa.int64()),
        "timestamp": pa.array(columns[3], pa.int64()),
        "key": pa.array(columns[4], pa.binary()),
        "value": pa.array(columns[5], pa.binary()),
        "turn": pa.array(columns[7], pa.int32()),
        "origin": pa.array(columns[8], pa.string()),
    }
    if any(columns[6]):
        arrays["headers"] = _headers(columns[6])
    return _packed(pa.RecordBatch.from_pydict(arrays))


def unpack_input_rows(data: bytes) -> Iterator[InputRow]:
    """Reverses `pack_chunk` and `pack_input_rows`."""
    batch = unpacked_batch(data)
    count = batch.num_rows
    turn = _values(batch, "turn") if "turn" in batch.schema.names else [0] * count
    origin = _values(batch, "origin") if "origin" in batch.schema.names else [""] * count
    names = ("topic", "partition", "offset", "timestamp", "key", "value")
    columns = [_values(batch, name) for name in names]
    return map(_input, zip(*columns, headers_of(batch), turn, origin, strict=True))


def packed_rows_position(data: bytes) -> tuple[str, int, int]:
    """Topic, partition and next offset of a cell: its records come from one chunk."""
    batch = unpacked_batch(data)
    origin = batch.column("origin")[0].as_py() if "origin" in batch.schema.names else ""
    topic, partition = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
    return origin or topic, partition, int(batch.column("offset").to_numpy().max()) + 1


def chunk_input_rows(chunk: Chunk) -> Iterator[InputRow]:
    """The rows of a chunk without packing, for a task in the same process."""
    columns = chunk.columns
    return iter(
        input_rows(
            chunk.topic,
            chunk.partition,
            python_values(columns.offsets),
            python_values(columns.timestamps_ms),
            python_values(columns.keys),
            python_values(columns.values),
            [()] * len(chunk) if columns.headers is None else _header_lists(columns.headers),
        )
    )


def input_rows(
    topic: str,
    partition: int,
    offsets: list[int],
    timestamps: list[int],
    keys: list[bytes | None],
    values: list[bytes | None],
    headers: list[Headers],
) -> list[InputRow]:
    """Rows of one partition from columns."""
    same = repeat(topic), repeat(partition)
    columns = zip(*same, offsets, timestamps, keys, values, headers, repeat(0), repeat(""))
    return list(map(_input, columns))


def pack_output_rows(rows: Sequence[OutputRow]) -> Iterator[bytes]:
    """Packs rows for the sink, in order."""
    for start in range(0, len(rows), RECORDS_MAX):
        some = rows[start : start + RECORDS_MAX]
        # Not zip(*some), which takes twice as long for thousands of rows.
        topics, keys, values, timestamps, headers, partitions = (
            list(map(itemgetter(place), some)) for place in range(6)
        )
        arrays = {
            "topic": pa.array(topics, pa.string()),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array(timestamps, pa.int64()),
            "partition": pa.array(partitions, pa.int32()),
        }
        if any(headers):
            arrays["headers"] = _headers(headers)
        yield _packed(pa.RecordBatch.from_pydict(arrays))


def pack_outputs(outputs: Sequence[OutputRow | OutputColumns]) -> Iterator[bytes]:
    """Packs rows for the sink, in order."""
    groups = [(kind, list(some)) for kind, some in groupby(outputs, _kind)]
    if len(groups) > GROUPS_MAX:
        yield from pack_output_rows(output_rows(outputs))
        return
    for topic, some in groups:
        if topic is None:
            yield from pack_output_rows(cast(list[OutputRow], some))
        else:
            yield from _pack_columns(topic, cast(list[OutputColumns], some))


def _kind(output: OutputRow | OutputColumns) -> str | None:
    """The topic of columns; None for a row."""
    return output.topic if isinstance(output, OutputColumns) else None


def _pack_columns(topic: str, parts: Sequence[OutputColumns]) -> Iterator[bytes]:
    # In chunks, because an array ends at 2 GiB, and the parts of a batch may have more.
    keys, values = (
        _binary_of(part.keys for part in parts),
        _binary_of(part.values for part in parts),
    )
    timestamps = pa.array(chain.from_iterable(part.timestamps for part in parts), pa.int64())
    headers = None
    if any(part.headers is not None for part in parts):
        given = (part.headers or [()] * len(part.keys) for part in parts)
        headers = _headers(chain.from_iterable(given))
    for start in range(0, len(timestamps), RECORDS_MAX):
        some = timestamps.slice(start, RECORDS_MAX)
        columns = {
            "topic": pa.repeat(pa.scalar(topic), len(some)),
            "key": keys.slice(start, RECORDS_MAX).combine_chunks(),
            "value": values.slice(start, RECORDS_MAX).combine_chunks(),
            "timestamp": some,
            "partition": pa.nulls(len(some), pa.int32()),
        }
        if headers is not None:
            columns["headers"] = headers.slice(start, RECORDS_MAX)
        yield _packed(pa.RecordBatch.from_pydict(columns))


def _binary_of(parts: Iterable[Any]) -> Any:
    arrays = [pa.array(part, pa.binary()) if isinstance(part, list) else part for part in parts]
    chunks = [
        chunk
        for array in arrays
        for chunk in (array.chunks if isinstance(array, pa.ChunkedArray) else [array])
    ]
    return pa.chunked_array(chunks, pa.binary())


def pack_output_columns(
    topic: str, keys: Any, values: Any, timestamps: Any, partition: int
) -> bytes:
    """Packs rows of one topic and partition; keys and values are binary arrays."""
    count = len(keys)
    return _packed(
        pa.RecordBatch.from_pydict(
            {
                "topic": pa.repeat(pa.scalar(topic), count),
                "key": keys,
                "value": values,
                "timestamp": pa.array(timestamps, pa.int64()),
                "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
            }
        )
    )


def unpack_output_rows(cell: bytes) -> Iterator[tuple[str, bytes | None, bytes | None]]:
    """Topic, key and value of each row that `pack_output_rows` has packed."""
    batch = unpacked_batch(cell)
    return zip(*(batch.column(name).to_pylist() for name in ("topic", "key", "value")), strict=True)


def headers_of(batch: Any) -> list[Headers]:
    if "headers" not in batch.schema.names:
        return [()] * batch.num_rows
    return _header_lists(batch.column("headers"))


def _headers(rows: Iterable[Headers]) -> Any:
    return pa.array(
        [[{"key": name, "value": value} for name, value in row] for row in rows], HEADERS
    )


def _header_lists(column: Any) -> list[Headers]:
    if column.null_count == len(column):
        return [()] * len(column)
    return [
        tuple((header["key"], header["value"]) for header in row) if row else ()
        for row in column.to_pylist()
    ]


def _values(batch: Any, name: str) -> list[Any]:
    return python_values(batch.column(name))


def python_values(array: Any) -> list[Any]:
    """Through numpy: Arrow's to_pylist makes a Scalar object per value first."""
    return list(array.to_numpy(zero_copy_only=False).tolist())


def _packed(batch: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpacked_batch(data: bytes) -> Any:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
