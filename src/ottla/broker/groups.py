"""Carries out what the group coordinator decides: appends, then answers; keeps its deadlines.

The coordinator is a state machine without I/O (see `ottla.coordinator`). Here its outcomes meet
the log of `__consumer_offsets`, the loop's timers, and the clients that wait for an answer.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.internal_topic import InternalTopic, Take
from ottla.broker.journal import (
    Alarm,
    Answer,
    Stored,
    append,
    is_committed,
    read_committed,
    when_committed,
)
from ottla.cluster.decisions import NewTopic
from ottla.cluster.image import Image, Topic
from ottla.config import ServerConfig, Value
from ottla.config import group_config as resource_config
from ottla.coordinator.consumer.config import ConsumerConfig, Timeouts
from ottla.coordinator.coordinator import GroupCoordinator
from ottla.coordinator.group import GroupConfig
from ottla.coordinator.keys import OFFSETS_TOPIC, partition_for
from ottla.coordinator.kinds import Topics, TopicView
from ottla.coordinator.outcome import Outcome, Reply, coordinator_code
from ottla.coordinator.replies import refused
from ottla.coordinator.shard import GroupShard
from ottla.coordinator.streams.config import StreamsConfig, StreamsGroupConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.primitives import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

M = TypeVar("M", bound=Message)


class Groups:
    """All groups that this broker coordinates. Handlers ask `coordinator` through `carry_out`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._alarm = Alarm(broker.clock, self._expire)
        broker.clock.when_set(lambda step_ms: self.coordinator.clock_set(step_ms))
        self._working: set[asyncio.Future[None]] = set()
        self._topics: Mapping[str, Topic] = {}  # as the last image had them
        self._topic = InternalTopic(
            OFFSETS_TOPIC, broker, self, buffer_size=lambda: broker.config.offsets_load_buffer_size
        )
        self.coordinator = self._new_coordinator(broker.config.offsets_topic_num_partitions)

    # -- start, stop, and the cluster's changes

    def start(self, now_ms: int) -> None:
        """Load the groups of every partition of `__consumer_offsets` that this broker leads."""
        self.apply(self._broker.image, now_ms)

    def stop(self) -> None:
        self._alarm.stop()
        self._topic.stop()

    def apply(self, image: Image, now_ms: int) -> None:
        config = group_config(self._broker.config, image)
        if config != self.coordinator.config:
            self.coordinator.configure(config)
        self._see_topics(image, now_ms)
        self._topic.apply(image, now_ms)

    def offsets_topic(self) -> NewTopic:
        """`__consumer_offsets` as it is created when it is first needed."""
        config = self._broker.config
        return NewTopic(
            OFFSETS_TOPIC,
            partition_count=config.offsets_topic_num_partitions,
            replication_factor=config.offsets_topic_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )

    def _new_coordinator(self, partition_count: int) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            partition_count=partition_count,
            config=group_config(self._broker.config, self._broker.image),
            uuid=lambda: str(uuid.uuid4()),
        )
        coordinator.see_topics(_view(self._topics))
        return coordinator

    def _see_topics(self, image: Image, now_ms: int) -> None:
        before, self._topics = self._topics, image.topics
        if before is image.topics:
            return
        self.coordinator.see_topics(_view(image.topics))
        for name, topic in before.items():
            now = image.topics.get(name)
            if now is not topic and (now is None or now.id != topic.id):
                for outcome in self.coordinator.forget_topic(name, topic.id, now_ms=now_ms):
                    self.carry_out(outcome, now_ms)

    # -- loading

    def reset(self, partition_count: int) -> None:
        self.coordinator = self._new_coordinator(partition_count)

    def begin(self, index: int, leader_epoch: int) -> Take:
        shard = self.coordinator.begin_load(index)
        return lambda batches: _load_batches(shard, batches)

    def finish(self, index: int, now_ms: int) -> None:
        self.carry_out(self.coordinator.end_load(index, now_ms), now_ms)

    def drop(self, index: int) -> None:
        self._answer(self.coordinator.unload(index))

    # -- outcomes

    def carry_out(self, outcome: Outcome, now_ms: int) -> None:
        """Append, and once that is committed, answer. With one replica that is at once.

        What has nothing to append may tell of what others have appended, and waits for that too.
        """
        index = outcome.partition
        try:
            if outcome.records:
                self._append(outcome, now_ms)
        except KafkaError as error:
            where = f"{OFFSETS_TOPIC}-{index}"
            log.warning("%s: what groups did could not be stored: %s", where, error)
            self._answer(self.coordinator.failed(outcome, error.code, now_ms=now_ms))
        else:
            if outcome.replies:
                self._answer_committed(index, outcome.replies)
        for work in outcome.work:
            working = asyncio.ensure_future(self._do(*work))
            self._working.add(working)
            working.add_done_callback(self._working.discard)
        shard = self.coordinator.shards.get(index)
        if shard is not None:
            self._alarm.set(shard.next_deadline_ms(), now_ms)

    async def _do(self, compute: Callable[[], Any], done: Callable[[Any], None]) -> None:
        try:
            done(await self._broker.turns.off_loop(compute))
        except Exception:
            log.exception("an assignment could not be computed")
            done(None)

    def _append(self, outcome: Outcome, now_ms: int) -> None:
        partition = self._broker.partitions.leading(OFFSETS_TOPIC, outcome.partition)
        codec = self._broker.config.offsets_topic_compression_codec
        append(partition, outcome.records, now_ms, codec=codec, producer=outcome.producer)

    def _answer_committed(self, index: int, replies: list[Reply]) -> None:
        partition = self._broker.partitions.of_topic(OFFSETS_TOPIC).get(index)
        if partition is None or is_committed(partition):
            self._answer(replies)
            return
        timeout_ms = self._broker.config.offsets_commit_timeout_ms
        when_committed(partition, partial(self._committed, replies), timeout_ms=timeout_ms)

    def _committed(self, replies: list[Reply], code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            told = coordinator_code(code)
            replies = [(token, refused(message, told)) for token, message in replies]
        self._answer(replies)

    def read(self, response: M, group_ids: Iterable[str]) -> M | Awaitable[M]:
        """What was read of these groups, once nothing of it can be lost with this broker."""
        shards, count = self.coordinator.shards, self.coordinator.partition_count
        held = self._broker.partitions.of_topic(OFFSETS_TOPIC)
        indexes = {partition_for(group_id, count) for group_id in group_ids}
        return read_committed(
            response,
            [held.get(index) for index in indexes if index in shards],
            _refused,
            timeout_ms=self._broker.config.offsets_commit_timeout_ms,
        )

    def transaction_ended(self, index: int, producer_id: int, *, commit: bool) -> None:
        """A marker is in a partition of `__consumer_offsets`: what it decides holds from now on.

        A partition that is being read will be found to have it; so will it be by the next broker.
        """
        shard = self.coordinator.shards.get(index)
        if shard is not None:
            shard.end_transaction(producer_id, commit=commit)

    def _answer(self, replies: Iterable[Reply]) -> None:
        for answer, message in replies:
            assert isinstance(answer, Answer)
            answer.give(message)

    # -- time

    def _expire(self, now_ms: int) -> int | None:
        for outcome in self.coordinator.expire(now_ms):
            self.carry_out(outcome, now_ms)
        return self.coordinator.next_deadline_ms()


def _refused(response: M, code: ErrorCode) -> M:
    told = refused(response, coordinator_code(code))
    assert isinstance(told, type(response))
    return told


def group_config(config: ServerConfig, image: Image) -> GroupConfig:
    return GroupConfig(
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


def consumer_config(config: ServerConfig, image: Image) -> ConsumerConfig:
    """Groups that have configs of their own are few; the others share what the broker has."""
    overrides = {
        group_id: _timeouts(resource_config(config, overrides.values))
        for group_id, overrides in image.group_configs.items()
        if overrides.values
    }
    return ConsumerConfig(
        timeouts=_timeouts(resource_config(config, {})),
        overrides=overrides,
        max_size=config.group_consumer_max_size,
        assignors=config.group_consumer_assignors,
        migration_policy=config.group_consumer_migration_policy,
        assigns_elsewhere=True,
        enabled="consumer" in config.group_coordinator_rebalance_protocols,
    )


def _timeouts(configs: Mapping[str, Value]) -> Timeouts:
    def number(name: str) -> int:
        value = configs[name]
        assert isinstance(value, int)
        return value

    return Timeouts(
        session_timeout_ms=number("consumer.session.timeout.ms"),
        heartbeat_interval_ms=number("consumer.heartbeat.interval.ms"),
        assignment_interval_ms=number("consumer.assignment.interval.ms"),
    )


def streams_config(config: ServerConfig, image: Image) -> StreamsConfig:
    overrides = {
        group_id: _streams_group(resource_config(config, overrides.values))
        for group_id, overrides in image.group_configs.items()
        if overrides.values
    }
    return StreamsConfig(
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


def _view(topics: Mapping[str, Topic]) -> Topics:
    return Topics(
        {name: TopicView(topic.id, len(topic.partitions)) for name, topic in topics.items()}
    )


def _load_batches(shard: GroupShard, batches: list[Stored]) -> None:
    for header, records, marker in batches:
        if marker is not None:
            shard.load_end(header.producer_id, commit=marker.commit)
        elif header.transactional:
            shard.load(records, header.producer_id)
        else:
            shard.load(records)
