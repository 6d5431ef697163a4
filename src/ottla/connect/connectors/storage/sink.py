"""The storage sink: writes topics to files."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ottla.client.record import TopicPartition
from ottla.connect.api import Props, SinkConnector, SinkTask, SinkTaskContext
from ottla.connect.connectors.builtin_connector import BuiltinConnector
from ottla.connect.connectors.jdbc.times import zone_of
from ottla.connect.connectors.storage.formats import extension_of, format_encoder
from ottla.connect.connectors.storage.partitioners import extractor_of, is_by_time, partitioner_of
from ottla.connect.connectors.storage.settings import CONFIG, WALLCLOCK, settings_of
from ottla.connect.connectors.storage.stores import store_of
from ottla.connect.connectors.storage.topic_partition_writer import (
    RotationRules,
    TopicPartitionWriter,
)
from ottla.connect.data import SinkRecord
from ottla.connect.errors import DataException


class StorageSinkConnector(BuiltinConnector, SinkConnector):
    config = CONFIG

    def start(self, props: Props) -> None:
        rules_of(settings_of(props))
        super().start(props)

    def alter_offsets(self, props: Props, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Any offset is valid: file names contain offsets, so rewritten files replace old ones."""
        return True


class StorageSinkTask(SinkTask):
    def start(self, props: Props, context: SinkTaskContext) -> None:
        self._settings = settings_of(props)
        self._rules = rules_of(self._settings)
        self._context = context
        self._files: dict[TopicPartition, TopicPartitionWriter] = {}

    def open(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._files[partition] = TopicPartitionWriter(partition, self._rules)

    def put(self, records: Sequence[SinkRecord]) -> None:
        for record in records:
            # By the partition it was consumed from: a transform may have changed the topic.
            files = self._files_of(record)
            if record.value is None:
                self._tombstone(record)
                continue
            try:
                files.add(record)
            except DataException as error:
                reporter = self._context.errant_record_reporter
                if reporter is None:
                    raise
                reporter.report(record, error)
        if not records:
            for files in self._files.values():
                files.close_by_clock()

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Does not close files, which would make them too small: see `pre_commit`."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Only offsets up to the first record of an open file: this makes the sink exactly once,
        because after a crash the same records go to the same files again."""
        return {
            partition: self._files[partition].committable(position)
            if partition in self._files
            else position
            for partition, position in offsets.items()
        }

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Discards open files: their records are not committed, so the next owner reads them."""
        for partition in partitions:
            self._files.pop(partition, None)

    def _files_of(self, record: SinkRecord) -> TopicPartitionWriter:
        key = TopicPartition(record.original_topic, record.original_partition or 0)
        if key not in self._files:
            self._files[key] = TopicPartitionWriter(key, self._rules)
        return self._files[key]

    def _tombstone(self, record: SinkRecord) -> None:
        if self._settings["behavior.on.null.values"] == "fail":
            raise DataException(
                f"the record {record.topic}-{record.partition}@{record.offset} has no value:"
                " behavior.on.null.values=ignore skips such records"
            )


def rules_of(settings: Mapping[str, Any]) -> RotationRules:
    rotate_ms = settings["rotate.interval.ms"]
    return RotationRules(
        store=store_of(settings),
        encode=format_encoder(settings),
        extension=extension_of(settings),
        folder=partitioner_of(settings),
        extract=extractor_of(settings),
        flush_size=settings["flush.size"],
        rotate_ms=rotate_ms,
        schedule_ms=settings["rotate.schedule.interval.ms"],
        pad_width=settings["filename.offset.zero.pad.width"],
        one_folder=rotate_ms > 0 and is_by_time(settings),
        by_clock=settings["timestamp.extractor"] == WALLCLOCK,
        offset_ms=_offset_of(settings["timezone"]),
    )


def _offset_of(timezone: str) -> Callable[[int], int]:
    zone = zone_of(timezone, "timezone")

    def offset_ms(now_ms: int) -> int:
        moment = datetime.datetime.fromtimestamp(now_ms / 1000, zone)
        found = moment.utcoffset() or datetime.timedelta()
        return found // datetime.timedelta(milliseconds=1)

    return offset_ms


StorageSinkConnector.task_class = StorageSinkTask
