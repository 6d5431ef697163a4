"""The open files of one topic partition, and how they make the sink exactly once.

Records are buffered until flush.size, a time or a schema change closes all files of the partition
at once. Only then may its offset be committed. File names contain the offset of the first record,
and what closes files depends only on the records (except for rotate.schedule.interval.ms). So a
task that restarts from the committed offset writes the same files again, and each record is in one
file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.client.record import TopicPartition
from ottla.connect.connectors.storage.formats import Encode
from ottla.connect.connectors.storage.partitioners import Extract, RecordPartitioner
from ottla.connect.connectors.storage.stores import FileStore
from ottla.connect.data import Schema, SinkRecord
from ottla.connect.errors import ConnectException, DataException


@dataclass(slots=True)
class OpenFile:
    """A file that is not written yet: its records are in memory."""

    first_offset: int
    values: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RotationRules:
    """The configuration that all partitions of a task share."""

    store: FileStore
    encode: Encode
    extension: str
    folder: RecordPartitioner
    extract: Extract
    flush_size: int
    rotate_ms: int
    schedule_ms: int
    pad_width: int
    one_folder: (
        bool  # rotate.interval.ms with time-based folders: a new folder closes the previous one
    )
    by_clock: bool  # rotate.interval.ms uses the wall clock, and so applies without new records
    offset_ms: Callable[[int], int]  # of the time zone, for schedules


class TopicPartitionWriter:
    def __init__(self, partition: TopicPartition, rules: RotationRules) -> None:
        self._partition = partition
        self._rules = rules
        self._open: dict[tuple[str, str], OpenFile] = {}  # by topic and folder
        self._count = 0
        self._schema: Schema | None = None
        self._base_ms = 0
        self._scheduled_ms = 0
        self._next = 0  # the offset after the last buffered record

    def add(self, record: SinkRecord) -> None:
        """Skips records that are buffered already: a failed `put` is retried with all of them."""
        rules = self._rules
        if record.original_offset >= self._next:
            folder = (record.topic, rules.folder(record))
            moment = rules.extract(record) if rules.rotate_ms > 0 else 0
            if self._open and self._closes_before(record, folder, moment):
                self.close()
            if not self._open:
                self._begin(record, moment)
            found = self._open.get(folder)
            if found is None:
                found = self._open[folder] = OpenFile(record.original_offset)
            found.values.append(record.value)
            self._count += 1
            self._next = record.original_offset + 1
        if self._count >= rules.flush_size:
            self.close()

    def committable(self, position: int) -> int:
        """The offset that may be committed; `position` is the partition's."""
        return min((file.first_offset for file in self._open.values()), default=position)

    def close_by_clock(self) -> None:
        """Close files by time in partitions that receive no more records."""
        now_ms = int(time.time() * 1000)
        rules = self._rules
        if not self._open:
            return
        late = rules.by_clock and 0 < rules.rotate_ms <= now_ms - self._base_ms
        if late or (rules.schedule_ms > 0 and now_ms >= self._scheduled_ms):
            self.close()

    def close(self) -> None:
        """Write all files of the partition; then its offset may be committed."""
        for (topic, folder), found in self._open.items():
            path = self._path(topic, folder, found.first_offset)
            try:
                content = self._rules.encode(topic, self._schema, found.values)
            except DataException as error:
                raise ConnectException(f"{path}: {error}") from error
            self._rules.store.write(path, content)
        self._open.clear()
        self._count = 0

    def _begin(self, record: SinkRecord, moment: int) -> None:
        self._schema = record.value_schema
        self._base_ms = moment
        if self._rules.schedule_ms > 0:
            self._scheduled_ms = next_rotation_ms(
                int(time.time() * 1000), self._rules.schedule_ms, self._rules.offset_ms
            )

    def _closes_before(self, record: SinkRecord, folder: tuple[str, str], moment: int) -> bool:
        rules = self._rules
        if record.value_schema is not self._schema and record.value_schema != self._schema:
            return True
        if rules.rotate_ms > 0:
            if moment - self._base_ms >= rules.rotate_ms:
                return True
            if rules.one_folder and folder not in self._open:
                return True
        return rules.schedule_ms > 0 and time.time() * 1000 >= self._scheduled_ms

    def _path(self, topic: str, folder: str, offset: int) -> str:
        partition = self._partition.partition
        number = str(offset).zfill(self._rules.pad_width)
        return f"{topic}/{folder}/{topic}+{partition}+{number}{self._rules.extension}"


def next_rotation_ms(now_ms: int, length_ms: int, offset_ms: Callable[[int], int]) -> int:
    """The next multiple of the interval, aligned to midnight of the time zone."""
    offset = offset_ms(now_ms)
    return ((now_ms + offset) // length_ms + 1) * length_ms - offset
