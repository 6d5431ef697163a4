"""Delayed delivery in share groups, which Kafka does not have: a header sets when a record is due.

    ottla.deliver.at    epoch milliseconds, as text

Only groups with `ottla.share.delayed.delivery.enable` look for it, so that it costs others nothing.
A batch whose bytes do not contain the header's name is not parsed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.errors import KafkaError
from ottla.records.batch import BatchHeader, read_header
from ottla.records.record import Record, parse_records, read_payload

HEADER: Final = "ottla.deliver.at"
_NAME: Final = HEADER.encode()


class DelayedDeliveryConfig(NamedTuple):
    """How long the records of a group may wait, counted from their timestamps."""

    wait_ms_max: int


def due_times(data: bytes, config: DelayedDeliveryConfig) -> list[tuple[int, int]]:
    """The delayed records of a batch: the offset of each, and when it is due."""
    header = read_header(data)
    if header.control:
        return []
    try:
        return _due_times(data, header, config)
    except KafkaError:
        return []  # the consumer of the batch reports what is wrong with it


def _due_times(
    data: bytes, header: BatchHeader, config: DelayedDeliveryConfig
) -> list[tuple[int, int]]:
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
    """The last of several headers counts; a header that is not a number is ignored."""
    for name, value in reversed(record.headers):
        if name == HEADER:
            return int(value) if value is not None and value.isdigit() else None
    return None
