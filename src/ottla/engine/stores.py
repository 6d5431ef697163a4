"""State stores over cells of bytes, in Kafka's layouts.

    key-value       key                    value
    timestamped     key                    timestamp (8), value
    window          key, start (8), number (4)     number: 0, or counts where duplicates are kept
    session         key, end (8), start (8)

Numbers are big-endian, so the cells of a key are in time order. As in Kafka, windows expire
`retention_ms` after the newest one that this store has seen.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Generic, TypeVar, cast

from ottla.client.serde import Serde
from ottla.engine.cells import Cells as Cells
from ottla.engine.cells import DictCells as DictCells
from ottla.engine.records import ValueAndTimestamp, Window, Windowed
from ottla.engine.segments import TIME_MAX, StoreSegments
from ottla.engine.serde_config import SerdeConfig
from ottla.engine.timestamped_serdes import ValueAndTimestampSerde, ValueWithoutTimestampSerde
from ottla.engine.windowed_serdes import BOUNDS, LONG

K = TypeVar("K")
V = TypeVar("V")

PLACE: Final = struct.Struct(">qi")  # follows the key in a window store: start, number
NUMBER_MAX: Final = 2**31 - 1
READ_BEFORE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes whose deserialized values a store caches; as objects they take several times as much."""
_place: Final = PLACE.pack
_timestamp: Final = LONG.unpack_from
_eight_bytes: Final = LONG.pack


class StoreKind(Enum):
    KEY_VALUE = "key-value"
    TIMESTAMPED_KEY_VALUE = "timestamped-key-value"
    WINDOW = "window"
    TIMESTAMPED_WINDOW = "timestamped-window"
    SESSION = "session"


PLAIN_KINDS: Final = {
    StoreKind.TIMESTAMPED_KEY_VALUE: StoreKind.KEY_VALUE,
    StoreKind.TIMESTAMPED_WINDOW: StoreKind.WINDOW,
}


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A node's declaration of a store.

    `changelog`: its changes go to a topic, which also serves interactive queries. `cached`: updates
    are forwarded at commits, the last one for each key.
    """

    name: str
    kind: StoreKind
    key: Serde[Any]
    value: Serde[Any]
    retention_ms: int | None = None
    window_ms: int | None = None
    duplicates: bool = False
    changelog: bool = True
    cached: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.key.configured({}, is_key=True))

    def configured(self, serdes: SerdeConfig) -> StoreSpec:
        """A copy whose serdes have the application's settings."""
        return replace(self, key=serdes.key(self.key), value=serdes.value(self.value))

    @property
    def cell_value(self) -> Serde[Any]:
        """The serde of the cells' values, and of the changelog's."""
        timestamped = (StoreKind.TIMESTAMPED_KEY_VALUE, StoreKind.TIMESTAMPED_WINDOW)
        return ValueAndTimestampSerde(self.value) if self.kind in timestamped else self.value

    @property
    def plain(self) -> StoreSpec:
        """The same cells, read as values without their timestamps."""
        kind = PLAIN_KINDS.get(self.kind)
        return (
            self
            if kind is None
            else replace(self, kind=kind, value=ValueWithoutTimestampSerde(self.value))
        )

    def open(self, cells: Cells, *, topic: str = "") -> StateStore:
        """`topic`: the changelog's name, which serdes take as their topic."""
        match self.kind:
            case StoreKind.KEY_VALUE:
                return KeyValueStore(self, cells, topic)
            case StoreKind.TIMESTAMPED_KEY_VALUE:
                return TimestampedKeyValueStore(self, cells, topic)
            case StoreKind.WINDOW | StoreKind.TIMESTAMPED_WINDOW:
                return WindowStore(self, cells, topic)
            case StoreKind.SESSION:
                return SessionStore(self, cells, topic)


def key_value_store(
    name: str,
    key: Serde[Any],
    value: Serde[Any],
    *,
    timestamped: bool = False,
    changelog: bool = True,
) -> StoreSpec:
    """A store for `process(..., stores=[...])`, like the next two."""
    kind = StoreKind.TIMESTAMPED_KEY_VALUE if timestamped else StoreKind.KEY_VALUE
    return StoreSpec(name, kind, key, value, changelog=changelog)


