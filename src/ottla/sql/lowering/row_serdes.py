"""Serdes of keys and rows: by layout in topics; in stores such that equal keys have equal bytes.

The key of a record is None or a tuple of its key columns, inside a `Windowed` if it has a window.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import struct
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.schema_registry import SchemaRegistry
from ottla.client.serde import Serde
from ottla.engine.records import Window, Windowed
from ottla.rows.formats.arrow import arrow_type
from ottla.rows.formats.codec import Codec, codec_of
from ottla.rows.formats.json import JsonFormat
from ottla.rows.formats.registry_format import registry_of
from ottla.rows.formats.windows import WindowKeys
from ottla.rows.schema import Column, Layout
from ottla.rows.types import SqlBaseType

NULL: Final = b"null"
LONG: Final = struct.Struct(">q")
DOUBLE: Final = struct.Struct(">d")
PICKLE_PROTOCOL: Final = 5
PLAIN: Final = frozenset(
    {
        SqlBaseType.BOOLEAN,
        SqlBaseType.INTEGER,
        SqlBaseType.BIGINT,
        SqlBaseType.DOUBLE,
        SqlBaseType.STRING,
    }
)

WRITTEN_BY_COLUMNS: Final = frozenset({"JSON", "KAFKA"})
WRITTEN_MIN: Final = 256
"""Fewer rows are written one by one, which is faster then."""

Registry = SchemaRegistry | Mapping[str, str] | None
"""A client, or its settings, which unlike a client can be pickled."""


class ColumnsSerde(Serde[Any]):
    """Columns of a key or of a value, in the format of a topic.

    The codec is made on first use, because it may hold what can't be pickled for a worker.
    """

    def __init__(self, layout: Layout, registry: Registry, *, of_key: bool) -> None:
        self._layout = layout
        self._registry = registry
        self._of_key = of_key

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        schema = self._layout.schema
        return schema.key if self._of_key else schema.value

    @cached_property
    def half(self) -> Codec:
        layout = self._layout
        format_ = layout.key_format if self._of_key else layout.value_format
        registry = self._registry
        if isinstance(registry, Mapping):
            registry = registry_of(registry)
        return codec_of(format_, self.columns, of_key=self._of_key, registry=registry)

    @cached_property
    def _is_json(self) -> bool:
        layout = self._layout
        format_ = layout.key_format if self._of_key else layout.value_format
        return format_.name.upper() == "JSON"

    @cached_property
    def _by_columns(self) -> bool:
        """True if Arrow's values can be used in rows as they are; then batches are read by
        columns."""
        return bool(self.columns) and all(column.type.kind in PLAIN for column in self.columns)

    def read_rows(self, data: Sequence[bytes | None]) -> list[tuple[Any, ...] | None] | None:
        """The rows of a batch, None for null; None instead of the list if one can't be
        deserialized."""
        if not self._by_columns:
            return None
        array = data if isinstance(data, pa.Array) else pa.array(data, pa.binary())
        here = array.is_valid()
        if self._is_json:
            here = pc.and_kleene(here, pc.not_equal(array, NULL))
        present = array.filter(here) if pc.any(pc.invert(here)).as_py() else array
        columns, problems = self.half.read(present)
        if problems:
            return None
        if any(map(_has_negative_zero, columns)):
            return None  # row by row `-0` is read as 0.0, and a key must not get other bytes here
        rows = zip(*map(_values, columns), strict=True)
        if present is array:
            return list(rows)
        return [next(rows) if is_here else None for is_here in here.to_pylist()]

    @cached_property
    def _writes_columns(self) -> bool:
        """True if a batch is written by columns, with the bytes of `write_row`."""
        layout = self._layout
        format_ = layout.key_format if self._of_key else layout.value_format
        return self._by_columns and format_.name.upper() in WRITTEN_BY_COLUMNS

    def write_rows(self, rows: Sequence[tuple[Any, ...]]) -> Sequence[bytes | None] | None:
        """The rows' bytes; None if a row is not of the columns' types."""
        if not self._writes_columns or len(rows) < WRITTEN_MIN:
            half = self.half
            if isinstance(half, JsonFormat):
                return half.write_rows(rows)
            return [half.write_row(row) for row in rows]
        try:
            columns = [
                pa.array(values, arrow_type(column.type))
                for values, column in zip(zip(*rows, strict=True), self.columns, strict=True)
            ]
        except (pa.ArrowException, OverflowError, UnicodeError):
            return None  # a number out of range, a lone surrogate
        written: Sequence[bytes | None] = self.half.write(columns, len(rows))
        return written

    def __getstate__(self) -> dict[str, Any]:
        made = ("columns", "half", "_is_json", "_by_columns", "_writes_columns", "_windows")
        return {name: value for name, value in self.__dict__.items() if name not in made}


class RowValueSerde(ColumnsSerde):
    """A tuple of the value columns."""

    def __init__(self, layout: Layout, registry: Registry = None) -> None:
        super().__init__(layout, registry, of_key=False)

    def serialize(self, topic: str, value: Sequence[Any] | None) -> bytes | None:
        return None if value is None else self.half.write_row(value)

    def serialize_batch(
        self, topic: str, values: Sequence[Sequence[Any] | None]
    ) -> Sequence[bytes | None]:
        found = None if None in values else self.write_rows(cast(Any, values))
        return super().serialize_batch(topic, values) if found is None else found

    def deserialize(self, topic: str, data: bytes | None) -> tuple[Any, ...] | None:
        if data is None or (self._is_json and data == NULL):
            return None
        return tuple(self.half.read_row(data))

    def deserialize_batch(
        self, topic: str, data: Sequence[bytes | None]
    ) -> list[tuple[Any, ...] | None] | None:
        return self.read_rows(data)


class RowKeySerde(ColumnsSerde):
    """A tuple of the key columns, or `Windowed` of one."""

    def __init__(self, layout: Layout, registry: Registry = None) -> None:
        super().__init__(layout, registry, of_key=True)
        self.format = layout.key_format

    @cached_property
    def _windows(self) -> WindowKeys | None:
        windowed = self._layout.windowed
        return None if windowed is None else WindowKeys(windowed)

    def serialize(self, topic: str, value: Any) -> bytes | None:
        if value is None or not self.columns:
            return None
        if not isinstance(value, Windowed):
            # A single NULL means no key; several NULLs are a key.
            return None if value == (None,) else self.half.write_row(value)
        data = self.half.write_row(value.key)
        if data is None or self._windows is None:
            return data
        return self._windows.join_row(data, value.window.start, value.window.end)

    def serialize_batch(self, topic: str, values: Sequence[Any]) -> Sequence[bytes | None]:
        found: Sequence[bytes | None] | None = None
        if set(map(type, values)) == {tuple} and not _any_null(values):
            found = self.write_rows(values)
        return super().serialize_batch(topic, values) if found is None else found

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        if data is None:
            return None
        window = None
        if self._windows is not None:
            data, start, end = self._windows.split_row(data)
            window = Window(start, end)
        if self._is_json and data == NULL:
            return None
        key = tuple(self.half.read_row(data)) if self.columns else None
        return key if window is None else Windowed(key, window)

    def deserialize_batch(
        self, topic: str, data: Sequence[bytes | None]
    ) -> list[tuple[Any, ...] | None] | None:
        if self._windows is not None:
            return None
        return self.read_rows(data) if self.columns else [None] * len(data)


class StoreKeySerde(Serde[tuple[Any, ...]]):
    """A tuple of values. A single number or text has the bytes of Kafka's serdes, and their
    order."""

    def serialize(self, topic: str, value: tuple[Any, ...] | None) -> bytes | None:
        if value is None:
            return None
        if len(value) == 1:
            single = value[0]
            if type(single) is str:
                return b"s" + single.encode()
            if type(single) is int and -(1 << 63) <= single < 1 << 63:
                return b"i" + LONG.pack(single)
            if type(single) is float:
                return b"d" + DOUBLE.pack(single)
        return b"t" + packed(value)

    def serialize_batch(
        self, topic: str, values: Sequence[tuple[Any, ...] | None]
    ) -> Sequence[bytes | None]:
        if set(map(type, values)) == {tuple}:
            keys = cast(Sequence[tuple[Any, ...]], values)
            with contextlib.suppress(AttributeError, ValueError):  # not a text, not one column
                return [b"s" + single.encode() for (single,) in keys]
        return super().serialize_batch(topic, values)

    def deserialize(self, topic: str, data: bytes | None) -> tuple[Any, ...] | None:
        if data is None:
            return None
        kind, rest = data[:1], data[1:]
        if kind == b"s":
            return (rest.decode(),)
        if kind == b"i":
            return LONG.unpack(rest)
        if kind == b"d":
            return DOUBLE.unpack(rest)
        found: tuple[Any, ...] = pickle.loads(rest)
        return found


class StoredRowSerde(Serde[dict[str, Any]]):
    """A row as dict; the bytes don't contain the names."""

    def __init__(self, names: Sequence[str], *, immutable: bool = False) -> None:
        """`immutable`: no column is an ARRAY, MAP or STRUCT, which a user's function could
        modify."""
        self._names = tuple(names)
        self.immutable = immutable

    def serialize(self, topic: str, value: dict[str, Any] | None) -> bytes | None:
        if value is None:
            return None
        if tuple(value) == self._names:
            return packed(tuple(value.values()))
        return packed(tuple(map(value.get, self._names)))

    def serialize_batch(
        self, topic: str, values: Sequence[dict[str, Any] | None]
    ) -> Sequence[bytes | None]:
        rows = cast(Sequence[dict[str, Any]], values)
        try:
            if len(self._names) == 1:
                (name,) = self._names
                return packed_each([(row[name],) for row in rows])
            if self._names:
                return packed_each(map(itemgetter(*self._names), rows))
        except (KeyError, TypeError):
            pass  # a row lacks a column, or there is no row
        return super().serialize_batch(topic, values)

    def deserialize(self, topic: str, data: bytes | None) -> dict[str, Any] | None:
        if data is None:
            return None
        return dict(zip(self._names, pickle.loads(data), strict=True))

    def deserialize_each(self, topic: str, data: Sequence[bytes]) -> list[dict[str, Any]]:
        names, read = self._names, pickle.loads
        return [dict(zip(names, read(datum), strict=True)) for datum in data]


