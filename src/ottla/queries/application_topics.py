"""The topics of an application: those that it reads must be there, its own are made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.topics import NewTopic, TopicDescription
from ottla.engine.failures import StreamsError
from ottla.engine.graph import (
    Graph,
    Repartition,
    Source,
    changelog_topic,
    internal_topic,
)
from ottla.engine.partitions import counts_of, task_count
from ottla.engine.restore import tasks_topic
from ottla.engine.subtopologies import SubTopology, subtopologies
from ottla.errors import KafkaError
from ottla.queries.cluster import Cluster, make_topics

CHANGELOG: Final = "-changelog"
REPARTITION: Final = "-repartition"
SEGMENT_BYTES: Final = 50 * 1024 * 1024
# Of windows, too, where Kafka adds `delete`: our stores write a tombstone for each window that they
# forget, and records of a time long past must be there when a store is restored.
LOG: Final = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A sub-topology that runs, and what it reads: topic -> earliest, latest, or as the
    application says."""

    subtopology: SubTopology
    tasks: int
    topics: Mapping[str, str | None]
    patterns: tuple[str, ...] = ()
    internal: tuple[str, ...] = ()
    """Repartition topics that it reads: nobody else does."""
    tables: tuple[str, ...] = ()
    """Topics that are read before the others while much of them is unread."""
    kept: bool = False
    """Its tasks had a topic before: it has run somewhere."""

    @property
    def number(self) -> int:
        return self.subtopology.number


def prepare(
    graph: Graph,
    application_id: str,
    cluster: Cluster,
    *,
    replicas: int | None = None,
    is_kept: Callable[[SubTopology], bool] = lambda _: True,
) -> list[Piece]:
    """What runs; internal topics are there then. One that is not kept has no changelogs."""
    pieces = subtopologies(graph)
    with cluster.admin() as admin:
        names = set(admin.topics.names())
        check_sources(graph, names)
        sources = {each.name: _present(each, names) for each in graph.sources()}
        wanted = {topic for each in sources.values() for topic in each}
        wanted |= {each.topic for each in graph.globals.values()}
        there = _described(admin.topics.describe(*wanted) if wanted else {})
        partitions = {name: len(each.partitions) for name, each in there.items()}
        counts = counts_of(graph, lambda source: sources[source.name], partitions)
        made = [_piece(each, application_id, counts, sources, names) for each in pieces]
        factor = replicas or max(
            (len(each.partitions[0].replicas) for each in there.values()), default=1
        )
        wishes = [
            wish
            for each in made
            for wish in _wishes(
                each, application_id, counts, factor, is_kept=is_kept(each.subtopology)
            )
        ]
        make_topics(admin, wishes, f"application {application_id}")
        if wishes:
            _check(wishes, _described(admin.topics.describe(*(each.name for each in wishes))))
    return made


def internal_topics(application_id: str, names: list[str]) -> list[str]:
    """Of all topics, those that an application of this id has made."""
    own = re.compile(rf"{re.escape(application_id)}-.+({CHANGELOG}|{REPARTITION}|-topic)$")
    return [each for each in names if own.fullmatch(each)]


def check_sources(graph: Graph, names: set[str]) -> None:
    """All that are missing at once, as whoever creates them wants to know."""
    wanted = {topic: None for each in graph.sources() for topic in each.topics}
    missing = [each for each in wanted if each not in names]
    if missing:
        raise StreamsError(
            f"One or more source topics were missing: {', '.join(missing)} (MissingSourceTopic)."
            f" Create each: ottla topics create {missing[0]}"
        )


def _present(source: Source, names: set[str]) -> list[str]:
    if source.pattern is None:
        return list(source.topics)
    pattern = re.compile(source.pattern)
    return sorted(each for each in names if pattern.fullmatch(each))


def _described(found: Mapping[str, TopicDescription | KafkaError]) -> dict[str, TopicDescription]:
    described = {}
    for name, each in found.items():
        if isinstance(each, KafkaError):
            raise each
        described[name] = each
    return described


def _piece(
    piece: SubTopology,
    application_id: str,
    counts: Mapping[str, int],
    sources: Mapping[str, list[str]],
    names: set[str],
) -> Piece:
    read = [*piece.sources, *(each for prefix in piece.prefixes for each in prefix.sources)]
    topics: dict[str, str | None] = {
        topic: each.offset_reset for each in read for topic in sources[each.name]
    }
    internal = tuple(internal_topic(application_id, each.topic) for each in piece.internal_topics)
    topics |= dict.fromkeys(internal, "earliest")
    patterns = tuple(each.pattern for each in read if each.pattern is not None)
    kept = tasks_topic(application_id, piece.number) in names
    tables = tuple(topic for each in read if each.table for topic in sources[each.name])
    return Piece(piece, task_count(piece, counts), topics, patterns, internal, tables, kept)


def _wishes(
    piece: Piece, application_id: str, counts: Mapping[str, int], replicas: int, *, is_kept: bool
) -> list[NewTopic]:
    wishes = [
        _repartition(each, application_id, counts[each.name], replicas)
        for each in piece.subtopology.internal_topics
    ]
    if not is_kept:
        return wishes
    logs = [
        changelog_topic(application_id, name)
        for name, spec in piece.subtopology.stores.items()
        if spec.changelog
    ]
    logs.append(tasks_topic(application_id, piece.number))
    wishes += [NewTopic(each, piece.tasks, replicas, configs=LOG) for each in logs]
    return wishes


def _repartition(
    node: Repartition, application_id: str, partitions: int, replicas: int
) -> NewTopic:
    """Nothing in it is old: what has been read is deleted by whoever has read it."""
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "segment.bytes": str(SEGMENT_BYTES),
        "message.timestamp.type": "CreateTime",
    }
    topic = internal_topic(application_id, node.topic)
    return NewTopic(topic, partitions, replicas, configs=configs)


def _check(wishes: list[NewTopic], there: Mapping[str, TopicDescription]) -> None:
    for each in wishes:
        actual = len(there[each.name].partitions)
        if actual != each.partitions:
            raise StreamsError(
                f"Existing internal topic {each.name} has invalid partitions: expected:"
                f" {each.partitions}; actual: {actual}. Use 'kafka-streams-application-reset' to"
                " clean up invalid topics before processing."
            )