def window_store(
    name: str,
    key: Serde[Any],
    value: Serde[Any],
    *,
    window_ms: int,
    retention_ms: int,
    duplicates: bool = False,
    changelog: bool = True,
) -> StoreSpec:
    if retention_ms < window_ms:
        raise ValueError(
            f"The retention period of the window store {name} must be no smaller than its window "
            f"size. Got size=[{window_ms}], retention=[{retention_ms}]"
        )
    return StoreSpec(
        name,
        StoreKind.WINDOW,
        key,
        value,
        retention_ms=retention_ms,
        window_ms=window_ms,
        duplicates=duplicates,
        changelog=changelog,
    )


def session_store(
    name: str, key: Serde[Any], value: Serde[Any], *, retention_ms: int, changelog: bool = True
) -> StoreSpec:
    return StoreSpec(
        name, StoreKind.SESSION, key, value, retention_ms=retention_ms, changelog=changelog
    )


class KeyValueStore(Generic[K, V]):
    """As in Kafka, both ends of `range` are inclusive and the order is that of the keys' bytes."""

    def __init__(self, spec: StoreSpec, cells: Cells, topic: str = "") -> None:
        self.spec = spec
        self.name = spec.name
        self.cells = cells
        self.topic = topic
        self._write_key = spec.key.serialize
        self._read_key = spec.key.deserialize
        self._write = spec.cell_value.serialize
        self._read = spec.cell_value.deserialize
        self._get = cells.get
        self._put = cells.put

    def key_bytes(self, key: K) -> bytes:
        data = self._write_key(self.topic, key)
        if data is None:
            raise ValueError("key cannot be null")
        return data

    def get(self, key: K) -> V | None:
        data = self._get(self.key_bytes(key))
        return None if data is None else cast(V, self._read(self.topic, data))

    def put(self, key: K, value: V | None) -> None:
        self._put(self.key_bytes(key), self._write(self.topic, value))

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        present = self.get(key)
        if present is None:
            self.put(key, value)
        return present

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: K) -> V | None:
        present = self.get(key)
        if present is not None:
            self._put(self.key_bytes(key), None)
        return present

    def range(
        self, low: K | None = None, high: K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, V]]:
        first = None if low is None else self.key_bytes(low)
        last = None if high is None else self.key_bytes(high) + b"\x00"
        return self._entries(self.cells.range(first, last), reverse)

    def all(self, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        return self._entries(self.cells.range(None, None), reverse)

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[K, V]]:
        """The entries whose serialized keys begin with `prefix`."""
        return self._entries(self.cells.range(prefix, after(prefix)), False)

    def approximate_num_entries(self) -> int:
        return self.cells.size()

    def _entries(
        self, cells: Iterable[tuple[bytes, bytes]], reverse: bool
    ) -> Iterator[tuple[K, V]]:
        topic = self.topic
        for key, value in reversed(list(cells)) if reverse else cells:
            yield cast(K, self._read_key(topic, key)), cast(V, self._read(topic, value))

    def saved(self) -> bytes:
        """State besides the cells that a commit stores; empty if none."""
        return b""

    def restore(self, saved: bytes) -> None:
        """Takes what `saved` returned in an earlier incarnation of the task."""


