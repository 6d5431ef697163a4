"""The topics of an application: its source topics must exist, its internal topics are created."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.topics import NewTopic, TopicDescription
from ottla.engine.failures import StreamsError
from ottla.engine.graph import Graph, RepartitionNode, SourceNode, changelog_topic, internal_topic
from ottla.engine.partition_counts import partition_counts, task_count
from ottla.engine.restore import tasks_topic
from ottla.engine.subtopologies import Subtopology, subtopologies
from ottla.errors import KafkaError
from ottla.queries.cluster import KafkaCluster, make_topics

CHANGELOG: Final = "-changelog"
REPARTITION: Final = "-repartition"
SEGMENT_BYTES: Final = 50 * 1024 * 1024
# Also for windowed stores, where Kafka adds `delete`: these stores write a tombstone for each
# expired window, and a restore needs records whose event time is long past.
CHANGELOG_CONFIGS: Final = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}


@dataclass(frozen=True, slots=True)
class PreparedSubtopology:
    """A sub-topology to run, and its topics: earliest, latest, or None for the application's
    setting."""

    subtopology: Subtopology
    tasks: int
    topics: Mapping[str, str | None]
    patterns: tuple[str, ...] = ()
    internal: tuple[str, ...] = ()
    """The repartition topics that it reads; no other consumer does."""
    tables: tuple[str, ...] = ()
    """Topics that are read first while much of them is unread."""
    has_changelog: bool = False
    """Its tasks' changelog existed before: the sub-topology has run before."""

    @property
    def number(self) -> int:
        return self.subtopology.number


def prepare_application_topics(
    graph: Graph,
    application_id: str,
    cluster: KafkaCluster,
    *,
    replicas: int | None = None,
    has_changelogs: Callable[[Subtopology], bool] = lambda _: True,
) -> list[PreparedSubtopology]:
    """The sub-topologies to run, after creating their internal topics. One for which
    `has_changelogs` is false gets no changelogs."""
    pieces = subtopologies(graph)
    with cluster.admin() as admin:
        names = set(admin.topics.names())
        check_sources(graph, names)
        sources = {source.name: _present(source, names) for source in graph.sources()}
        wanted = {topic for topics in sources.values() for topic in topics}
        wanted |= {table.topic for table in graph.globals.values()}
        there = _described(admin.topics.describe(*wanted) if wanted else {})
        partitions = {name: len(description.partitions) for name, description in there.items()}
        counts = partition_counts(graph, lambda source: sources[source.name], partitions)
        made = [_piece(piece, application_id, counts, sources, names) for piece in pieces]
        factor = replicas or max(
            (len(description.partitions[0].replicas) for description in there.values()), default=1
        )
        new_topics = [
            topic
            for piece in made
            for topic in _new_topics(
                piece,
                application_id,
                counts,
                factor,
                has_changelogs=has_changelogs(piece.subtopology),
            )
        ]
        make_topics(admin, new_topics, f"application {application_id}")
        if new_topics:
            _check(
                new_topics, _described(admin.topics.describe(*(topic.name for topic in new_topics)))
            )
    return made


def internal_topics(application_id: str, names: list[str]) -> list[str]:
    """The internal topics of this application among all topics."""
    own = re.compile(rf"{re.escape(application_id)}-.+({CHANGELOG}|{REPARTITION}|-topic)$")
    return [name for name in names if own.fullmatch(name)]


def check_sources(graph: Graph, names: set[str]) -> None:
    """Raises StreamsError with all missing source topics at once."""
    wanted = {topic: None for source in graph.sources() for topic in source.topics}
    missing = [topic for topic in wanted if topic not in names]
    if missing:
        raise StreamsError(
            f"One or more source topics were missing: {', '.join(missing)} (MissingSourceTopic)."
            f" Create each: ottla topics create {missing[0]}"
        )


def _present(source: SourceNode, names: set[str]) -> list[str]:
    if source.pattern is None:
        return list(source.topics)
    pattern = re.compile(source.pattern)
    return sorted(name for name in names if pattern.fullmatch(name))


def _described(found: Mapping[str, TopicDescription | KafkaError]) -> dict[str, TopicDescription]:
    described = {}
    for name, description in found.items():
        if isinstance(description, KafkaError):
            raise description
        described[name] = description
    return described


def _piece(
    piece: Subtopology,
    application_id: str,
    counts: Mapping[str, int],
    sources: Mapping[str, list[str]],
    names: set[str],
) -> PreparedSubtopology:
    read = [*piece.sources, *(source for prefix in piece.prefixes for source in prefix.sources)]
    topics: dict[str, str | None] = {
        topic: node.offset_reset for node in read for topic in sources[node.name]
    }
    internal = tuple(internal_topic(application_id, node.topic) for node in piece.internal_topics)
    topics |= dict.fromkeys(internal, "earliest")
    patterns = tuple(source.pattern for source in read if source.pattern is not None)
    has_changelog = tasks_topic(application_id, piece.number) in names
    tables = tuple(topic for source in read if source.table for topic in sources[source.name])
    return PreparedSubtopology(
        piece, task_count(piece, counts), topics, patterns, internal, tables, has_changelog
    )


def _new_topics(
    piece: PreparedSubtopology,
    application_id: str,
    counts: Mapping[str, int],
    replicas: int,
    *,
    has_changelogs: bool,
) -> list[NewTopic]:
    new_topics = [
        _repartition(node, application_id, counts[node.name], replicas)
        for node in piece.subtopology.internal_topics
    ]
    if not has_changelogs:
        return new_topics
    logs = [
        changelog_topic(application_id, name)
        for name, spec in piece.subtopology.stores.items()
        if spec.changelog
    ]
    logs.append(tasks_topic(application_id, piece.number))
    new_topics += [NewTopic(log, piece.tasks, replicas, configs=CHANGELOG_CONFIGS) for log in logs]
    return new_topics


def _repartition(
    node: RepartitionNode, application_id: str, partitions: int, replicas: int
) -> NewTopic:
    """Without retention: the application deletes the records that it has processed."""
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "segment.bytes": str(SEGMENT_BYTES),
        "message.timestamp.type": "CreateTime",
    }
    topic = internal_topic(application_id, node.topic)
    return NewTopic(topic, partitions, replicas, configs=configs)


def _check(new_topics: list[NewTopic], there: Mapping[str, TopicDescription]) -> None:
    for topic in new_topics:
        actual = len(there[topic.name].partitions)
        if actual != topic.partitions:
            raise StreamsError(
                f"Existing internal topic {topic.name} has invalid partitions: expected:"
                f" {topic.partitions}; actual: {actual}. Use 'kafka-streams-application-reset' to"
                " clean up invalid topics before processing."
            )
