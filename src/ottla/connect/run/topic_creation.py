"""Creates the topics of source connectors by their topic.creation.* settings (KIP-158).

Without `topic.creation.default.replication.factor` the broker creates them, as in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client import Admin
from ottla.client.topics import NewTopic
from ottla.connect.errors import ConfigException
from ottla.connect.run.worker_context import WorkerContext
from ottla.queries.cluster import make_topics

PREFIX: Final = "topic.creation."
DEFAULT: Final = "default"
GROUP_SETTINGS: Final = frozenset({"include", "exclude", "partitions", "replication.factor"})


@dataclass(frozen=True, slots=True)
class TopicCreationGroup:
    """Topics that are created with the same settings."""

    name: str
    partitions: int
    replicas: int
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    configs: Mapping[str, str] = field(default_factory=dict)

    def matches(self, topic: str) -> bool:
        if any(re.fullmatch(pattern, topic) for pattern in self.exclude):
            return False
        return any(re.fullmatch(pattern, topic) for pattern in self.include)

    def new_topic(self, topic: str) -> NewTopic:
        """-1 stands for the broker's default."""
        partitions = None if self.partitions == -1 else self.partitions
        replicas = None if self.replicas == -1 else self.replicas
        return NewTopic(topic, partitions, replicas, configs=dict(self.configs))


def topic_creation_groups(config: Mapping[str, str]) -> list[TopicCreationGroup]:
    """The groups in matching order; the default group matches everything and comes last."""
    if f"{PREFIX}{DEFAULT}.replication.factor" not in config:
        return []
    names = [
        group.strip() for group in config.get(PREFIX + "groups", "").split(",") if group.strip()
    ]
    last = _group(config, DEFAULT, None)
    return [*(_group(config, group, last) for group in names if group != DEFAULT), last]


def _group(
    config: Mapping[str, str], name: str, default: TopicCreationGroup | None
) -> TopicCreationGroup:
    prefix = f"{PREFIX}{name}."
    settings = {
        key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)
    }
    partitions, replicas = settings.get("partitions"), settings.get("replication.factor")
    if default is None:
        if partitions is None:
            raise ConfigException(f'Missing required configuration "{prefix}partitions".')
        include: tuple[str, ...] = (".*",)
    else:
        include = _patterns(settings.get("include", ""))
    return TopicCreationGroup(
        name,
        int(partitions) if partitions is not None else (default.partitions if default else 1),
        int(replicas) if replicas is not None else (default.replicas if default else 1),
        include,
        _patterns(settings.get("exclude", "")),
        {key: value for key, value in settings.items() if key not in GROUP_SETTINGS},
    )


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(pattern.strip() for pattern in text.split(",") if pattern.strip())


class TopicCreation:
    """Creates each topic once, before the first record is sent to it."""

    def __init__(self, config: Mapping[str, str], worker: WorkerContext) -> None:
        self._groups = topic_creation_groups(config) if worker.topic_creation else []
        self._settings = worker.admin(config)
        self._servers = worker.bootstrap_servers
        self._known: set[str] = set()

    def ensure(self, topics: set[str]) -> None:
        new = topics - self._known
        if not new:
            return
        if self._groups:
            new_topics = [self._group(topic).new_topic(topic) for topic in sorted(new)]
            with Admin(self._servers, settings=self._settings) as admin:
                make_topics(admin, new_topics, "a source connector")
        self._known |= new

    def _group(self, topic: str) -> TopicCreationGroup:
        return next(group for group in self._groups if group.matches(topic))
