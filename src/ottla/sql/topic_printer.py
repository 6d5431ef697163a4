"""PRINT: records of a topic as lines of text, in the formats that they appear to have.

The output names every format that fits all records so far; values are shown in the first of them.
Eight letters would be a valid BIGINT, so bytes that are all printable never count as a number.
"""

from __future__ import annotations

import datetime as dt
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client import Consumer, ConsumerRecord, TopicPartition
from ottla.client.delivery import Setting
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.schema_registry import SchemaRegistry
from ottla.rows.errors import SqlError
from ottla.rows.formats.json_values import json_text, parse_exact
from ottla.schemas import framing
from ottla.spark.limits import EARLIEST, LATEST
from ottla.sql.catalog import did_you_mean
from ottla.sql.schema_formats import Show, schema_formats
from ottla.sql.syntax.statements import Print

NULL: Final = "<null>"
UNKNOWN: Final = "UNRECOGNIZED_BYTES"
PLAUSIBLE_MS_MAX: Final = 4_102_444_800_000  # the year 2100
PATIENCE_S: Final = 10.0
TAKE_RECORDS_MAX: Final = 500


def _json(data: bytes) -> str:
    return json_text(parse_exact(data))


def _text(data: bytes) -> str:
    return data.decode()


def _number(form: str) -> Show:
    number = struct.Struct(form)

    def show(data: bytes) -> str:
        if len(data) != number.size or _is_printable(data):
            raise ValueError("not a number")
        return str(number.unpack(data)[0])

    return show


def _is_printable(data: bytes) -> bool:
    try:
        return data.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _bytes(data: bytes) -> str:
    return data.hex()


PLAIN: Final[dict[str, Show]] = {
    "JSON": _json,
    "KAFKA_INT": _number(">i"),
    "KAFKA_BIGINT": _number(">q"),
    "KAFKA_DOUBLE": _number(">d"),
    "KAFKA_STRING": _text,
}


def _session(inner: Show) -> Show:
    def show(data: bytes) -> str:
        end, start = struct.unpack(">qq", data[-16:]) if len(data) >= 16 else (-1, 0)
        if not 0 <= start <= end <= PLAUSIBLE_MS_MAX:
            raise ValueError("no session")
        return f"[{inner(data[:-16])}@{start}/{end}]"

    return show


def _windowed(inner: Show) -> Show:
    def show(data: bytes) -> str:
        start = struct.unpack(">q", data[-8:])[0] if len(data) > 8 else -1
        if not 0 < start <= PLAUSIBLE_MS_MAX:
            raise ValueError("no window")
        return f"[{inner(data[:-8])}@{start}/-]"

    return show


def windowed(formats: Mapping[str, Show]) -> dict[str, Show]:
    """The same formats for keys that are followed by a window."""
    return {
        **{f"SESSION({name})": _session(show) for name, show in formats.items()},
        **{f"HOPPING({name})": _windowed(show) for name, show in formats.items()},
        **{f"TUMBLING({name})": _windowed(show) for name, show in formats.items()},
    }


WINDOWED: Final = windowed(PLAIN)


