"""How keys and rows become bytes: of topics by their layout, of stores so that equal is equal.

The key of a record is a tuple of its key columns, in a `Windowed` where it has a window, or None.
"""

from __future__ import annotations

import io
import pickle
import struct
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.client.schema_registry import SchemaRegistry
from ottla.client.serde import Serde
from ottla.engine.records import Window, Windowed
from ottla.rows.formats.half import Half, half_of
from ottla.rows.formats.registered import registry_of
from ottla.rows.formats.windows import WindowKeys
from ottla.rows.schema import Column, Layout
from ottla.rows.types import Kind

NULL: Final = b"null"
LONG: Final = struct.Struct(">q")
DOUBLE: Final = struct.Struct(">d")
PICKLE_PROTOCOL: Final = 5
PLAIN: Final = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.BIGINT, Kind.DOUBLE, Kind.STRING})

Registry = SchemaRegistry | Mapping[str, str] | None
"""A client, or its settings, which can travel to where it is used."""


class HalfSerde(Serde[Any]):
    """Columns of a key or of a value, in the format of a topic.

    The codec is made where it is used: it may hold what can't travel to a worker.
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
    def half(self) -> Half:
        layout = self._layout
        format_ = layout.key_format if self._of_key else layout.value_format
        registry = self._registry
        if isinstance(registry, Mapping):
            registry = registry_of(registry)
        return half_of(format_, self.columns, of_key=self._of_key, registry=registry)

    @cached_property
    def _is_json(self) -> bool:
        layout = self._layout
        format_ = layout.key_format if self._of_key else layout.value_format
        return format_.name.upper() == "JSON"

    @cached_property
    def _by_columns(self) -> bool:
        """Where Arrow's values are those of a row, a batch is read by columns."""
        return bool(self.columns) and all(each.type.kind in PLAIN for each in self.columns)

    def read_rows(self, data: Sequence[bytes | None]) -> list[tuple[Any, ...] | None] | None:
        """None where there is no value; None for all if one of them can't be read."""
        if not self._by_columns:
            return None
        absent = NULL if self._is_json else None
        present = [each for each in data if each is not None and each != absent]
        columns, problems = self.half.read(pa.array(present, pa.binary()))
        if problems:
            return None
        if any(map(_has_negative_zero, columns)):
            return None  # `-0` is 0.0 where it is read alone, and a key has other bytes
        rows = zip(*map(_values, columns), strict=True)
        if len(present) == len(data):
            return list(rows)
        return [None if each is None or each == absent else next(rows) for each in data]

    def __getstate__(self) -> dict[str, Any]:
        made = ("columns", "half", "_is_json", "_by_columns", "_windows")
        return {name: value for name, value in self.__dict__.items() if name not in made}


class RowValue(HalfSerde):
    """A tuple of the value columns."""

    def __init__(self, layout: Layout, registry: Registry = None) -> None:
        super().__init__(layout, registry, of_key=False)

    def serialize(self, topic: str, value: Sequence[Any] | None) -> bytes | None:
        return None if value is None else self.half.write_row(value)

    def deserialize(self, topic: str, data: bytes | None) -> tuple[Any, ...] | None:
        if data is None or (self._is_json and data == NULL):
            return None
        return tuple(self.half.read_row(data))

    def deserialize_batch(
        self, topic: str, data: Sequence[bytes | None]
    ) -> list[tuple[Any, ...] | None] | None:
        return self.read_rows(data)


class RowKey(HalfSerde):
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
            # NULL alone is no key; several NULLs are one.
            return None if value == (None,) else self.half.write_row(value)
        data = self.half.write_row(value.key)
        if data is None or self._windows is None:
            return data
        return self._windows.join_row(data, value.window.start, value.window.end)

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


class StoreKey(Serde[tuple[Any, ...]]):
    """A tuple of values; one number or text alone lies in the order that Kafka's bytes have."""

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


class StoredRow(Serde[dict[str, Any]]):
    """A row by the names of its columns, which the bytes do not repeat."""

    def __init__(self, names: Sequence[str], *, immutable: bool = False) -> None:
        """`immutable`: no column is an ARRAY, MAP or STRUCT, which a user's function may change."""
        self._names = tuple(names)
        self.immutable = immutable

    def serialize(self, topic: str, value: dict[str, Any] | None) -> bytes | None:
        if value is None:
            return None
        if tuple(value) == self._names:
            return packed(tuple(value.values()))
        return packed(tuple(map(value.get, self._names)))

    def deserialize(self, topic: str, data: bytes | None) -> dict[str, Any] | None:
        if data is None:
            return None
        return dict(zip(self._names, pickle.loads(data), strict=True))


class Packed(Serde[Any]):
    """Any plain values: the state of aggregates, rows of a push query."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        return None if value is None else packed(value)

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        return None if data is None else pickle.loads(data)


class _Pickler(threading.local):
    """Kept, because making one takes longer than what it does for a row."""

    def __init__(self) -> None:
        self.buffer = io.BytesIO()
        pickler = pickle.Pickler(self.buffer, PICKLE_PROTOCOL)
        # Without memo nothing depends on which objects are the same.
        pickler.fast = True
        self.dump = pickler.dump


_PICKLER: Final = _Pickler()


def packed(value: Any) -> bytes:
    """Equal values give equal bytes."""
    pickler = _PICKLER
    buffer = pickler.buffer
    buffer.seek(0)
    buffer.truncate()
    pickler.dump(value)
    return buffer.getvalue()


def _has_negative_zero(column: pa.Array) -> bool:
    if not pa.types.is_floating(column.type):
        return False
    numbers = column.to_numpy(zero_copy_only=False)
    return bool(np.any((numbers == 0) & np.signbit(numbers)))


def _values(column: pa.Array) -> list[Any]:
    """Through numpy where it can be: Arrow makes an object of its own of each value first."""
    found: list[Any] = (
        column.to_pylist() if column.null_count else column.to_numpy(zero_copy_only=False).tolist()
    )
    return found
