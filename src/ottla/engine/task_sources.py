"""The sources and sinks of a task: bytes become records at a source, and bytes again at a sink."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.serde import Serde
from ottla.engine.failures import StreamsError
from ottla.engine.graph import (
    RepartitionNode,
    SinkNode,
    SourceNode,
    TimestampExtractor,
    internal_topic,
)
from ottla.engine.processors import Deliver, to_all
from ottla.engine.record_batch import DeliverBatch, RecordBatch
from ottla.engine.records import AnyRecord, Headers, InputRow, OutputColumns, OutputRow, Record
from ottla.engine.subtopologies import Subtopology
from ottla.engine.windowed_serdes import SessionWindowed, TimeWindowed
from ottla.rows.java.murmur2 import partition_of

LOG: Final = logging.getLogger(__name__)
BATCH_BYTES_MAX: Final = 1 << 30
"""The offsets of an Arrow array end at twice as much."""


@dataclass(slots=True)
class TaskSource:
    """Reads the records of a topic and forwards them to the source's children."""

    node: str
    key: Serde[Any]
    value: Serde[Any]
    extract: TimestampExtractor | None
    deliver: Deliver
    deliver_batch: DeliverBatch | None = None
    """Takes many records at once; None if a node downstream has no batch step."""

    @property
    def reads_headers(self) -> bool:
        return self.key.uses_headers or self.value.uses_headers

    def record(self, row: InputRow) -> AnyRecord:
        """The deserialized row, with the timestamp that it was written with."""
        topic, headers = row.topic, row.headers
        key = self.key.deserialize_with_headers(topic, headers, row.key)
        value = self.value.deserialize_with_headers(topic, headers, row.value)
        return Record(key, value, row.timestamp, headers)

    def columns(self, rows: Sequence[InputRow]) -> RecordBatch | None:
        """Deserializes rows of one topic at once; None if they must be read one by one."""
        data = [row[5] for row in rows]
        if sum(map(len, filter(None, data))) > BATCH_BYTES_MAX:
            return None
        headers = [row[6] for row in rows]
        return self.batch(
            rows[0][0],
            [row[4] for row in rows],
            data,
            [row[3] for row in rows],
            headers if any(headers) else None,
        )

    def batch(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: list[int],
        headers: list[Headers] | None,
    ) -> RecordBatch | None:
        """Like `columns`; keys and values are lists, or binary arrays of Arrow's."""
        if self.reads_headers:
            return None
        try:
            keys_read = self.key.deserialize_batch(topic, keys)
            if keys_read is None:
                return None
            values_read = self.value.deserialize_batch(topic, values)
            if values_read is None:
                return None
        except Exception:
            # Reading one by one raises it again, for the record at fault, whose offset is known.
            return None
        return RecordBatch(list(keys_read), list(values_read), timestamps, headers)

    def negative(self, row: InputRow) -> None:
        """Like Kafka: drops the record if an extractor gave it a negative timestamp, else fails."""
        if self.extract is None:
            raise StreamsError(
                f"Input record {row} has invalid (negative) timestamp. Use a timestamp extractor "
                "to process this data."
            )
        LOG.warning("Skipping record due to negative extracted timestamp: %s", row[:4])


class TaskSources(dict[str, TaskSource]):
    """The sources of a task by topic. A pattern's topic is added when its first record arrives."""

    def __init__(
        self,
        piece: Subtopology,
        application_id: str,
        children: Mapping[str, Mapping[str, Deliver]],
        batches: Mapping[str, DeliverBatch | None],
    ) -> None:
        """`batches` has the batch steps behind the sources."""
        super().__init__()
        self._patterns: list[tuple[re.Pattern[str], TaskSource]] = []
        self.all: list[TaskSource] = []
        for source in piece.sources:
            entry = _task_source(source, source.extractor, children, batches)
            self.all.append(entry)
            self.update(dict.fromkeys(source.topics, entry))
            if source.pattern is not None:
                self._patterns.append((re.compile(source.pattern), entry))
        for repartition in piece.repartitions:
            topic = internal_topic(application_id, repartition.topic)
            self[topic] = _task_source(repartition, None, children, batches)
            self.all.append(self[topic])

    def __missing__(self, topic: str) -> TaskSource:
        entry = self.find(topic)
        if entry is None:
            raise KeyError(f"no source of this task reads topic {topic}")
        self[topic] = entry
        return entry

    def find(self, topic: str) -> TaskSource | None:
        if topic in self:
            return self[topic]
        return next((entry for pattern, entry in self._patterns if pattern.fullmatch(topic)), None)


