"""Records of topics as plain tuples: what a chain reads and what it makes."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class ConsumedRow(NamedTuple):
    """A record of a topic, as it was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ProducedRow(NamedTuple):
    """A record for a topic; partition None: by the key, timestamp None: now."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: Headers = ()
