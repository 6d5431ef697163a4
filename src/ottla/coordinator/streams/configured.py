"""A topology checked against the topics of the cluster: the number of tasks, or what is wrong.

The partition counts of internal topics follow from those of the topics around them:

    repartition topic   what the application sets, else the largest source of its writers
    copartitioned       all the same; a repartition topic without a set count is adapted
    changelog           one for each task
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.coordinator.group_type import TopicsImage
from ottla.coordinator.streams.topology import (
    StreamsInternalTopic,
    StreamsSubtopology,
    StreamsTopology,
)
from ottla.errors import ErrorCode, KafkaError

_NAMED_COUNT_MAX: Final = 3  # topics that a status names; it counts the others


class StreamsStatus(IntEnum):
    """What a heartbeat response reports about the group besides the assignment."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TopicProblem(NamedTuple):
    """Why no task can run."""

    status: StreamsStatus
    detail: str


class ConfiguredTopology(NamedTuple):
    """`task_counts` are by subtopology; empty if source topics are missing or do not match."""

    task_counts: Mapping[str, int]
    internal_counts: Mapping[str, int] = {}
    to_create: tuple[StreamsInternalTopic, ...] = ()
    problem: TopicProblem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure(topology: StreamsTopology, topics: TopicsImage) -> ConfiguredTopology:
    """STREAMS_INVALID_TOPOLOGY if the topology cannot work with any topics."""
    try:
        _check_sources(topology, topics)
        counts = _Counts(topology, topics)
        task_counts = {
            subtopology.subtopology_id: counts.of_tasks(subtopology)
            for subtopology in topology.subtopologies
        }
        to_create = _missing(topology, topics, counts)
    except _NotConfigurable as error:
        return ConfiguredTopology({}, problem=error.problem)
    problem = None
    if to_create:
        names = _summary([topic.name for topic in to_create])
        problem = TopicProblem(
            StreamsStatus.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}"
        )
    return ConfiguredTopology(task_counts, counts.decided, to_create, problem)


class _NotConfigurable(Exception):
    def __init__(self, status: StreamsStatus, detail: str) -> None:
        super().__init__(detail)
        self.problem = TopicProblem(status, detail)


def _misfit(detail: str) -> _NotConfigurable:
    return _NotConfigurable(StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, detail)


def _check_sources(topology: StreamsTopology, topics: TopicsImage) -> None:
    missing = {
        name
        for subtopology in topology.subtopologies
        for name in subtopology.source_topics
        if name not in topics.by_name
    }
    if missing:
        detail = f"Source topics {_summary(sorted(missing))} are missing."
        raise _NotConfigurable(StreamsStatus.MISSING_SOURCE_TOPICS, detail)


class _Counts:
    """Partition counts of all topics of the topology; existing topics keep theirs."""

    def __init__(self, topology: StreamsTopology, topics: TopicsImage) -> None:
        self._topics = topics
        self.decided: dict[str, int] = {}
        self._decide_repartition(topology)
        fixed = {topic.name for topic in _repartition(topology) if topic.partition_count}
        flexible = {topic.name for topic in _repartition(topology)} - fixed
        for subtopology in topology.subtopologies:
            for group in subtopology.copartitioned():
                self._copartition(group, fixed, flexible)
        for subtopology in topology.subtopologies:
            if not any(True for _ in subtopology.sources()):
                raise _invalid(
                    f"No source topics found for subtopology {subtopology.subtopology_id}"
                )
            for topic in subtopology.state_changelog_topics:
                self.decided[topic.name] = self.of_tasks(subtopology)

    def of_tasks(self, subtopology: StreamsSubtopology) -> int:
        return max(self._of(name) for name in subtopology.sources())

    def _of(self, name: str) -> int:
        view = self._topics.by_name.get(name)
        return self.decided[name] if view is None else view.partition_count

    def _decide_repartition(self, topology: StreamsTopology) -> None:
        """A repartition topic may be written from another: repeat until all counts are known."""
        decided = self.decided
        for topic in _repartition(topology):
            if topic.partition_count:
                decided[topic.name] = topic.partition_count
        written = {
            name
            for subtopology in topology.subtopologies
            for name in subtopology.repartition_sink_topics
        }
        while open_names := written - decided.keys():
            for subtopology in topology.subtopologies:
                count = self._largest_source(subtopology)
                for name in subtopology.repartition_sink_topics:
                    if count is not None:
                        decided.setdefault(name, count)
            if written - decided.keys() == open_names:
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics."
                    " There may be loops in the topology that cannot be resolved."
                )
        if any(topic.name not in decided for topic in _repartition(topology)):
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics, because a"
                " repartition source topic is never used as a sink topic."
            )

    def _largest_source(self, subtopology: StreamsSubtopology) -> int | None:
        """Of the sources whose counts are known."""
        counts = [
            self.decided[topic.name]
            for topic in subtopology.repartition_source_topics
            if topic.name in self.decided
        ]
        for name in subtopology.source_topics:
            view = self._topics.by_name.get(name)
            if view is not None:
                counts.append(view.partition_count)
        return max(counts, default=None)

    def _copartition(
        self, group: Collection[str], fixed: Collection[str], flexible: Collection[str]
    ) -> None:
        internal = {name: self._of(name) for name in group if name in fixed or name in flexible}
        external = {name: self._of(name) for name in group if name not in internal}
        fixed_here = {name: count for name, count in internal.items() if name in fixed}
        if external:
            count = _alike(external)
        elif fixed_here:
            count = _alike(fixed_here)
        else:
            count = max(internal.values(), default=0)
        for name, own in internal.items():
            if name in fixed and own != count:
                raise _misfit(
                    f"Number of partitions [{own}] of repartition topic [{name}] doesn't match"
                    f" number of partitions [{count}] of the source topic."
                )
            self.decided[name] = count


def _alike(counts: Mapping[str, int]) -> int:
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted(counts.items()))
        raise _misfit(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
    return next(iter(counts.values()))


def _missing(
    topology: StreamsTopology, topics: TopicsImage, counts: _Counts
) -> tuple[StreamsInternalTopic, ...]:
    missing: dict[str, StreamsInternalTopic] = {}
    for subtopology in topology.subtopologies:
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
            count = counts.decided[topic.name]
            view = topics.by_name.get(topic.name)
            if view is None:
                missing[topic.name] = topic._replace(partition_count=count)
            elif view.partition_count != count:
                raise _misfit(
                    f"Existing topic {topic.name} has different number of partitions:"
                    f" expected {count}, found {view.partition_count}"
                )
    return tuple(missing[name] for name in sorted(missing))


def _repartition(topology: StreamsTopology) -> Iterable[StreamsInternalTopic]:
    return (
        topic
        for subtopology in topology.subtopologies
        for topic in subtopology.repartition_source_topics
    )


def _summary(names: list[str]) -> str:
    more = len(names) - _NAMED_COUNT_MAX
    text = ", ".join(names[:_NAMED_COUNT_MAX])
    return f"{text} and {more} additional topics" if more > 0 else text


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, why)
