"""The group coordinator with its log, its clock and the clients that wait (`CoordinatorService`).

`__consumer_offsets` keeps its groups. What is special here: it hears of every change of the
cluster's topics, and has large assignments computed off the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from ottla.broker.coordinator_service import CoordinatorService
from ottla.clock import WatchedClock
from ottla.cluster.image import MetadataImage, TopicImage
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.topics import TopicSpec
from ottla.config import ServerConfig, Value
from ottla.config import group_config as resource_config
from ottla.coordinator.classic.group import GroupCoordinatorConfig
from ottla.coordinator.consumer.config import ConsumerGroupConfig, ConsumerGroupConfigs
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.coordinator.group_type import TopicMetadata, TopicsImage
from ottla.coordinator.records import OFFSETS_TOPIC
from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.streams.config import StreamsGroupConfig, StreamsGroupConfigs
from ottla.replica.partitions import Partitions
from ottla.wire.fields import Message

log = logging.getLogger("ottla.broker")

M = TypeVar("M", bound=Message)


class GroupCoordinatorService(CoordinatorService[GroupCoordinator]):
    """All groups that this broker coordinates."""

    def __init__(
        self,
        metadata: MetadataCache,
        partitions: Partitions,
        *,
        config: Callable[[], ServerConfig],
        clock: WatchedClock,
        off_loop: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        """`off_loop` computes something on a helper thread."""
        self._metadata = metadata
        self._config = config
        self._off_loop = off_loop
        self._working: set[asyncio.Future[None]] = set()
        self._topics: Mapping[str, TopicImage] = {}  # as the last image had them
        count = config().offsets_topic_num_partitions
        super().__init__(OFFSETS_TOPIC, partitions, partition_count=count, clock=clock)

    def new_coordinator(self, partition_count: int) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            partition_count=partition_count,
            config=group_coordinator_config(self._config(), self._metadata.image),
            uuid=lambda: str(uuid.uuid4()),
        )
        coordinator.see_topics(_view(self._topics))
        return coordinator

    @property
    def load_buffer_size(self) -> int:
        return self._config().offsets_load_buffer_size

    @property
    def codec(self) -> int:
        return self._config().offsets_topic_compression_codec

    @property
    def commit_timeout_ms(self) -> int:
        return self._config().offsets_commit_timeout_ms

    # -- start, and the cluster's changes

    def start(self, now_ms: int) -> None:
        """Load the groups of every partition of `__consumer_offsets` that this broker leads."""
        self.apply(self._metadata.image, now_ms)

    def apply(self, image: MetadataImage, now_ms: int) -> None:
        config = group_coordinator_config(self._config(), image)
        if config != self.coordinator.config:
            self.coordinator.configure(config)
        self._see_topics(image, now_ms)
        self._topic.apply(image, now_ms)

    def offsets_topic(self) -> TopicSpec:
        """`__consumer_offsets` as it is created when it is first needed."""
        config = self._config()
        return TopicSpec(
            OFFSETS_TOPIC,
            partition_count=config.offsets_topic_num_partitions,
            replication_factor=config.offsets_topic_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )

    def _see_topics(self, image: MetadataImage, now_ms: int) -> None:
        before, self._topics = self._topics, image.topics
        if before is image.topics:
            return
        self.coordinator.see_topics(_view(image.topics))
        for name, topic in before.items():
            now = image.topics.get(name)
            if now is not topic and (now is None or now.id != topic.id):
                for outcome in self.coordinator.forget_topic(name, topic.id, now_ms=now_ms):
                    self.carry_out(outcome, now_ms)

    # -- results

    def carry_out(self, result: CoordinatorResult, now_ms: int) -> None:
        super().carry_out(result, now_ms)
        for work in result.work:
            working = asyncio.ensure_future(self._do(*work))
            self._working.add(working)
            working.add_done_callback(self._working.discard)

    async def _do(self, compute: Callable[[], Any], done: Callable[[Any], None]) -> None:
        try:
            done(await self._off_loop(compute))
        except Exception:
            log.exception("Failed to compute a new target assignment")
            done(None)

    def transaction_ended(self, index: int, producer_id: int, *, commit: bool) -> None:
        """A marker is in a partition of `__consumer_offsets`: its transaction is decided now.

        A partition that is being loaded will find the marker in its log.
        """
        shard = self.coordinator.shards.get(index)
        if shard is not None:
            shard.end_transaction(producer_id, commit=commit)


def group_coordinator_config(config: ServerConfig, image: MetadataImage) -> GroupCoordinatorConfig:
    return GroupCoordinatorConfig(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        offset_metadata_bytes_max=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        consumer=consumer_config(config, image),
        streams=streams_config(config, image),
    )


def consumer_config(config: ServerConfig, image: MetadataImage) -> ConsumerGroupConfigs:
    """Few groups override configs; the others share those of the broker."""
    overrides = {
        group_id: _timeouts(resource_config(config, overrides.values))
        for group_id, overrides in image.group_configs.items()
        if overrides.values
    }
    return ConsumerGroupConfigs(
        timeouts=_timeouts(resource_config(config, {})),
        overrides=overrides,
        max_size=config.group_consumer_max_size,
        assignors=config.group_consumer_assignors,
        migration_policy=config.group_consumer_migration_policy,
        assigns_elsewhere=True,
        enabled="consumer" in config.group_coordinator_rebalance_protocols,
    )


def _timeouts(configs: Mapping[str, Value]) -> ConsumerGroupConfig:
    def number(name: str) -> int:
        value = configs[name]
        assert isinstance(value, int)
        return value

    return ConsumerGroupConfig(
        session_timeout_ms=number("consumer.session.timeout.ms"),
        heartbeat_interval_ms=number("consumer.heartbeat.interval.ms"),
        assignment_interval_ms=number("consumer.assignment.interval.ms"),
    )


def streams_config(config: ServerConfig, image: MetadataImage) -> StreamsGroupConfigs:
    overrides = {
        group_id: _streams_group(resource_config(config, overrides.values))
        for group_id, overrides in image.group_configs.items()
        if overrides.values
    }
    return StreamsGroupConfigs(
        defaults=_streams_group(resource_config(config, {})),
        overrides=overrides,
        max_size=config.group_streams_max_size,
        enabled="streams" in config.group_coordinator_rebalance_protocols,
    )


def _streams_group(configs: Mapping[str, Value]) -> StreamsGroupConfig:
    number = {name: value for name, value in configs.items() if isinstance(value, int)}
    return StreamsGroupConfig(
        session_timeout_ms=number["streams.session.timeout.ms"],
        heartbeat_interval_ms=number["streams.heartbeat.interval.ms"],
        num_standby_replicas=number["streams.num.standby.replicas"],
        initial_rebalance_delay_ms=number["streams.initial.rebalance.delay.ms"],
        assignment_interval_ms=number["streams.assignment.interval.ms"],
    )


def _view(topics: Mapping[str, TopicImage]) -> TopicsImage:
    return TopicsImage(
        {name: TopicMetadata(topic.id, len(topic.partitions)) for name, topic in topics.items()}
    )
