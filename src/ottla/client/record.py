"""What a client sends and receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:  # defaults of type variables are for checkers only; typing has them from Python 3.13 on
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

Headers = tuple[tuple[str, bytes | None], ...]


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True, frozen=True)
class Record(Generic[K, V]):
    """A record as a consumer reads it. A null key or value is None, whatever the serde."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K | None
    value: V | None
    headers: Headers = ()
    leader_epoch: int | None = None
    timestamp_type: str = "CreateTime"
    delivery_count: int | None = None  # of a share group: how often it was handed out

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(slots=True, frozen=True)
class Delivered:
    """Where a record that was sent lies now; offset -1 when nobody was asked (acks 0)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
