"""Rows of tasks as bytes: Arrow's stream format, many rows in one cell of a DataFrame.

Spark carries a few such cells in each batch instead of every record as a row of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from ottla.engine.records import Headers, Input, Output
from ottla.spark.reading import Chunk

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORDS_MAX: Final = 32_768
"""In one cell."""
# What Input._make does, but for its count of the values.
_input: Final[Callable[[tuple[Any, ...]], Input]] = partial(tuple.__new__, Input)


def chunk_rows(chunk: Chunk) -> bytes:
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
    if columns.headers is not None:
        arrays["headers"] = columns.headers
    return _packed(pa.RecordBatch.from_pydict(arrays))


def input_rows(rows: Sequence[Input]) -> bytes:
    """Rows that were given another key on their way."""
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


def inputs(data: bytes) -> Iterator[Input]:
    """The way back."""
    batch = _unpacked(data)
    count = batch.num_rows
    turn = _values(batch, "turn") if "turn" in batch.schema.names else [0] * count
    origin = _values(batch, "origin") if "origin" in batch.schema.names else [""] * count
    names = ("topic", "partition", "offset", "timestamp", "key", "value")
    columns = [_values(batch, each) for each in names]
    return map(_input, zip(*columns, headers_of(batch), turn, origin, strict=True))


def reach(data: bytes) -> tuple[str, int, int]:
    """Where the records of a cell were read, and the offset behind the last: all of one chunk."""
    batch = _unpacked(data)
    origin = batch.column("origin")[0].as_py() if "origin" in batch.schema.names else ""
    topic, partition = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
    return origin or topic, partition, int(batch.column("offset").to_numpy().max()) + 1


def chunk_inputs(chunk: Chunk) -> Iterator[Input]:
    """The same for records that go nowhere before."""
    columns = chunk.columns
    count = len(chunk)
    headers = [()] * count if columns.headers is None else _header_lists(columns.headers)
    return map(
        _input,
        zip(
            [chunk.topic] * count,
            [chunk.partition] * count,
            _list(columns.offsets),
            _list(columns.timestamps_ms),
            _list(columns.keys),
            _list(columns.values),
            headers,
            [0] * count,
            [""] * count,
            strict=True,
        ),
    )


def output_rows(rows: Sequence[Output]) -> Iterator[bytes]:
    """As the sink takes them, in their order."""
    for start in range(0, len(rows), RECORDS_MAX):
        topics, keys, values, timestamps, headers, partitions = zip(
            *rows[start : start + RECORDS_MAX], strict=True
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


def outputs(cell: bytes) -> Iterator[tuple[str, bytes | None, bytes | None]]:
    """Topic, key and value of each row that `output_rows` has packed."""
    batch = _unpacked(cell)
    return zip(*(batch.column(name).to_pylist() for name in ("topic", "key", "value")), strict=True)


def headers_of(batch: Any) -> list[Headers]:
    if "headers" not in batch.schema.names:
        return [()] * batch.num_rows
    return _header_lists(batch.column("headers"))


def _headers(rows: Iterable[Headers]) -> Any:
    return pa.array(
        [[{"key": name, "value": value} for name, value in each] for each in rows], HEADERS
    )


def _header_lists(column: Any) -> list[Headers]:
    return [
        tuple((each["key"], each["value"]) for each in row) if row else ()
        for row in column.to_pylist()
    ]


def _values(batch: Any, name: str) -> list[Any]:
    return _list(batch.column(name))


def _list(array: Any) -> list[Any]:
    """Through numpy: Arrow itself makes a thing of its own of each value first."""
    return list(array.to_numpy(zero_copy_only=False).tolist())


def _packed(batch: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _unpacked(data: bytes) -> Any:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
