"""Topics of the Kafka cluster: description, creation, deletion."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ottla.client import Admin
from ottla.client.delivery import Setting
from ottla.client.topics import NewTopic, TopicDescription
from ottla.errors import ErrorCode, KafkaError
from ottla.rows.errors import SqlError
from ottla.sql.definitions import SourceTopicSpec

MISSING: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


@dataclass(frozen=True, slots=True)
class TopicProperties:
    name: str
    replicas: tuple[int, ...]
    """The number of replicas of each partition."""


class TopicClient:
    """An admin client for all threads; requests go one after another."""

    def __init__(
        self, bootstrap_servers: str, settings: Mapping[str, Setting] | None = None
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._settings = dict(settings or {})
        self._admin: Admin | None = None
        self._lock = threading.Lock()

    def partition_count(self, topic: str) -> int | None:
        found = self.describe([topic]).get(topic)
        return len(found.replicas) if found else None

    def describe(self, names: Iterable[str] | None = None) -> dict[str, TopicProperties]:
        """All topics, or those of these names that exist."""
        with self._asked() as admin:
            wanted = admin.topics.names() if names is None else list(names)
            found = admin.topics.describe(*wanted) if wanted else {}
        facts: dict[str, TopicProperties] = {}
        for name, topic in sorted(found.items()):
            if isinstance(topic, TopicDescription):
                replicas = tuple(len(part.replicas) for part in topic.partitions)
                facts[name] = TopicProperties(name, replicas)
            elif topic.code not in MISSING:
                raise topic
        return facts

    def make(self, spec: SourceTopicSpec) -> None:
        """Create a topic; one that exists already is used as it is."""
        with self._asked() as admin:
            made = admin.topics.create_all(
                [NewTopic(spec.name, spec.partitions, spec.replicas, configs=spec.configs)]
            )[spec.name]
        if made is not None and made.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise SqlError(
                f"Failed to create topic '{spec.name}': {made}",
                remedy="Check PARTITIONS, REPLICAS and the name of the topic.",
            )

    def delete(self, topic: str) -> None:
        with self._asked() as admin:
            error = admin.topics.delete(topic)[topic]
        if error is not None and error.code not in MISSING:
            raise SqlError(
                f"Failed to delete topic '{topic}': {error}",
                remedy="The stream or table is dropped; delete its topic with kafka-topics.",
            )

    def id(self) -> str:
        with self._asked() as admin:
            return admin.cluster().cluster_id

    def reachable(self) -> bool:
        try:
            self.id()
        except (KafkaError, OSError):
            return False
        return True

    def readers(self) -> dict[str, tuple[int, int]]:
        """The number of consumers and of consumer groups, by topic."""
        with self._asked() as admin:
            names = [group.name for group in admin.groups.list()]
            described = admin.groups.describe(*names) if names else {}
        consumers, groups = Counter[str](), Counter[str]()
        for group in described.values():
            if isinstance(group, KafkaError):
                continue
            of_group = Counter(
                topic
                for member in group.members
                for topic in {partition.topic for partition in member.assignment}
            )
            consumers.update(of_group)
            groups.update(of_group.keys())
        return {topic: (consumers[topic], groups[topic]) for topic in consumers}

    def close(self) -> None:
        with self._lock:
            self._let_go()

    @contextmanager
    def _asked(self) -> Iterator[Admin]:
        """The admin client. One that failed is closed, and the next request opens another."""
        with self._lock:
            if self._admin is None:
                self._admin = Admin(self._bootstrap_servers, settings=self._settings)
            try:
                yield self._admin
            except (KafkaError, OSError):
                self._let_go()
                raise

    def _let_go(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()
