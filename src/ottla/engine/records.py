"""What flows through a topology: records, changes of tables, windows, and rows at both ends.

A record is handed on, never changed: several nodes may see the same one. `with_key`, `with_value`
and `with_timestamp` make a new one.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

Headers = tuple[tuple[str, bytes | None], ...]


class Record(Generic[K, V]):
    # No dataclass, because mypyc leaves its constructor to the interpreter.
    __slots__ = ("headers", "key", "timestamp", "value")
    __match_args__ = ("key", "value", "timestamp", "headers")

    def __init__(self, key: K, value: V, timestamp: int, headers: Headers = ()) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        mine = (self.key, self.value, self.timestamp, self.headers)
        return mine == (other.key, other.value, other.timestamp, other.headers)

    def __repr__(self) -> str:
        return (
            f"Record(key={self.key!r}, value={self.value!r}, timestamp={self.timestamp!r},"
            f" headers={self.headers!r})"
        )

    def with_key(self, key: K2) -> Record[K2, V]:
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: V2) -> Record[K, V2]:
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> Record[K, V]:
        return Record(self.key, self.value, self.timestamp, headers)


class Change(NamedTuple, Generic[V]):
    """An update of a table: the value now and the value before; None where there is none."""

    new: V | None
    old: V | None


class Window(NamedTuple):
    """Milliseconds; of a session window the end belongs to it, of the others it does not."""

    start: int
    end: int


class Windowed(NamedTuple, Generic[K]):
    """The key of a windowed table."""

    key: K
    window: Window


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """What a timestamped store holds for a key."""

    value: V
    timestamp: int


class RecordMetadata(NamedTuple):
    """Where the record that is being processed was read."""

    topic: str
    partition: int
    offset: int


class Input(NamedTuple):
    """A row that enters a task.

    `topic` says which source takes it. A row that was given a new key on its way (see Prefix in
    subtopologies.py) carries the name of the repartition topic that it stands for, the place where
    it was read as `origin`, `partition` and `offset`, and its number among the rows that were made
    of the record there as `turn`: with these it finds its old order again behind a shuffle.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    turn: int = 0
    origin: str = ""


class Output(NamedTuple):
    """A row that leaves a task for a topic; partition None: by the key, as producers do."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()
    partition: int | None = None


AnyRecord = Record[Any, Any]
