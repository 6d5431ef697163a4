"""Records of topics as plain tuples: the input and output of the transformation chain."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class ConsumedRow(NamedTuple):
    """A record as it was consumed."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ProducedRow(NamedTuple):
    """A record to produce. Partition None: by key; timestamp None: now."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: Headers = ()
