"""Metrics of produced and fetched records, by topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final

from ottla.metrics import NO_LABELS, MetricFamily, Sample

_COUNT: Final = Struct(">i")
_COUNT_POSITION: Final = 57  # in a record batch
_BATCH_OVERHEAD: Final = 61

FIELDS: Final = (
    ("bytes_in", "bytesin", "Bytes of record batches from producers."),
    ("bytes_out", "bytesout", "Bytes of record batches to consumers."),
    ("records_in", "messagesin", "Records from producers."),
    ("replication_bytes_out", "replicationbytesout", "Bytes of record batches to followers."),
    ("produces", "totalproducerequests", "Partitions in Produce requests."),
    ("fetches", "totalfetchrequests", "Partitions in responses to consumers' Fetch requests."),
    ("failed_produces", "failedproducerequests", "Partitions in Produce requests that failed."),
    ("failed_fetches", "failedfetchrequests", "Partitions in Fetch responses that failed."),
)


class BrokerTopicMetrics:
    """The counters of one topic."""

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

    def add(self, addend: BrokerTopicMetrics) -> None:
        for field, _, _ in FIELDS:
            setattr(self, field, getattr(self, field) + getattr(addend, field))


class BrokerTopicStats:
    """The counters of all topics, by name. A deleted topic is removed when the page is rendered;
    its counts, and those of topics that never existed, stay in the total."""

    def __init__(self, exists: Callable[[str], bool]) -> None:
        self.by_name: dict[str, BrokerTopicMetrics] = {}
        self._exists = exists
        self._others = BrokerTopicMetrics()

    def add(self, name: str) -> BrokerTopicMetrics:
        """The counters of a topic that is not in `by_name` yet."""
        if not self._exists(name):
            return self._others
        metrics = self.by_name[name] = BrokerTopicMetrics()
        return metrics

    def families(self) -> Iterator[MetricFamily]:
        """As the JMX exporter has them: the sample without a topic is the total."""
        for name in [name for name in self.by_name if not self._exists(name)]:
            self._others.add(self.by_name.pop(name))
        total = BrokerTopicMetrics()
        for traffic in (self._others, *self.by_name.values()):
            total.add(traffic)
        known = sorted(self.by_name.items())
        for field, name, help in FIELDS:
            samples = [Sample(NO_LABELS, getattr(total, field))]
            samples += [
                Sample({"topic": topic}, getattr(traffic, field)) for topic, traffic in known
            ]
            yield MetricFamily(
                f"kafka_server_brokertopicmetrics_{name}_total", "counter", help, samples
            )


def record_count(batch: Any) -> int:
    """The record count in a batch's header."""
    if len(batch) < _BATCH_OVERHEAD:
        return 0
    count: int = _COUNT.unpack_from(batch, _COUNT_POSITION)[0]
    return count