class PackedSerde(Serde[Any]):
    """Any Python values: the state of aggregates, rows of a push query."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        return None if value is None else packed(value)

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return None if data is None else pickle.loads(data)


class _Pickler(threading.local):
    """Reused, because making a pickler takes longer than pickling a row."""

    def __init__(self) -> None:
        self.buffer = io.BytesIO()
        pickler = pickle.Pickler(self.buffer, PICKLE_PROTOCOL)
        # Without memo the bytes don't depend on the identity of objects.
        pickler.fast = True
        self.dump = pickler.dump


_PICKLER: Final = _Pickler()


def packed(value: Any) -> bytes:
    """Pickle such that equal values have equal bytes."""
    pickler = _PICKLER
    buffer = pickler.buffer
    buffer.seek(0)
    buffer.truncate()
    pickler.dump(value)
    return buffer.getvalue()


def packed_each(values: Iterable[Any]) -> list[bytes | None]:
    """`packed` of each value."""
    pickler = _PICKLER
    buffer = pickler.buffer
    buffer.seek(0)
    buffer.truncate()
    dump, place = pickler.dump, buffer.tell
    ends = [0]
    for value in values:
        dump(value)
        ends.append(place())
    data = buffer.getvalue()
    return [data[begin:end] for begin, end in pairwise(ends)]


def _any_null(keys: Sequence[tuple[Any, ...]]) -> bool:
    """True if a column of a key is NULL."""
    return any(None in column for column in zip(*keys, strict=True))


def _has_negative_zero(column: pa.Array) -> bool:
    if not pa.types.is_floating(column.type):
        return False
    numbers = column.to_numpy(zero_copy_only=False)
    return bool(np.any((numbers == 0) & np.signbit(numbers)))


def _values(column: pa.Array) -> list[Any]:
    """Python values of a column; through numpy if possible, because Arrow's to_pylist() is
    slower."""
    found: list[Any] = (
        column.to_pylist() if column.null_count else column.to_numpy(zero_copy_only=False).tolist()
    )
    return found
