"""The topology of a streams group as its members declare it. Immutable, and compared by value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.streams_group_heartbeat import Subtopology, TopicInfo, Topology


class StreamsInternalTopic(NamedTuple):
    """A topic that the broker creates; with 0 partitions their number is derived."""

    name: str
    partition_count: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class CopartitionIndexes(NamedTuple):
    """Source topics that must have equal partition counts, by their index in the subtopology."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


class StreamsSubtopology(NamedTuple):
    """A connected part of the topology: one task for each partition of its sources."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: tuple[StreamsInternalTopic, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[StreamsInternalTopic, ...]
    copartition_groups: tuple[CopartitionIndexes, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.state_changelog_topics)

    def sources(self) -> Iterator[str]:
        """Every topic that its tasks read."""
        yield from self.source_topics
        for topic in self.repartition_source_topics:
            yield topic.name

    def copartitioned(self) -> Iterator[frozenset[str]]:
        for group in self.copartition_groups:
            names = [self.source_topics[index] for index in group.source_topics]
            for index in group.repartition_source_topics:
                names.append(self.repartition_source_topics[index].name)
            yield frozenset(names)


class StreamsTopology(NamedTuple):
    """`subtopologies` are in the order of their ids."""

    epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]

    def required_topics(self) -> frozenset[str]:
        """Topics without which no task can run."""
        return frozenset(
            name
            for subtopology in self.subtopologies
            for name in (
                *subtopology.sources(),
                *(topic.name for topic in subtopology.state_changelog_topics),
            )
        )

    def reader_of(self, topic: str) -> str | None:
        """The subtopology whose tasks read this topic."""
        for subtopology in self.subtopologies:
            if topic in subtopology.sources():
                return subtopology.subtopology_id
        return None


def declared(topology: Topology) -> StreamsTopology:
    """The topology of a heartbeat; STREAMS_INVALID_TOPOLOGY if it is inconsistent."""
    if topology.epoch < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology epoch must be non-negative.")
    subtopologies = sorted(map(_subtopology, topology.subtopologies))
    ids = {subtopology.subtopology_id for subtopology in subtopologies}
    if len(ids) < len(subtopologies):
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, "Subtopology ids must be unique.")
    return StreamsTopology(topology.epoch, tuple(subtopologies))


def _subtopology(subtopology: Subtopology) -> StreamsSubtopology:
    for topic in subtopology.state_changelog_topics:
        if topic.partitions:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                f"Changelog topic {topic.name} must have an undefined partition count, but it is"
                f" set to {topic.partitions}.",
            )
    groups = [
        CopartitionIndexes(
            tuple(group.source_topics),
            tuple(group.source_topic_regex),
            tuple(group.repartition_source_topics),
        )
        for group in subtopology.copartition_groups
    ]
    for group in groups:
        _check_indexes(subtopology, group.source_topics, subtopology.source_topics)
        _check_indexes(
            subtopology, group.repartition_source_topics, subtopology.repartition_source_topics
        )
        _check_indexes(subtopology, group.source_topic_regex, subtopology.source_topic_regex)
    return StreamsSubtopology(
        subtopology.subtopology_id,
        tuple(subtopology.source_topics),
        tuple(subtopology.source_topic_regex),
        tuple(map(_internal, subtopology.state_changelog_topics)),
        tuple(subtopology.repartition_sink_topics),
        tuple(map(_internal, subtopology.repartition_source_topics)),
        tuple(groups),
    )


def _internal(topic: TopicInfo) -> StreamsInternalTopic:
    configs = tuple((config.key, config.value) for config in topic.topic_configs)
    return StreamsInternalTopic(topic.name, topic.partitions, topic.replication_factor, configs)


def _check_indexes(
    subtopology: Subtopology, indexes: Sequence[int], topics: Sequence[object]
) -> None:
    if any(not 0 <= index < len(topics) for index in indexes):
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"A copartition group of subtopology {subtopology.subtopology_id} names a source topic "
            "that the subtopology does not have.",
        )
