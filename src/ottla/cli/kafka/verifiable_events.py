"""The JSON lines of Kafka's verifiable clients: time and name first, then the facts."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, Final

from ottla.client.record import ConsumerRecord, TopicPartition

StringRecord = ConsumerRecord[str, str]

_PRINTING: Final = threading.Lock()


def print_event(name: str, **facts: Any) -> None:
    """Print one whole line, from any thread."""
    event = {"timestamp": int(time.time() * 1000), "name": name, **facts}
    line = json.dumps(event, separators=(",", ":"), ensure_ascii=False)
    with _PRINTING:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def print_record(record: StringRecord) -> None:
    print_event(
        "record_data",
        key=record.key,
        value=record.value,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
    )


def by_partition(records: Iterable[StringRecord]) -> dict[TopicPartition, list[StringRecord]]:
    found: dict[TopicPartition, list[StringRecord]] = {}
    for record in records:
        found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
    return found
