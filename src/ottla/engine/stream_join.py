"""A join of two streams: each record looks up its partners in the other side's window store.

Inner results are emitted at once, with the later of both timestamps. A result without a partner is
emitted when no partner can arrive any more: the record waits in a store that both sides share until
the stream time of either side has passed its window and the grace period (KIP-633, KAFKA-10847).
It keeps its own timestamp.

The shared store has lists of values under timestamp (8), side (1), key: in time order, and the
right side first within the same millisecond, as in Kafka. As in Kafka, it is scanned only when the
oldest record that the last scan left could be due.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Any, Final

from ottla.client.serde import Serde
from ottla.engine.observed_stream_time import drop_null
from ottla.engine.processors import Processor, ProcessorContext
from ottla.engine.record_batch import BatchError, DeliverBatch, RecordBatch
from ottla.engine.records import AnyRecord, Record
from ottla.engine.segments import TIME_MAX
from ottla.engine.serde_config import SerdeConfig
from ottla.engine.stores import KeyValueStore, WindowStore
from ottla.engine.windows import JoinWindows

PLACE: Final = struct.Struct(">qB")

ValueJoinerWithKey = Callable[[Any, Any, Any], Any]
"""Key, left value, right value."""


class JoinSide(IntEnum):
    RIGHT = 0
    LEFT = 1


class KStreamJoinWindow(Processor[Any, Any]):
    """Stores a side's records for the other side, after joining them."""

    def __init__(self, store: str) -> None:
        self._store_name = store

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store: WindowStore[Any, Any] = context.store(self._store_name)
        self._downstream = context.downstream

    def process(self, record: AnyRecord) -> None:
        self._downstream(record)
        if record.key is not None:
            self._store.put(record.key, record.value, record.timestamp)

    def batch_step(self, downstream: DeliverBatch) -> DeliverBatch | None:
        def stored(batch: RecordBatch) -> None:
            if None in batch.keys:
                raise BatchError
            # First, because in a chain of joins `downstream` changes the next join's store.
            put_all = self._store.prepared_puts(batch.keys, batch.values, batch.timestamps)
            downstream(batch)
            put_all()

        return stored


class KStreamKStreamJoin(Processor[Any, Any]):
    """One side of a join. `outer`: its records are emitted without a partner, too."""

    def __init__(
        self,
        side: JoinSide,
        *,
        windows: JoinWindows,
        joiner: ValueJoinerWithKey,
        outer: bool,
        other_store: str,
        unjoined: OuterJoinStoreFormat | None,
        times: str,
    ) -> None:
        self._side = side
        self._joiner = joiner
        self._outer = outer
        self._other_store_name = other_store
        self._unjoined = unjoined
        self._inner = not outer and unjoined is None
        self._times_name = times
        left = side is JoinSide.LEFT
        self._before_ms = windows.before_ms if left else windows.after_ms
        self._after_ms = windows.after_ms if left else windows.before_ms
        self._grace_ms = windows.grace_ms
        self._due_ms = {
            JoinSide.LEFT: windows.after_ms + windows.grace_ms,
            JoinSide.RIGHT: windows.before_ms + windows.grace_ms,
        }

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._other: WindowStore[Any, Any] = context.store(self._other_store_name)
        self._downstream = context.downstream
        self._times = TimeTracker(context, self._times_name)
        if self._unjoined is not None:
            self._waiting: KeyValueStore[bytes, list[bytes]] = context.store(self._unjoined.store)
            self._unjoined = self._unjoined.opened(context.serdes, self._waiting.topic)

    def process(self, record: AnyRecord) -> None:
        times = self._times
        times.advance(record.timestamp)
        if self._inner and record.key is not None and record.value is not None:
            self._join(record)
            return
        if self._outer and record.key is None and record.value is not None:
            self._forward_alone(record)
            return
        if record.key is None or record.value is None:
            drop_null(self.context, "key or value")
            return
        if self._unjoined is not None and record.timestamp == times.stream_ms:
            self._emit_unjoined(self._unjoined, record)
        joined = self._join(record)
        if self._outer and not joined:
            last_ms = max(0, record.timestamp + self._after_ms)
            if self._unjoined is None or last_ms < times.stream_ms:
                self._forward_alone(record)
            else:
                times.min_ms = min(times.min_ms, record.timestamp)
                self._wait(self._unjoined, record)

    def batch_step(self, downstream: DeliverBatch) -> DeliverBatch | None:
        """Only for inner joins: the others have a store that both sides read and change."""
        return partial(self._join_batch, downstream) if self._inner else None

    def _join_batch(self, downstream: DeliverBatch, batch: RecordBatch) -> None:
        keys, values, timestamps = batch.keys, batch.values, batch.timestamps
        if None in keys or None in values:
            raise BatchError
        which, starts, others = self._other.fetch_around(
            keys, timestamps, self._before_ms, self._after_ms
        )
        if which:
            mine = [values[index] for index in which]
            lefts, rights = (mine, others) if self._side is JoinSide.LEFT else (others, mine)
            joined = [keys[index] for index in which]
            headers = batch.headers
            downstream(
                RecordBatch(
                    joined,
                    list(map(self._joiner, joined, lefts, rights)),
                    list(map(max, [timestamps[index] for index in which], starts)),
                    None if headers is None else [headers[index] for index in which],
                )
            )
        self._times.advance(max(timestamps))

    def _join(self, record: AnyRecord) -> bool:
        joined = False
        key, value, timestamp = record.key, record.value, record.timestamp
        first_ms, last_ms = timestamp - self._before_ms, max(0, timestamp + self._after_ms)
        joiner, is_left = self._joiner, self._side is JoinSide.LEFT
        for other_ms, other in self._other.fetch_all(key, first_ms, last_ms):
            joined = True
            if self._unjoined is not None:
                place = self._unjoined.key(key, other_ms, JoinSide(1 - self._side))
                self._waiting.delete(place)
            made = joiner(key, value, other) if is_left else joiner(key, other, value)
            later_ms = timestamp if timestamp > other_ms else other_ms
            self._downstream(Record(key, made, later_ms, record.headers))
        return joined

    def _joined(self, key: Any, mine: Any, other: Any) -> Any:
        if self._side is JoinSide.LEFT:
            return self._joiner(key, mine, other)
        return self._joiner(key, other, mine)

    def _forward_alone(self, record: AnyRecord) -> None:
        self.context.forward(record.with_value(self._joined(record.key, record.value, None)))

    def _wait(self, unjoined: OuterJoinStoreFormat, record: AnyRecord) -> None:
        key = unjoined.key(record.key, record.timestamp, self._side)
        waiting = self._waiting.get(key) or []
        self._waiting.put(key, [*waiting, unjoined.value(record.value, self._side)])

    def _emit_unjoined(self, unjoined: OuterJoinStoreFormat, record: AnyRecord) -> None:
        times = self._times
        # Nothing that waits can be due before the oldest record that the last scan left.
        if times.min_ms + self._after_ms + self._grace_ms >= times.stream_ms:
            return
        times.min_ms = TIME_MAX
        still_open: set[JoinSide] = set()
        for place, values in self._waiting.all():
            timestamp, side, key = unjoined.read(place)
            for data in values:
                times.min_ms = timestamp
                if len(still_open) == len(JoinSide):
                    return
                if timestamp + self._due_ms[side] >= times.stream_ms:
                    still_open.add(side)
                else:
                    value = unjoined.read_value(data, side)
                    self._forward_unjoined(record, key, timestamp, side, value)
            if side not in still_open:
                self._waiting.put(place, None)

    def _forward_unjoined(
        self, record: AnyRecord, key: Any, timestamp: int, side: JoinSide, value: Any
    ) -> None:
        left, right = (value, None) if side is JoinSide.LEFT else (None, value)
        found = record.with_key(key).with_value(self._joiner(key, left, right))
        self.context.forward(found.with_timestamp(timestamp))


