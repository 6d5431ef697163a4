"""Topics of source connectors, made as the connector's topic.creation.* settings say (KIP-158).

Without `topic.creation.default.replication.factor` topics are left to the broker, as in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client import Admin
from ottla.client.topics import NewTopic
from ottla.connect.errors import ConfigException
from ottla.connect.run.worker import Worker
from ottla.queries.cluster import make_topics

PREFIX: Final = "topic.creation."
DEFAULT: Final = "default"
OWN: Final = frozenset({"include", "exclude", "partitions", "replication.factor"})


@dataclass(frozen=True, slots=True)
class Group:
    """Topics that are made alike."""

    name: str
    partitions: int
    replicas: int
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    configs: Mapping[str, str] = field(default_factory=dict)

    def matches(self, topic: str) -> bool:
        if any(re.fullmatch(each, topic) for each in self.exclude):
            return False
        return any(re.fullmatch(each, topic) for each in self.include)

    def wish(self, topic: str) -> NewTopic:
        """-1 is the broker's default."""
        partitions = None if self.partitions == -1 else self.partitions
        replicas = None if self.replicas == -1 else self.replicas
        return NewTopic(topic, partitions, replicas, configs=dict(self.configs))


def groups_of(config: Mapping[str, str]) -> list[Group]:
    """In the order in which they are tried; the default, which takes all, is the last."""
    if f"{PREFIX}{DEFAULT}.replication.factor" not in config:
        return []
    names = [each.strip() for each in config.get(PREFIX + "groups", "").split(",") if each.strip()]
    last = _group(config, DEFAULT, None)
    return [*(_group(config, each, last) for each in names if each != DEFAULT), last]


def _group(config: Mapping[str, str], name: str, default: Group | None) -> Group:
    prefix = f"{PREFIX}{name}."
    given = {
        key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)
    }
    partitions, replicas = given.get("partitions"), given.get("replication.factor")
    if default is None:
        if partitions is None:
            raise ConfigException(f'Missing required configuration "{prefix}partitions".')
        include: tuple[str, ...] = (".*",)
    else:
        include = _patterns(given.get("include", ""))
    return Group(
        name,
        int(partitions) if partitions is not None else (default.partitions if default else 1),
        int(replicas) if replicas is not None else (default.replicas if default else 1),
        include,
        _patterns(given.get("exclude", "")),
        {key: value for key, value in given.items() if key not in OWN},
    )


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


class Creation:
    """Looks at each topic once, before the first record goes there."""

    def __init__(self, config: Mapping[str, str], worker: Worker) -> None:
        self._groups = groups_of(config) if worker.topic_creation else []
        self._settings = worker.admin(config)
        self._servers = worker.bootstrap_servers
        self._seen: set[str] = set()

    def see(self, topics: set[str]) -> None:
        new = topics - self._seen
        if not new:
            return
        if self._groups:
            wishes = [self._group(each).wish(each) for each in sorted(new)]
            with Admin(self._servers, settings=self._settings) as admin:
                make_topics(admin, wishes, "a source connector")
        self._seen |= new

    def _group(self, topic: str) -> Group:
        return next(each for each in self._groups if each.matches(topic))