def _task_source(
    node: SourceNode | RepartitionNode,
    extract: TimestampExtractor | None,
    children: Mapping[str, Mapping[str, Deliver]],
    batches: Mapping[str, DeliverBatch | None],
) -> TaskSource:
    deliver = to_all(tuple(children.get(node.name, {}).values()))
    batched = batches.get(node.name) if extract is None else None
    return TaskSource(node.name, node.key, node.value, extract, deliver, batched)


def task_sink(
    end: SinkNode | RepartitionNode,
    application_id: str,
    outputs: list[OutputRow | OutputColumns],
    failed: Callable[[str, AnyRecord, Exception], None],
    partitions_of: Callable[[str], int] | None,
) -> Deliver:
    """A callable that serializes a record and appends the row to `outputs`."""
    topic: str | Callable[[AnyRecord], str] = end.topic
    if isinstance(end, RepartitionNode):
        topic = internal_topic(application_id, end.topic)
    write_key, write_value = end.key.serialize, end.value.serialize
    node = end.sink_name if isinstance(end, RepartitionNode) else end.name
    place = _partitions_for(end, partitions_of)
    add = outputs.append
    make = tuple.__new__  # the NamedTuple's own constructor takes three times as long

    if end.key.uses_headers or end.value.uses_headers:
        return _sink_with_headers(end, topic, place, node, outputs, failed)
    if isinstance(topic, str) and place is None:
        name = topic

        def send(record: AnyRecord) -> None:
            try:
                key, value = write_key(name, record.key), write_value(name, record.value)
            except Exception as error:
                failed(node, record, error)
                return
            add(make(OutputRow, (name, key, value, record.timestamp, record.headers, None)))

        return send

    def send_placed(record: AnyRecord) -> None:
        try:
            name = topic if isinstance(topic, str) else topic(record)
            key, value = write_key(name, record.key), write_value(name, record.value)
            partitions = (None,) if place is None else place(name, record)
        except Exception as error:
            failed(node, record, error)
            return
        for partition in partitions:
            add(OutputRow(name, key, value, record.timestamp, record.headers, partition))

    return send_placed


def task_batch_sink(
    end: SinkNode | RepartitionNode,
    application_id: str,
    outputs: list[OutputRow | OutputColumns],
    partitions_of: Callable[[str], int] | None,
) -> DeliverBatch | None:
    """`task_sink` for many records; None if the topic or the partition depends on the record."""
    if not isinstance(end.topic, str) or end.key.uses_headers or end.value.uses_headers:
        return None
    if _partitions_for(end, partitions_of) is not None:
        return None
    topic = end.topic
    if isinstance(end, RepartitionNode):
        topic = internal_topic(application_id, end.topic)
    write_keys, write_values = end.key.serialize_batch, end.value.serialize_batch

    def send(batch: RecordBatch) -> None:
        if batch.keys:
            keys, values = write_keys(topic, batch.keys), write_values(topic, batch.values)
            outputs.append(OutputColumns(topic, keys, values, batch.timestamps, batch.headers))

    return send


PartitionsFor = Callable[[str, AnyRecord], Iterable[int | None]]


def _sink_with_headers(
    end: SinkNode | RepartitionNode,
    topic: str | Callable[[AnyRecord], str],
    place: PartitionsFor | None,
    node: str,
    outputs: list[OutputRow | OutputColumns],
    failed: Callable[[str, AnyRecord, Exception], None],
) -> Deliver:
    """For serdes that add headers to a record, such as the id of its schema."""
    write_key, write_value = end.key.serialize_with_headers, end.value.serialize_with_headers

    def send(record: AnyRecord) -> None:
        headers = list(record.headers)
        try:
            name = topic if isinstance(topic, str) else topic(record)
            key = write_key(name, headers, record.key)
            value = write_value(name, headers, record.value)
            partitions = (None,) if place is None else place(name, record)
        except Exception as error:
            failed(node, record, error)
            return
        for partition in partitions:
            outputs.append(OutputRow(name, key, value, record.timestamp, tuple(headers), partition))

    return send


def _partitions_for(
    end: SinkNode | RepartitionNode, partitions_of: Callable[[str], int] | None
) -> PartitionsFor | None:
    """Chooses the partitions of a record; None where the producer partitions by the key."""
    partitioner = end.partitioner
    if partitions_of is None:
        return None
    count = partitions_of
    if partitioner is None:
        windowed = end.key
        if isinstance(windowed, TimeWindowed | SessionWindowed):
            # As Kafka's WindowedStreamPartitioner: all windows of a key share a partition.
            inner: Serde[Any] = windowed.inner
            return lambda topic, record: (
                partition_of(inner.serialize(topic, record.key.key) or b"", count(topic)),
            )
        return None
    ask = partitioner

    def places(topic: str, record: AnyRecord) -> Iterable[int | None]:
        chosen = ask(topic, record.key, record.value, count(topic))
        return (chosen,) if chosen is None or isinstance(chosen, int) else chosen

    return places
