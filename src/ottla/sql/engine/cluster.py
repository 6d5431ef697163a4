"""The Kafka cluster, as the SQL asks it: topics that are there, topics that are to be made."""

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
from ottla.sql.definitions import TopicWish

MISSING: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    name: str
    replicas: tuple[int, ...]
    """The number of replicas of each partition."""


class Cluster:
    """One connection, which any thread may use; requests go one after the other."""

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

    def describe(self, names: Iterable[str] | None = None) -> dict[str, TopicFacts]:
        """All topics, or those of these names that are there."""
        with self._asked() as admin:
            wanted = admin.topics.names() if names is None else list(names)
            found = admin.topics.describe(*wanted) if wanted else {}
        facts: dict[str, TopicFacts] = {}
        for name, each in sorted(found.items()):
            if isinstance(each, TopicDescription):
                replicas = tuple(len(part.replicas) for part in each.partitions)
                facts[name] = TopicFacts(name, replicas)
            elif each.code not in MISSING:
                raise each
        return facts

    def make(self, wish: TopicWish) -> None:
        """Make a topic; one that is there already is as good."""
        with self._asked() as admin:
            made = admin.topics.create_all(
                [NewTopic(wish.name, wish.partitions, wish.replicas, configs=wish.configs)]
            )[wish.name]
        if made is not None and made.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise SqlError(
                f"Failed to create topic '{wish.name}': {made}",
                remedy="Check PARTITIONS, REPLICAS and the name of the topic.",
            )

    def delete(self, topic: str) -> None:
        with self._asked() as admin:
            error = admin.topics.delete(topic)[topic]
        if error is not None and error.code not in MISSING:
            raise SqlError(
                f"Failed to delete topic '{topic}': {error}",
                remedy="The stream or table is dropped; delete its topic by hand.",
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
        """For each topic that groups read: how many consumers, of how many groups."""
        with self._asked() as admin:
            names = [each.name for each in admin.groups.list()]
            described = admin.groups.describe(*names) if names else {}
        consumers, groups = Counter[str](), Counter[str]()
        for group in described.values():
            if isinstance(group, KafkaError):
                continue
            of_group = Counter(
                topic
                for member in group.members
                for topic in {each.topic for each in member.assignment}
            )
            consumers.update(of_group)
            groups.update(of_group.keys())
        return {topic: (consumers[topic], groups[topic]) for topic in consumers}

    def close(self) -> None:
        with self._lock:
            self._let_go()

    @contextmanager
    def _asked(self) -> Iterator[Admin]:
        """The connection; one that failed is not used again."""
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
