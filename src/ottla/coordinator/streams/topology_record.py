"""The record of a streams group's topology (key 23), byte for byte as Kafka writes it.

topology      epoch int32, subtopologies
subtopology   id, source topics, source regexes, changelog topics, repartition sinks,
              repartition sources, copartition groups (three lists of int16 each)
a topic       name, partitions int32 (0: to be found out), replication factor int16, configs
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from ottla.coordinator.modern_records import check_version, corrupt_if_malformed
from ottla.coordinator.streams.records import STREAMS_RECORD, read_pairs, write_pairs
from ottla.coordinator.streams.topology import (
    CopartitionIndexes,
    StreamsInternalTopic,
    StreamsSubtopology,
    StreamsTopology,
)
from ottla.wire.fields import (
    read_compact_count,
    read_compact_string,
    read_compact_strings,
    read_numbers,
    skip_tags,
    write_compact_count,
    write_compact_string,
    write_compact_strings,
    write_numbers,
)

_HEAD: Final = struct.Struct(">hi")
_TOPIC: Final = struct.Struct(">ih")


def write_topology_record(topology: StreamsTopology) -> bytes:
    buffer = bytearray(_HEAD.pack(0, topology.epoch))
    write_compact_count(buffer, len(topology.subtopologies))
    for subtopology in topology.subtopologies:
        write_compact_string(buffer, subtopology.subtopology_id)
        _write_names(buffer, subtopology.source_topics)
        _write_names(buffer, subtopology.source_topic_regex)
        _write_topics(buffer, subtopology.state_changelog_topics)
        _write_names(buffer, subtopology.repartition_sink_topics)
        _write_topics(buffer, subtopology.repartition_source_topics)
        write_compact_count(buffer, len(subtopology.copartition_groups))
        for group in subtopology.copartition_groups:
            for indexes in group:
                write_compact_count(buffer, len(indexes))
                write_numbers(buffer, indexes, "h")
            buffer.append(0)
        buffer.append(0)
    buffer.append(0)
    return bytes(buffer)


def read_topology_record(value: bytes) -> StreamsTopology:
    subtopologies = []
    with corrupt_if_malformed(STREAMS_RECORD):
        check_version(value)
        _, epoch = _HEAD.unpack_from(value)
        count, position = read_compact_count(value, _HEAD.size)
        for _ in range(count):
            subtopology, position = _read_subtopology(value, position)
            subtopologies.append(subtopology)
    return StreamsTopology(epoch, tuple(sorted(subtopologies)))


def _read_subtopology(value: bytes, position: int) -> tuple[StreamsSubtopology, int]:
    subtopology_id, position = read_compact_string(value, position)
    sources, position = _read_names(value, position)
    regexes, position = _read_names(value, position)
    changelogs, position = _read_topics(value, position)
    sinks, position = _read_names(value, position)
    repartition, position = _read_topics(value, position)
    groups = []
    count, position = read_compact_count(value, position)
    for _ in range(count):
        indexes = []
        for _ in CopartitionIndexes._fields:
            size, position = read_compact_count(value, position)
            found, position = read_numbers(value, position, size, "h")
            indexes.append(tuple(found))
        groups.append(CopartitionIndexes(*indexes))
        position = skip_tags(value, position)
    subtopology = StreamsSubtopology(
        subtopology_id, sources, regexes, changelogs, sinks, repartition, tuple(groups)
    )
    return subtopology, skip_tags(value, position)


def _write_names(buffer: bytearray, names: Sequence[str]) -> None:
    write_compact_count(buffer, len(names))
    write_compact_strings(buffer, names)


def _read_names(value: bytes, position: int) -> tuple[tuple[str, ...], int]:
    count, position = read_compact_count(value, position)
    names, position = read_compact_strings(value, position, count)
    return tuple(names), position


def _write_topics(buffer: bytearray, topics: Sequence[StreamsInternalTopic]) -> None:
    write_compact_count(buffer, len(topics))
    for topic in topics:
        write_compact_string(buffer, topic.name)
        buffer += _TOPIC.pack(topic.partition_count, topic.replication_factor)
        write_pairs(buffer, topic.configs)
        buffer.append(0)


def _read_topics(value: bytes, position: int) -> tuple[tuple[StreamsInternalTopic, ...], int]:
    topics = []
    count, position = read_compact_count(value, position)
    for _ in range(count):
        name, position = read_compact_string(value, position)
        partition_count, replication_factor = _TOPIC.unpack_from(value, position)
        configs, position = read_pairs(value, position + _TOPIC.size)
        position = skip_tags(value, position)
        topics.append(StreamsInternalTopic(name, partition_count, replication_factor, configs))
    return tuple(topics), position
