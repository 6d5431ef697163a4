"""Metrics of each kind of request: versions, times, errors, and the records that pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from ottla.broker.metrics.broker_topic_stats import BrokerTopicStats, record_count
from ottla.broker.metrics.error_code_finder import ErrorCodeFinder
from ottla.errors import ErrorCode
from ottla.metrics import Histogram, MetricFamily, Sample, by_label
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceResponse

MS: Final = 1_000_000  # in nanoseconds
# From less than any handler takes to longer than any request waits.
BOUNDS_MS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 30000)
BOUNDS_NS: Final = tuple(int(bound * MS) for bound in BOUNDS_MS)


class RequestMetrics:
    """Metrics of one kind of request. Requests that wait have two times, the others one."""

    __slots__ = (
        "at_once",
        "before_waiting",
        "codes",
        "errors",
        "name",
        "until_answered",
        "versions",
        "waiting",
    )

    def __init__(self, name: str, version_max: int, codes: ErrorCodeFinder | None = None) -> None:
        self.name = name
        self.codes = codes  # None for Produce and Fetch, which are counted separately
        self.versions = [0] * (version_max + 2)  # the last one counts unknown versions
        self.errors: Counter[int] = Counter()
        self.at_once = Histogram(BOUNDS_NS)
        self.before_waiting = Histogram(BOUNDS_NS)
        self.until_answered = Histogram(BOUNDS_NS)
        self.waiting = 0

    def count_errors(self, response: Any) -> None:
        if self.codes is not None and response is not None:
            for code in self.codes.errors(response):
                self.errors[code] += 1

    def errors_of(self, response: Any) -> Counter[int]:
        """The same for a large response, which is counted off the loop."""
        return Counter() if self.codes is None else Counter(self.codes.errors(response))


def count_produced(
    meter: RequestMetrics,
    topics: BrokerTopicStats,
    names: list[str],
    request: ProduceRequest,
    response: Any,
) -> None:
    """HOT while metrics are on. Count a Produce that was answered at once.

    Without a response (acks 0) all of its records were appended.
    """
    answers: list[TopicProduceResponse] = [] if response is None else response.responses
    for topic_index, topic in enumerate(request.topic_data):
        traffic = topics.by_name.get(names[topic_index]) or topics.add(names[topic_index])
        for index, data in enumerate(topic.partition_data):
            traffic.produces += 1
            if answers and answers[topic_index].partition_responses[index].error_code:
                meter.errors[answers[topic_index].partition_responses[index].error_code] += 1
                traffic.failed_produces += 1
            else:
                records: Any = data.records
                traffic.bytes_in += len(records)
                traffic.records_in += record_count(records)


PendingProduce = tuple[str, int, int]
"""What a Produce request appends to one partition: topic, bytes, records."""


def pending_produces(request: ProduceRequest, names: list[str]) -> list[PendingProduce]:
    """What to count when the request is committed, because its records are freed before that."""
    return [
        (name, len(data.records or b""), record_count(data.records or b""))
        for name, topic in zip(names, request.topic_data, strict=True)
        for data in topic.partition_data
    ]


def count_committed(
    meter: RequestMetrics,
    topics: BrokerTopicStats,
    brought: list[PendingProduce],
    response: ProduceResponse,
) -> None:
    codes = [
        partition.error_code
        for topic in response.responses
        for partition in topic.partition_responses
    ]
    for (name, size, count), code in zip(brought, codes, strict=True):
        traffic = topics.by_name.get(name) or topics.add(name)
        traffic.produces += 1
        if code:
            meter.errors[code] += 1
            traffic.failed_produces += 1
        else:
            traffic.bytes_in += size
            traffic.records_in += count


def count_fetched(
    meter: RequestMetrics,
    topics: BrokerTopicStats,
    names: list[str],
    response: FetchResponse,
    *,
    follower: bool,
) -> None:
    """HOT while metrics are on."""
    if response.error_code:
        meter.errors[response.error_code] += 1
    for name, topic in zip(names, response.responses, strict=True):
        traffic = topics.by_name.get(name) or topics.add(name)
        for data in topic.partitions:
            if data.error_code:
                meter.errors[data.error_code] += 1
                traffic.failed_fetches += 1
            size = len(data.records) if data.records else 0
            if follower:
                traffic.replication_bytes_out += size
            else:
                traffic.fetches += 1
                traffic.bytes_out += size


def request_families(meters: list[RequestMetrics]) -> Iterator[MetricFamily]:
    name = "kafka_network_requestmetrics"
    yield MetricFamily(
        f"{name}_requests_total",
        "counter",
        "Requests received, by API and version.",
        [
            Sample({"request": meter.name, "version": str(version)}, count)
            for meter in meters
            for version, count in enumerate(meter.versions)
            if count
        ],
    )
    yield MetricFamily(
        f"{name}_errors_total",
        "counter",
        "Error codes in responses, counted per partition.",
        [
            Sample({"request": meter.name, "error": error_name(code)}, count)
            for meter in meters
            for code, count in sorted(meter.errors.items())
        ],
    )
    yield MetricFamily(
        f"{name}_totaltimems",
        "histogram",
        "Milliseconds from the start of a request's handler to its response.",
        [
            sample
            for meter in meters
            for sample in meter.at_once.plus(meter.until_answered).samples(
                {"request": meter.name}, unit=MS
            )
        ],
    )
    yield MetricFamily(
        f"{name}_localtimems",
        "histogram",
        "Milliseconds for which a request's handler occupied the event loop.",
        [
            sample
            for meter in meters
            for sample in meter.at_once.plus(meter.before_waiting).samples(
                {"request": meter.name}, unit=MS
            )
        ],
    )
    yield by_label(
        "ottla_requests_waiting",
        "gauge",
        "Requests that are waiting for records, for replicas or for members of a group.",
        "request",
        [(meter.name, meter.waiting) for meter in meters if meter.before_waiting.count],
    )


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
