"""Records and their metadata, as clients send and receive them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:  # type checkers only; typing has defaults of type variables from Python 3.13 on
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
class ConsumerRecord(Generic[K, V]):
    """A record from a consumer. A null key or value is None, with every serde."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K | None
    value: V | None
    headers: Headers = ()
    leader_epoch: int | None = None
    timestamp_type: str = "CreateTime"
    delivery_count: int | None = None  # share groups: how often it was delivered

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(slots=True, frozen=True)
class RecordMetadata:
    """Where a sent record is stored; offset -1 with acks=0, because no broker says it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
