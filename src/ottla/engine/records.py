"""What flows through a topology: records, changes of tables, windows, and input and output rows.

Nodes never modify a record, because several nodes may share it; `with_key`, `with_value` and
`with_timestamp` return a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

Headers = tuple[tuple[str, bytes | None], ...]


class Record(Generic[K, V]):
    # Not a dataclass, because mypyc would leave its constructor to the interpreter.
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
    """An update of a table: new and old value; None for a missing one."""

    new: V | None
    old: V | None


class Window(NamedTuple):
    """In milliseconds; the end is inclusive for session windows, exclusive for the others."""

    start: int
    end: int


class Windowed(NamedTuple, Generic[K]):
    """The key of a windowed table."""

    key: K
    window: Window


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """The value of a timestamped store."""

    value: V
    timestamp: int


class RecordMetadata(NamedTuple):
    """The source of the record that is being processed."""

    topic: str
    partition: int
    offset: int


class InputRow(NamedTuple):
    """A row that enters a task.

    `topic` selects the source. For a row that a prefix has rekeyed (see Prefix in
    subtopologies.py), `topic` is the repartition topic that the shuffle replaces; `origin`,
    `partition` and `offset` say where it was read, and `turn` numbers the rows that came of the
    same record. With these the task restores the order that the shuffle has lost.
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


class OutputRow(NamedTuple):
    """A row that a task sends to a topic; partition None: the producer partitions by the key."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()
    partition: int | None = None


@dataclass(slots=True)
class OutputColumns:
    """Rows that a task sends to one topic, as columns; the producer partitions by the keys.

    Keys and values are lists, or binary arrays of Arrow's. `headers` is None if no row has any.
    """

    topic: str
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[Headers] | None = None

    def rows(self) -> Iterator[OutputRow]:
        headers = repeat(()) if self.headers is None else self.headers
        keys, values = _python(self.keys), _python(self.values)
        return map(OutputRow, repeat(self.topic), keys, values, self.timestamps, headers)


def output_rows(outputs: Sequence[OutputRow | OutputColumns]) -> list[OutputRow]:
    found: list[OutputRow] = []
    for output in outputs:
        if isinstance(output, OutputColumns):
            found.extend(output.rows())
        else:
            found.append(output)
    return found


def _python(column: Any) -> Sequence[bytes | None]:
    found: Sequence[bytes | None] = column if isinstance(column, list) else column.to_pylist()
    return found


AnyRecord = Record[Any, Any]
