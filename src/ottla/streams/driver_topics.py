"""The topics that a test writes and reads through a TopologyTestDriver."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ottla.client.serde import Serde
from ottla.client.serde_arguments import serialized
from ottla.engine.records import AnyRecord, Headers, OutputRow, Record

Pipe = Callable[[str, bytes | None, bytes | None, int, Headers], None]


class InputTopic:
    def __init__(
        self,
        pipe: Pipe,
        topic: str,
        key: Serde[Any],
        value: Serde[Any],
        start_timestamp: int,
        auto_advance: int,
    ) -> None:
        self._pipe = pipe
        self.topic = topic
        self._key = key
        self._value = value
        self._next = start_timestamp
        self._advance = auto_advance

    def pipe_input(self, *given: Any, timestamp: int | None = None, headers: Headers = ()) -> None:
        """`pipe_input(value)`, `pipe_input(key, value)` or `pipe_input(key, value, timestamp)`."""
        if not 1 <= len(given) <= 3:
            raise TypeError("pipe_input takes (value), (key, value) or (key, value, timestamp)")
        key, value = (None, given[0]) if len(given) == 1 else (given[0], given[1])
        if len(given) == 3:
            timestamp = given[2]
        if timestamp is None:
            timestamp = self._next
            self._next += self._advance
        pairs = list(headers)
        data = serialized((self._key, self._value), self.topic, key, value, pairs)
        self._pipe(self.topic, *data, timestamp, tuple(pairs))

    def pipe_record(self, record: AnyRecord) -> None:
        self.pipe_input(
            record.key, record.value, timestamp=record.timestamp, headers=record.headers
        )

    def pipe_record_list(self, records: Iterable[AnyRecord]) -> None:
        for record in records:
            self.pipe_record(record)

    def pipe_value_list(
        self, values: Iterable[Any], start_timestamp: int | None = None, advance: int = 0
    ) -> None:
        self.pipe_key_value_list(((None, value) for value in values), start_timestamp, advance)

    def pipe_key_value_list(
        self,
        pairs: Iterable[tuple[Any, Any]],
        start_timestamp: int | None = None,
        advance: int = 0,
    ) -> None:
        """With timestamps from `start_timestamp` in steps of `advance`, else the topic's own."""
        for number, (key, value) in enumerate(pairs):
            timestamp = None if start_timestamp is None else start_timestamp + number * advance
            self.pipe_input(key, value, timestamp=timestamp)

    def advance_time(self, advance_ms: int) -> None:
        """Advances the time of records without a timestamp."""
        if advance_ms < 0:
            raise ValueError("advance_ms must be 0 or more")
        self._next += advance_ms


class OutputTopic:
    """Returns each record once, in order."""

    def __init__(
        self, topic: str, key: Serde[Any], value: Serde[Any], waiting: deque[OutputRow]
    ) -> None:
        self.topic = topic
        self._key = key
        self._value = value
        self._waiting = waiting

    @property
    def queue_size(self) -> int:
        return len(self._waiting)

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def read_record(self) -> AnyRecord:
        if not self._waiting:
            raise LookupError(f"Empty topic: {self.topic}")
        row = self._waiting.popleft()
        key = self._key.deserialize_with_headers(self.topic, row.headers, row.key)
        value = self._value.deserialize_with_headers(self.topic, row.headers, row.value)
        return Record(key, value, row.timestamp, row.headers)

    def read_value(self) -> Any:
        return self.read_record().value

    def read_key_value(self) -> tuple[Any, Any]:
        record = self.read_record()
        return record.key, record.value

    def read_records_to_list(self) -> list[AnyRecord]:
        return [self.read_record() for _ in range(len(self._waiting))]

    def read_key_values_to_list(self) -> list[tuple[Any, Any]]:
        return [self.read_key_value() for _ in range(len(self._waiting))]

    def read_values_to_list(self) -> list[Any]:
        return [self.read_value() for _ in range(len(self._waiting))]

    def read_key_values_to_map(self) -> dict[Any, Any]:
        """The last value of each key."""
        return dict(self.read_key_values_to_list())