class TimestampedKeyValueStore(KeyValueStore[K, ValueAndTimestamp[V]]):
    """The store of tables and aggregates. `read` and `write` take key bytes, so that a key is
    serialized once for both."""

    def __init__(self, spec: StoreSpec, cells: Cells, topic: str = "") -> None:
        super().__init__(spec, cells, topic)
        self._write_value = spec.value.serialize
        self._read_value = spec.value.deserialize
        self._read_before: dict[bytes, tuple[bytes, V]] | None = None
        self._read_before_bytes = 0
        if spec.value.immutable and not cells.on_disk:
            self._read_before = {}

    def put_value(self, key: K, value: V | None, timestamp: int) -> None:
        self.write(self.key_bytes(key), value, timestamp)

    def value(self, key: K) -> V | None:
        return self._value_of(self.key_bytes(key))

    def _value_of(self, cell: bytes) -> V | None:
        known = self._read_before
        if known is None:
            found = self.read(cell)
            return None if found is None else found[0]
        data = self._get(cell)
        if data is None:
            return None
        # While the cell holds the same bytes object, the value that was read before is still right.
        before = known.get(cell)
        if before is not None and before[0] is data:
            return before[1]
        value = cast(V, self._read_value(self.topic, data[8:]))
        self._read_before_bytes += len(data)
        if self._read_before_bytes > READ_BEFORE_BYTES_MAX:
            known.clear()
            self._read_before_bytes = len(data)
        known[cell] = (data, value)
        return value

    def read(self, cell: bytes) -> tuple[V, int] | None:
        """Value and timestamp; `cell` is what `key_bytes` returns."""
        data = self._get(cell)
        if data is None:
            return None
        return cast(V, self._read_value(self.topic, data[8:])), _timestamp(data)[0]

    def write(self, cell: bytes, value: V | None, timestamp: int) -> None:
        data = None if value is None else self._write_value(self.topic, value)
        self._put(cell, None if data is None else _eight_bytes(timestamp) + data)

    def values(self, keys: Sequence[K]) -> list[V | None]:
        """`value` of each key."""
        if self._read_before is None:
            return [self.value(key) for key in keys]
        cells = self._key_cells(keys)
        found = {cell: self._value_of(cell) for cell in set(cells)}
        return [found[cell] for cell in cells]

    def write_all(
        self, keys: Sequence[K], values: Sequence[V | None], timestamps: Sequence[int]
    ) -> None:
        """`put_value` for each. It raises before it has written any."""
        cells = self._key_cells(keys)
        data: Sequence[bytes | None]
        if None in values:
            data = [
                None if value is None else self._write_value(self.topic, value) for value in values
            ]
        else:
            data = self.spec.value.serialize_batch(self.topic, values)
        self.cells.put_all(
            [
                (cell, None if datum is None else _eight_bytes(timestamp) + datum)
                for cell, datum, timestamp in zip(cells, data, timestamps, strict=True)
            ]
        )

    def _key_cells(self, keys: Sequence[K]) -> Sequence[bytes]:
        return _present(self.spec.key.serialize_batch(self.topic, keys))