class OuterJoinStoreFormat:
    """The layout of the outer join store, which both sides share."""

    def __init__(self, store: str, key: Serde[Any], left: Serde[Any], right: Serde[Any]) -> None:
        self.store = store
        self._key = key
        self._values = {JoinSide.LEFT: left, JoinSide.RIGHT: right}
        self._topic = store

    def opened(self, serdes: SerdeConfig, topic: str) -> OuterJoinStoreFormat:
        left, right = (serdes.value(self._values[side]) for side in (JoinSide.LEFT, JoinSide.RIGHT))
        made = OuterJoinStoreFormat(self.store, serdes.key(self._key), left, right)
        made._topic = topic
        return made

    def key(self, key: Any, timestamp: int, side: JoinSide) -> bytes:
        return PLACE.pack(timestamp, side) + (self._key.serialize(self._topic, key) or b"")

    def read(self, place: bytes) -> tuple[int, JoinSide, Any]:
        timestamp, side = PLACE.unpack_from(place)
        return timestamp, JoinSide(side), self._key.deserialize(self._topic, place[PLACE.size :])

    def value(self, value: Any, side: JoinSide) -> bytes:
        # The two sides have different schemas, which one subject would not accept.
        return self._values[side].serialize(f"{self._topic}-{side.name.lower()}", value) or b""

    def read_value(self, data: bytes, side: JoinSide) -> Any:
        return self._values[side].deserialize(f"{self._topic}-{side.name.lower()}", data)


class TimeTracker:
    """The stream time of a join, shared by both sides and stored with the task's state."""

    def __init__(self, context: ProcessorContext, name: str) -> None:
        self._numbers = context.numbers
        self._stream_name = f"{name}/stream"
        self._min_name = f"{name}/min"

    def advance(self, timestamp: int) -> None:
        if timestamp > self._numbers.get(self._stream_name, -1):
            self._numbers[self._stream_name] = timestamp

    @property
    def stream_ms(self) -> int:
        return self._numbers.get(self._stream_name, -1)

    @property
    def min_ms(self) -> int:
        """The timestamp of the oldest waiting record, as far as the last scan went."""
        return self._numbers.get(self._min_name, TIME_MAX)

    @min_ms.setter
    def min_ms(self, timestamp: int) -> None:
        self._numbers[self._min_name] = timestamp