class FormatGuess:
    """The formats that fit all values so far, best first. `named` are those with a registered
    schema."""

    def __init__(self, named: Mapping[str, Show], plain: Mapping[str, Show], header: str) -> None:
        self._named = frozenset(named)
        self._header = header
        self._formats = {**named, **plain}
        self._seen = False

    @property
    def text(self) -> str:
        if not self._seen:
            return "¯\\_(ツ)_/¯ - no data processed"
        return " or ".join(self._formats) or UNKNOWN

    def show(self, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> str:
        if data is None:
            return NULL
        self._seen = True
        frame = next((value for name, value in reversed(headers) if name == self._header), None)
        framed = (frame or b"") + data
        shown: dict[str, str] = {}
        for name, show in self._formats.items():
            try:
                shown[name] = show(framed if name in self._named else data)
            except (ValueError, RecursionError):
                continue
        self._formats = {name: self._formats[name] for name in shown}
        return next(iter(shown.values()), None) or _bytes(data)


@dataclass(slots=True)
class _ReportedFormats:
    key: str = ""
    value: str = ""


class RecordFormatter:
    """Formats records as lines, with a line for the formats when they are found and when they
    change."""

    def __init__(self, registry: SchemaRegistry | None = None) -> None:
        named = {} if registry is None else schema_formats(registry)
        plain = {**WINDOWED, **PLAIN}
        self._key = FormatGuess({**windowed(named), **named}, plain, framing.KEY_HEADER)
        self._value = FormatGuess(named, PLAIN, framing.VALUE_HEADER)
        self._reported = _ReportedFormats()

    def of(self, record: ConsumerRecord[bytes, bytes]) -> list[str]:
        key = self._key.show(record.key, record.headers)
        value = self._value.show(record.value, record.headers)
        lines = []
        if self._reported.key != self._key.text:
            self._reported.key = self._key.text
            lines.append(f"Key format: {self._reported.key}")
        if self._reported.value != self._value.text:
            self._reported.value = self._value.text
            lines.append(f"Value format: {self._reported.value}")
        moment = rowtime_text(record.timestamp_ms)
        lines.append(
            f"rowtime: {moment}, key: {key}, value: {value}, partition: {record.partition}"
        )
        return lines


def rowtime_text(timestamp_ms: int) -> str:
    """`2024/02/29 23:59:58.123 Z`."""
    if timestamp_ms < 0:
        return "N/A"
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=timestamp_ms)
    return f"{moment:%Y/%m/%d %H:%M:%S}.{timestamp_ms % 1000:03} Z"


class TopicPrinter:
    """The lines of one PRINT, until its limit or `close`. For one thread."""

    def __init__(
        self,
        bootstrap_servers: str,
        statement: Print,
        settings: Mapping[str, Setting] | None = None,
        *,
        registry: SchemaRegistry | None = None,
    ) -> None:
        settings = dict(settings or {})
        starts = _starts(bootstrap_servers, statement, settings)
        self._lines = RecordFormatter(registry)
        self._interval = max(1, statement.interval)
        self._left = statement.limit
        self._seen = 0
        self._closed = False
        self._consumer: Consumer[bytes, bytes] = Consumer(bootstrap_servers, settings=settings)
        self._consumer.assign(starts)

    def take(self, timeout_s: float) -> list[str] | None:
        """The next lines; an empty list after the timeout; None at the end."""
        if self._closed or self._left == 0:
            self.close()
            return None
        lines: list[str] = []
        deadline = time.monotonic() + timeout_s
        for _ in range(TAKE_RECORDS_MAX):
            record = self._consumer.poll(max(0.0, deadline - time.monotonic()) if not lines else 0)
            if record is None:
                break
            self._seen += 1
            if (self._seen - 1) % self._interval == 0:
                lines += self._lines.of(record)
                if self._left is not None:
                    self._left -= 1
                    if self._left == 0:
                        break
        return lines

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._consumer.close()


def _starts(
    bootstrap_servers: str, statement: Print, settings: Mapping[str, Setting]
) -> dict[TopicPartition, int]:
    brokers = ClusterClient(bootstrap_servers, settings, patience_s=PATIENCE_S)
    try:
        topics = brokers.topics(None)
        if statement.topic not in topics:
            raise SqlError(
                f"Could not find topic '{statement.topic}', or the KSQL user does not have"
                " permissions to list the topic. Topic names are case-sensitive.",
                remedy=did_you_mean(statement.topic, topics, "topic", "SHOW TOPICS;"),
            )
        when = EARLIEST if statement.from_beginning else LATEST
        partitions = [
            TopicPartition(statement.topic, partition)
            for partition in topics[statement.topic].leaders
        ]
        found = brokers.offsets(dict.fromkeys(partitions, when), read_committed=True)
        return {partition: offset or 0 for partition, offset in found.items()}
    finally:
        brokers.close()