class WindowStore(Generic[K, V]):
    """Values by key and window start.

    A window that started `retention_ms` or more before the newest one has expired: it is neither
    read nor written. Both ends of fetches are inclusive.
    """

    def __init__(self, spec: StoreSpec, cells: Cells, topic: str = "") -> None:
        if spec.retention_ms is None or spec.window_ms is None:
            raise ValueError(f"window store {spec.name} needs retention_ms and window_ms")
        self.spec = spec
        self.name = spec.name
        self.cells = cells
        self.topic = topic
        self.window_ms = spec.window_ms
        self._duplicates = spec.duplicates
        self._number = 0
        self._segments = StoreSegments(cells, spec.retention_ms, from_end=PLACE.size)
        self._key = spec.key
        self._value = spec.cell_value
        self._write_key = spec.key.serialize
        self._write_value = spec.value.serialize
        self._read_value = spec.value.deserialize
        self._get_cell = cells.get
        self._put_cell = cells.put
        self._under = cells.under

    def key_bytes(self, key: K) -> bytes:
        data = self._write_key(self.topic, key)
        if data is None:
            raise ValueError("key cannot be null")
        return data

    def cell(self, key: bytes, start: int) -> bytes:
        """The cell's key of a window; `key` is what `key_bytes` returns."""
        return key + PLACE.pack(start, 0)

    def put(self, key: K, value: V | None, start: int) -> None:
        if self._duplicates and value is None:
            return  # as in Kafka, without advancing the stream time
        if not self._segments.admits(start):
            return
        if self._duplicates:
            self._number = (self._number + 1) & NUMBER_MAX
        cell = self.key_bytes(key) + PLACE.pack(start, self._number)
        data = self._value.serialize(self.topic, value)
        self._segments.note(cell, start, present=data is not None)
        self._put_cell(cell, data)

    def prepared_puts(
        self, keys: Sequence[K], values: Sequence[V], starts: Sequence[int]
    ) -> Callable[[], None]:
        """`put` for each, in a store with duplicates: when the result is called. What can fail, the
        serializers, has run by then."""
        assert self._duplicates
        stems = _present(self._key.serialize_batch(self.topic, keys))
        data = _present(self._value.serialize_batch(self.topic, values))

        def put_all() -> None:
            if not keys:
                return
            if not self._segments.admits_all(starts):
                for key, value, start in zip(keys, values, starts, strict=True):
                    self.put(key, value, start)
                return
            numbers = range(self._number + 1, self._number + 1 + len(stems))
            self._number = numbers[-1] & NUMBER_MAX
            cells = [
                stem + _place(start, number & NUMBER_MAX)
                for stem, start, number in zip(stems, starts, numbers, strict=True)
            ]
            self._segments.note_all(cells, starts)
            self.cells.put_new(list(zip(cells, data, strict=True)), stems, PLACE.size)

        return put_all

    def get(self, key: K, start: int) -> V | None:
        """The value of the window with this start; not for stores with duplicates."""
        if start < self._segments.oldest_ms:
            return None
        data = self.cells.get(self.key_bytes(key) + PLACE.pack(start, 0))
        return None if data is None else cast(V, self._value.deserialize(self.topic, data))

    def read(self, cell: bytes, start: int) -> tuple[Any, int] | None:
        """Value and timestamp, in a timestamped store; `cell` is what `cell` returns."""
        if start < self._segments.oldest_ms:
            return None
        data = self._get_cell(cell)
        if data is None:
            return None
        return self._read_value(self.topic, data[8:]), _timestamp(data)[0]

    def write(self, cell: bytes, start: int, value: Any, timestamp: int) -> None:
        if self._segments.admits(start):
            data = None if value is None else self._write_value(self.topic, value)
            self._segments.note(cell, start, present=data is not None)
            self._put_cell(cell, None if data is None else _eight_bytes(timestamp) + data)

    def fetch(
        self, key: K, start_min: int = 0, start_max: int = TIME_MAX, *, reverse: bool = False
    ) -> Iterator[tuple[int, V]]:
        """Window starts and values, oldest first."""
        cells = self._cells_of(self.key_bytes(key), start_min, start_max)
        if reverse:
            cells.reverse()
        return iter([self._start_and_value(cell, data) for cell, data in cells])

    def fetch_all(self, key: K, start_min: int, start_max: int) -> list[tuple[int, V]]:
        """`fetch` as a list."""
        cells = self._cells_of(self.key_bytes(key), start_min, start_max)
        return [self._start_and_value(cell, data) for cell, data in cells] if cells else []

    def fetch_around(
        self, keys: Sequence[K], times: Sequence[int], before_ms: int, after_ms: int
    ) -> tuple[list[int], list[int], Sequence[V]]:
        """`fetch_all` for each key, from `before_ms` before its time to `after_ms` behind it: for
        each value the index of its key, its start, and the value itself."""
        oldest_ms, newest_ms = max(self._segments.oldest_ms, 0), self._segments.newest_ms
        last_ms = newest_ms - after_ms
        stems = _present(self._key.serialize_batch(self.topic, keys))
        wanted = [
            (
                stem,
                first_ms if (first_ms := time_ms - before_ms) > oldest_ms else oldest_ms,
                max(0, time_ms + after_ms) if time_ms < last_ms else newest_ms,
            )
            for stem, time_ms in zip(stems, times, strict=True)
        ]
        found = self.cells.under_each(wanted, PLACE.size)
        if not any(found):
            return [], [], []
        hits = [(index, cell) for index, cells in enumerate(found) if cells for cell in cells]
        return (
            [index for index, _ in hits],
            [_timestamp(cell, -PLACE.size)[0] for _, (cell, _) in hits],
            self._value.deserialize_each(self.topic, [data for _, (_, data) in hits]),
        )

    def _cells_of(self, key: bytes, first_ms: int, last_ms: int) -> list[tuple[bytes, bytes]]:
        segments = self._segments
        oldest_ms, newest_ms = segments.oldest_ms, segments.newest_ms
        first_ms = first_ms if first_ms > oldest_ms else oldest_ms
        last_ms = last_ms if last_ms < newest_ms else newest_ms
        return self._under(key, PLACE.size, first_ms if first_ms > 0 else 0, last_ms)

    def _start_and_value(self, cell: bytes, data: bytes) -> tuple[int, V]:
        value = cast(V, self._value.deserialize(self.topic, data))
        return _timestamp(cell, len(cell) - PLACE.size)[0], value

    def fetch_range(
        self,
        low: K | None = None,
        high: K | None = None,
        start_min: int = 0,
        start_max: int = TIME_MAX,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[Windowed[K], V]]:
        """All keys from `low` to `high`, inclusive, in the order of their bytes."""
        first = None if low is None else self.key_bytes(low)
        last = None if high is None else self.key_bytes(high)
        oldest_ms = max(start_min, self._segments.oldest_ms)
        cells: Iterable[tuple[bytes, bytes]] = self.cells.range(first, None)
        for cell, data in reversed(list(cells)) if reverse else cells:
            key, start = cell[: -PLACE.size], PLACE.unpack_from(cell, len(cell) - PLACE.size)[0]
            if (last is None or key <= last) and (first is None or key >= first):
                if oldest_ms <= start <= start_max:
                    yield self._windowed(key, start), self._value_of(data)
            elif last is not None and key > last and not key.startswith(last) and not reverse:
                return

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]:
        return self.fetch_range(reverse=reverse)

    def show_expired(self) -> None:
        """Reads also return expired cells that still exist, as Kafka's cache does."""
        self._segments.show_expired()

    def saved(self) -> bytes:
        return PLACE.pack(self._segments.observed_ms, self._number)

    def restore(self, saved: bytes) -> None:
        observed_ms, self._number = PLACE.unpack(saved)
        self._segments.observe(observed_ms)

    def _windowed(self, key: bytes, start: int) -> Windowed[K]:
        end = min(start + self.window_ms, TIME_MAX)
        return Windowed(cast(K, self._key.deserialize(self.topic, key)), Window(start, end))

    def _value_of(self, data: bytes) -> V:
        return cast(V, self._value.deserialize(self.topic, data))


