"""Delayed delivery in share groups, which no Kafka has: a header says when a record may be given.

    ottla.deliver.at    epoch milliseconds, as text

Only groups with `ottla.share.delayed.delivery.enable` look for it, so that others pay nothing. A
batch whose bytes don't contain the header's name is not parsed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.errors import KafkaError
from ottla.records.batch import BatchHeader, read_header
from ottla.records.record import Record, parse_records, read_payload

HEADER: Final = "ottla.deliver.at"
_NAME: Final = HEADER.encode()


class DelayConfig(NamedTuple):
    """How long the records of a group may wait, counted from their timestamps."""

    wait_ms_max: int


def due_times(data: bytes, config: DelayConfig) -> list[tuple[int, int]]:
    """The records of a batch that have the header: the offset of each, and when it is due."""
    header = read_header(data)
    if header.control:
        return []
    try:
        return _due_times(data, header, config)
    except KafkaError:
        return []  # whoever consumes it is the one to say what is wrong with it


def _due_times(data: bytes, header: BatchHeader, config: DelayConfig) -> list[tuple[int, int]]:
    payload = read_payload(data, header)
    if _NAME not in payload:
        return []
    found = []
    for record in parse_records(payload, header):
        due_ms = _due_ms(record)
        if due_ms is not None:
            found.append((record.offset, min(due_ms, record.timestamp + config.wait_ms_max)))
    return found


def _due_ms(record: Record) -> int | None:
    """Of several headers the last one counts; one that is no number counts as none."""
    for name, value in reversed(record.headers):
        if name == HEADER:
            return int(value) if value is not None and value.isdigit() else None
    return None
