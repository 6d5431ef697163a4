"""Records that come and go, by topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final

from ottla.metrics import NO_LABELS, Family, Sample

_COUNT: Final = Struct(">i")
_COUNT_POSITION: Final = 57  # in a record batch
_BATCH_OVERHEAD: Final = 61

FIELDS: Final = (
    ("bytes_in", "bytesin", "Bytes of record batches that producers brought."),
    ("bytes_out", "bytesout", "Bytes of record batches that consumers took."),
    ("records_in", "messagesin", "Records that producers brought."),
    ("replication_bytes_out", "replicationbytesout", "Bytes that followers took."),
    ("produces", "totalproducerequests", "Partitions that Produce requests named."),
    ("fetches", "totalfetchrequests", "Partitions in answers to consumers' Fetch requests."),
    ("failed_produces", "failedproducerequests", "Those of Produce that were refused."),
    ("failed_fetches", "failedfetchrequests", "Those of Fetch that were refused."),
)


class Traffic:
    """Counters of one topic."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "produces",
        "records_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.records_in = self.replication_bytes_out = 0
        self.produces = self.fetches = self.failed_produces = self.failed_fetches = 0

    def add(self, other: Traffic) -> None:
        for field, _, _ in FIELDS:
            setattr(self, field, getattr(self, field) + getattr(other, field))


class Topics:
    """Traffic by topic's name. One that is gone is forgotten when somebody looks; what it had, and
    what was asked of one that never was, stays in the sum of all."""

    def __init__(self, exists: Callable[[str], bool]) -> None:
        self.by_name: dict[str, Traffic] = {}
        self._exists = exists
        self._others = Traffic()

    def add(self, name: str) -> Traffic:
        """A topic that nothing is known of yet."""
        if not self._exists(name):
            return self._others
        found = self.by_name[name] = Traffic()
        return found

    def families(self) -> Iterator[Family]:
        """As the usual exporter has them: one sample without a topic, which is all of them."""
        for name in [name for name in self.by_name if not self._exists(name)]:
            self._others.add(self.by_name.pop(name))
        total = Traffic()
        for traffic in (self._others, *self.by_name.values()):
            total.add(traffic)
        known = sorted(self.by_name.items())
        for field, name, help in FIELDS:
            samples = [Sample(NO_LABELS, getattr(total, field))]
            samples += [Sample({"topic": topic}, getattr(each, field)) for topic, each in known]
            yield Family(f"kafka_server_brokertopicmetrics_{name}_total", "counter", help, samples)


def record_count(batch: Any) -> int:
    """As its header says."""
    if len(batch) < _BATCH_OVERHEAD:
        return 0
    count: int = _COUNT.unpack_from(batch, _COUNT_POSITION)[0]
    return count
