"""What is counted of each kind of request, and what its response says of errors and records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from ottla.broker.metrics.codes import Codes
from ottla.broker.metrics.traffic import Topics, record_count
from ottla.errors import ErrorCode
from ottla.metrics import Family, Histogram, Sample, by_label
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceResponse

MS: Final = 1_000_000  # in nanoseconds
# From less than a handler takes to longer than anybody waits.
BOUNDS_MS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 30000)
BOUNDS_NS: Final = tuple(int(bound * MS) for bound in BOUNDS_MS)


class Meter:
    """Of one kind of request. Those that are answered at once have one time, others have two."""

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

    def __init__(self, name: str, version_max: int, codes: Codes | None = None) -> None:
        self.name = name
        self.codes = codes  # None: of Produce and Fetch, which are looked at on their own
        self.versions = [0] * (version_max + 2)  # the last is for what we do not know
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
        """The same, of a response so large that it is counted elsewhere."""
        return Counter() if self.codes is None else Counter(self.codes.errors(response))


def count_produced(
    meter: Meter, topics: Topics, names: list[str], request: ProduceRequest, response: Any
) -> None:
    """HOT while metrics are on: a Produce that was answered at once: its records are there.

    Without a response (acks 0) all of it was appended.
    """
    answers: list[TopicProduceResponse] = [] if response is None else response.responses
    for place, topic in enumerate(request.topic_data):
        traffic = topics.by_name.get(names[place]) or topics.add(names[place])
        for index, data in enumerate(topic.partition_data):
            traffic.produces += 1
            if answers and answers[place].partition_responses[index].error_code:
                meter.errors[answers[place].partition_responses[index].error_code] += 1
                traffic.failed_produces += 1
            else:
                records: Any = data.records
                traffic.bytes_in += len(records)
                traffic.records_in += record_count(records)


Brought = tuple[str, int, int]
"""What a Produce request brings to one partition: topic, bytes, records."""


def brought_by(request: ProduceRequest, names: list[str]) -> list[Brought]:
    """What is to be counted once it is committed, when the records themselves are gone."""
    return [
        (name, len(data.records or b""), record_count(data.records or b""))
        for name, topic in zip(names, request.topic_data, strict=True)
        for data in topic.partition_data
    ]


def count_brought(
    meter: Meter, topics: Topics, brought: list[Brought], response: ProduceResponse
) -> None:
    codes = [each.error_code for topic in response.responses for each in topic.partition_responses]
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
    meter: Meter, topics: Topics, names: list[str], response: FetchResponse, *, follower: bool
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


def families(meters: list[Meter]) -> Iterator[Family]:
    name = "kafka_network_requestmetrics"
    yield Family(
        f"{name}_requests_total",
        "counter",
        "Requests that came, by API and version.",
        [
            Sample({"request": each.name, "version": str(version)}, count)
            for each in meters
            for version, count in enumerate(each.versions)
            if count
        ],
    )
    yield Family(
        f"{name}_errors_total",
        "counter",
        "Error codes in responses; each partition of a response counts.",
        [
            Sample({"request": each.name, "error": error_name(code)}, count)
            for each in meters
            for code, count in sorted(each.errors.items())
        ],
    )
    yield Family(
        f"{name}_totaltimems",
        "histogram",
        "Milliseconds from a request's handler to its response, waiting included.",
        [
            sample
            for each in meters
            for sample in each.at_once.plus(each.until_answered).samples(
                {"request": each.name}, unit=MS
            )
        ],
    )
    yield Family(
        f"{name}_localtimems",
        "histogram",
        "Milliseconds in which a request's handler kept the event loop to itself.",
        [
            sample
            for each in meters
            for sample in each.at_once.plus(each.before_waiting).samples(
                {"request": each.name}, unit=MS
            )
        ],
    )
    yield by_label(
        "ottla_requests_waiting",
        "gauge",
        "Requests that wait: for records, for replicas, for members of a group.",
        "request",
        [(each.name, each.waiting) for each in meters if each.before_waiting.count],
    )


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
