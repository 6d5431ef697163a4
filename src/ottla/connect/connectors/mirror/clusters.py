"""Clients for the two clusters, and operations on them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla.client import Admin, Consumer, Producer
from ottla.client.configs import ConfigSource, ResourceType
from ottla.client.record import TopicPartition
from ottla.client.topics import NewTopic, TopicDescription
from ottla.connect.connectors.mirror.settings import BOOTSTRAP, SOURCE_CONSUMER, client_settings
from ottla.connect.errors import ConnectException, RetriableException
from ottla.errors import ErrorCode, KafkaError

INTERVAL_S_MIN: Final = 0.05
STOP_S_MAX: Final = 60.0
COMPACT: Final = {"cleanup.policy": "compact"}

log = logging.getLogger("ottla.connect.mirror")


def admin_of(props: Mapping[str, str], side: str) -> Admin:
    return Admin(props[f"{side}{BOOTSTRAP}"], settings=client_settings(props, side))


def producer_of(props: Mapping[str, str], side: str) -> Producer[bytes, bytes]:
    return Producer(props[f"{side}{BOOTSTRAP}"], settings=client_settings(props, side))


def consumer_of(props: Mapping[str, str], side: str) -> Consumer[bytes, bytes]:
    """A consumer without a group; read_committed, so that aborted records are not replicated."""
    settings = client_settings(props, side) | {
        name.removeprefix(SOURCE_CONSUMER): value
        for name, value in props.items()
        if name.startswith(SOURCE_CONSUMER)
    }
    settings.setdefault("isolation.level", "read_committed")
    reset = settings.pop("auto.offset.reset", "earliest")
    return Consumer(props[f"{side}{BOOTSTRAP}"], auto_offset_reset=reset, settings=settings)


def partition_counts(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """Topic -> number of partitions, for topics that exist."""
    names = sorted(topics)
    if not names:
        return {}
    return {
        name: len(found.partitions)
        for name, found in admin.topics.describe(*names).items()
        if isinstance(found, TopicDescription)
    }


def make_internal(admin: Admin, topic: str, replication_factor: int) -> None:
    """Create a compacted topic of one partition, unless it exists."""
    topic_to_create = NewTopic(topic, 1, _factor(replication_factor), configs=COMPACT)
    error = admin.topics.create_all([topic_to_create])[topic]
    if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise ConnectException(f"creating the topic {topic} failed: {error}") from error


def set_configs(admin: Admin, topic: str) -> dict[str, str]:
    """The configs that were set for this topic."""
    found = admin.configs.describe_topics([topic]).get(topic)
    if not isinstance(found, list):
        return {}
    return {
        entry.name: entry.value
        for entry in found
        if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG and entry.value is not None
    }


def make_topic(
    admin: Admin, topic: str, partitions: int, factor: int, configs: Mapping[str, str]
) -> None:
    topic_to_create = NewTopic(topic, partitions, _factor(factor), configs=configs)
    error = admin.topics.create_all([topic_to_create])[topic]
    if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise RetriableException(f"creating the topic {topic} failed: {error}") from error


def sync_configs(admin: Admin, topic: str, wanted: Mapping[str, str]) -> None:
    here = set_configs(admin, topic)
    changed = {name: value for name, value in wanted.items() if here.get(name) != value}
    gone = [name for name in here if name not in wanted]
    if changed or gone:
        admin.configs.alter(ResourceType.TOPIC, topic, set=changed, delete=gone)


def ends_of(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    found = admin.offsets.find(partitions)
    return {
        partition: at.offset for partition, at in found.items() if not isinstance(at, KafkaError)
    }


def _factor(topic_to_create: int) -> int | None:
    return None if topic_to_create < 0 else topic_to_create


class ClusterWatch:
    """Runs jobs periodically, all on one thread, because they share the clients. A job that fails
    is logged and retried."""

    def __init__(self, jobs: Mapping[str, tuple[float, Callable[[], None]]]) -> None:
        self._jobs = dict(jobs)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """When it returns, no job runs any more."""
        self._stopped.set()
        self._thread.join(STOP_S_MAX)

    def _run(self) -> None:
        now = time.monotonic()
        due = {name: now + seconds for name, (seconds, _) in self._jobs.items()}
        while due:
            name = min(due, key=lambda job: due[job])
            if self._stopped.wait(max(due[name] - time.monotonic(), INTERVAL_S_MIN)):
                return
            seconds, job = self._jobs[name]
            try:
                job()
            except (KafkaError, ConnectException) as error:
                log.warning("%s failed, will retry: %s", name, error)
            due[name] = time.monotonic() + seconds
