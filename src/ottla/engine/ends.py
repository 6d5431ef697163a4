"""Both ends of a task: bytes become records where they come in, and bytes again where they go."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.serde import Serde
from ottla.engine.failures import StreamsError
from ottla.engine.graph import (
    Repartition,
    Sink,
    Source,
    TimestampExtractor,
    internal_topic,
)
from ottla.engine.processors import Deliver, to_all
from ottla.engine.records import AnyRecord, Input, Output, Record
from ottla.engine.serdes import SessionWindowed, TimeWindowed
from ottla.engine.subtopologies import SubTopology
from ottla.rows.java.murmur2 import partition_of

LOG: Final = logging.getLogger(__name__)
BATCH_BYTES_MAX: Final = 1 << 30
"""An array of Arrow has less than twice as much."""


@dataclass(slots=True)
class Entry:
    """Where the records of a topic come in."""

    node: str
    key: Serde[Any]
    value: Serde[Any]
    extract: TimestampExtractor | None
    deliver: Deliver

    @property
    def reads_headers(self) -> bool:
        return self.key.uses_headers or self.value.uses_headers

    def record(self, row: Input) -> AnyRecord:
        """As it was read, with the time that it was written with."""
        topic, headers = row.topic, row.headers
        key = self.key.deserialize_with_headers(topic, headers, row.key)
        value = self.value.deserialize_with_headers(topic, headers, row.value)
        return Record(key, value, row.timestamp, headers)

    def records(self, rows: Sequence[Input]) -> list[AnyRecord] | None:
        """All of one topic, read at once; None if they must be read one by one."""
        if self.reads_headers or sum(len(row[5] or b"") for row in rows) > BATCH_BYTES_MAX:
            return None
        topic = rows[0][0]
        try:
            keys = self.key.deserialize_batch(topic, [row[4] for row in rows])
            if keys is None:
                return None
            values = self.value.deserialize_batch(topic, [row[5] for row in rows])
            if values is None:
                return None
        except Exception:
            # It comes again for the record that has caused it, whose place is known then.
            return None
        return list(map(Record, keys, values, [row[3] for row in rows], [row[6] for row in rows]))

    def negative(self, row: Input) -> None:
        """Kafka drops a record that its extractor gave such a time, and fails without extractor."""
        if self.extract is None:
            raise StreamsError(
                f"Input record {row} has invalid (negative) timestamp. Use a timestamp extractor "
                "to process this data."
            )
        LOG.warning("Skipping record due to negative extracted timestamp: %s", row[:4])


class Entries(dict[str, Entry]):
    """By topic. A topic that only a pattern names is found when its first record comes."""

    def __init__(
        self,
        piece: SubTopology,
        application_id: str,
        children: Mapping[str, Mapping[str, Deliver]],
    ) -> None:
        super().__init__()
        self._patterns: list[tuple[re.Pattern[str], Entry]] = []
        for source in piece.sources:
            entry = _entry(source, source.extractor, children)
            self.update(dict.fromkeys(source.topics, entry))
            if source.pattern is not None:
                self._patterns.append((re.compile(source.pattern), entry))
        for repartition in piece.repartitions:
            topic = internal_topic(application_id, repartition.topic)
            self[topic] = _entry(repartition, None, children)

    def __missing__(self, topic: str) -> Entry:
        entry = self.find(topic)
        if entry is None:
            raise KeyError(f"no source of this task reads topic {topic}")
        self[topic] = entry
        return entry

    def find(self, topic: str) -> Entry | None:
        if topic in self:
            return self[topic]
        return next((entry for each, entry in self._patterns if each.fullmatch(topic)), None)


def _entry(
    node: Source | Repartition,
    extract: TimestampExtractor | None,
    children: Mapping[str, Mapping[str, Deliver]],
) -> Entry:
    deliver = to_all(tuple(children.get(node.name, {}).values()))
    return Entry(node.name, node.key, node.value, extract, deliver)


def sink_of(
    end: Sink | Repartition,
    application_id: str,
    outputs: list[Output],
    failed: Callable[[str, AnyRecord, Exception], None],
    partitions_of: Callable[[str], int] | None,
) -> Deliver:
    """Appends to `outputs` what becomes of a record there."""
    topic: str | Callable[[AnyRecord], str] = end.topic
    if isinstance(end, Repartition):
        topic = internal_topic(application_id, end.topic)
    write_key, write_value = end.key.serialize, end.value.serialize
    node = end.sink_name if isinstance(end, Repartition) else end.name
    place = _places(end, partitions_of)
    add = outputs.append
    make = tuple.__new__  # an Output's own constructor takes three times as long

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
            add(make(Output, (name, key, value, record.timestamp, record.headers, None)))

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
            add(Output(name, key, value, record.timestamp, record.headers, partition))

    return send_placed


Places = Callable[[str, AnyRecord], Iterable[int | None]]


def _sink_with_headers(
    end: Sink | Repartition,
    topic: str | Callable[[AnyRecord], str],
    place: Places | None,
    node: str,
    outputs: list[Output],
    failed: Callable[[str, AnyRecord, Exception], None],
) -> Deliver:
    """A serde may put headers to a record, the id of its schema for one."""
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
            outputs.append(Output(name, key, value, record.timestamp, tuple(headers), partition))

    return send


def _places(end: Sink | Repartition, partitions_of: Callable[[str], int] | None) -> Places | None:
    """The partitions for a record; None where the key decides."""
    partitioner = end.partitioner
    if partitions_of is None:
        return None
    count = partitions_of
    if partitioner is None:
        windowed = end.key
        if isinstance(windowed, TimeWindowed | SessionWindowed):
            # As Kafka's WindowedStreamPartitioner: all windows of a key lie together.
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