class SessionStore(Generic[K, V]):
    """Values by key and session. Sessions expire `retention_ms` before the newest end."""

    def __init__(self, spec: StoreSpec, cells: Cells, topic: str = "") -> None:
        if spec.retention_ms is None:
            raise ValueError(f"session store {spec.name} needs retention_ms")
        self.spec = spec
        self.name = spec.name
        self.cells = cells
        self.topic = topic
        self._segments = StoreSegments(cells, spec.retention_ms, from_end=BOUNDS.size)
        self._key = spec.key
        self._value = spec.cell_value

    def key_bytes(self, key: K) -> bytes:
        data = self._key.serialize(self.topic, key)
        if data is None:
            raise ValueError("key cannot be null")
        return data

    def put(self, key: Windowed[K], value: V | None) -> None:
        """None removes the session."""
        start, end = key.window
        if not self._segments.admits(end):
            return
        cell = self.key_bytes(key.key) + BOUNDS.pack(end, start)
        data = self._value.serialize(self.topic, value)
        self._segments.note(cell, end, present=data is not None)
        self.cells.put(cell, data)

    def remove(self, key: Windowed[K]) -> None:
        self.put(key, None)

    def fetch_session(self, key: K, start: int, end: int) -> V | None:
        if end < self._segments.oldest_ms:
            return None
        data = self.cells.get(self.key_bytes(key) + BOUNDS.pack(end, start))
        return None if data is None else cast(V, self._value.deserialize(self.topic, data))

    def find_sessions(
        self, key: K, earliest_end: int, latest_start: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Sessions that end at `earliest_end` or later and start at `latest_start` or earlier."""
        stem = self.key_bytes(key)
        first_ms = max(earliest_end, self._segments.oldest_ms, 0)
        cells = self.cells.under(stem, BOUNDS.size, first_ms, self._segments.newest_ms)
        for cell, data in reversed(cells) if reverse else cells:
            end, start = BOUNDS.unpack_from(cell, len(stem))
            if start <= latest_start:
                value = cast(V, self._value.deserialize(self.topic, data))
                yield Windowed(key, Window(start, end)), value

    def fetch(self, key: K, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]:
        return self.find_sessions(key, 0, TIME_MAX, reverse=reverse)

    def all(self) -> Iterator[tuple[Windowed[K], V]]:
        oldest_ms = self._segments.oldest_ms
        for cell, data in self.cells.range(None, None):
            end, start = BOUNDS.unpack_from(cell, len(cell) - BOUNDS.size)
            if end >= oldest_ms:
                key = cast(K, self._key.deserialize(self.topic, cell[: -BOUNDS.size]))
                value = cast(V, self._value.deserialize(self.topic, data))
                yield Windowed(key, Window(start, end)), value

    def show_expired(self) -> None:
        """Reads also return expired cells that still exist, as Kafka's cache does."""
        self._segments.show_expired()

    def saved(self) -> bytes:
        return LONG.pack(self._segments.observed_ms)

    def restore(self, saved: bytes) -> None:
        self._segments.observe(*LONG.unpack(saved))


def _present(cells: Sequence[bytes | None]) -> Sequence[bytes]:
    if None in cells:
        raise ValueError("key cannot be null")
    return cast(Sequence[bytes], cells)


StateStore = KeyValueStore[Any, Any] | WindowStore[Any, Any] | SessionStore[Any, Any]


def after(prefix: bytes) -> bytes | None:
    """The smallest key after all that begin with `prefix`; None if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
