"""Where share-partitions are kept: the share coordinator, with its log and its clock (KIP-932).

A share-partition's state lives in the partition of `__share_group_state` that its name falls into.
`ShareStateLogs` loads such a partition when it is first asked for, appends what changes, and now
and then cuts off what newer snapshots replace.

This is the coordinator's side, for states whose partition this broker leads. Whoever wants to know
or to store something asks through `ottla.broker.share_persister`, which finds the right broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.journal import Alarm, Answer, append, stored, when_committed
from ottla.cluster.decisions import NewTopic
from ottla.cluster.image import NO_LEADER, Image
from ottla.coordinator.keys import partition_for
from ottla.coordinator.outcome import coordinator_code
from ottla.coordinator.share.persister import UNCHANGED, ShareStates, StateWrite, Stored
from ottla.coordinator.share.records import STATE_TOPIC, ShareState, StateKey
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

RENEW_BEHIND: Final = 10_000  # records; a snapshot so far behind the end is written anew

Found = ShareState | KafkaError  # the state as it is now, or why it is not known, or not changed


class ShareStateLogs:
    """The partitions of `__share_group_state` that this broker leads."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._topic_id = b""
        self._count = 0
        self._leaders: dict[int, int] = {}
        self._shards: dict[int, ShareStates] = {}
        self._epochs: dict[int, int] = {}  # in which the shards were loaded
        self._prune = Alarm(broker.clock, self._prune_all)

    # -- the cluster

    def apply(self, image: Image, now_ms: int) -> None:
        """Forget what another broker leads by now; it will be read when it is needed again."""
        topic = image.topics.get(STATE_TOPIC)
        topic_id = b"" if topic is None else topic.id
        partitions = () if topic is None else topic.partitions
        for index in list(self._shards):
            if topic_id != self._topic_id or not self._is_led(index):
                del self._shards[index]
        self._topic_id, self._count = topic_id, len(partitions)
        self._leaders = {each.index: each.leader for each in partitions}
        interval_ms = self._broker.config.share_coordinator_state_topic_prune_interval_ms
        self._prune.set(now_ms + interval_ms, now_ms)

    def _is_led(self, index: int) -> bool:
        """Whether this broker leads a partition in the epoch in which it was loaded."""
        partition = self._broker.partitions.of_topic(STATE_TOPIC).get(index)
        if partition is None or not partition.leads:
            return False
        return partition.leader_epoch == self._epochs[index]

    def stop(self) -> None:
        self._prune.stop()
        self._shards.clear()

    def state_topic(self) -> NewTopic:
        """`__share_group_state` as it is created when it is first needed.

        It is not compacted: an update says only what changed since the one before it.
        """
        config = self._broker.config
        return NewTopic(
            STATE_TOPIC,
            partition_count=config.share_coordinator_state_topic_num_partitions,
            replication_factor=config.share_coordinator_state_topic_replication_factor,
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                "retention.ms": "-1",
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            },
        )

    # -- what leaders and group coordinators ask. The answer comes when its records are committed

    def initialize(
        self, key: StateKey, *, state_epoch: int, start_offset: int, now_ms: int
    ) -> Answer[Found]:
        return self._change(
            key,
            lambda states: states.initialize(
                key, state_epoch=state_epoch, start_offset=start_offset, now_ms=now_ms
            ),
            now_ms,
        )

    def read(self, key: StateKey, *, leader_epoch: int, now_ms: int) -> Answer[Found]:
        return self._change(
            key,
            lambda states: states.read(key, leader_epoch=leader_epoch, now_ms=now_ms)[1],
            now_ms,
        )

    def write(self, key: StateKey, write: StateWrite, now_ms: int) -> Answer[Found]:
        return self._change(key, lambda states: states.write(key, write, now_ms), now_ms)

    def delete(self, key: StateKey, now_ms: int) -> Answer[Found]:
        return self._change(key, lambda states: states.delete(key), now_ms)

    def summary(self, key: StateKey, now_ms: int) -> Answer[Found]:
        return self._change(key, lambda states: UNCHANGED, now_ms)

    def delete_topic(self, topic_id: bytes, now_ms: int) -> None:
        """A topic is gone. In partitions that are not loaded, loading does the same."""
        for index, states in list(self._shards.items()):
            gone = [key for key in states if key.topic_id == topic_id]
            self._delete_quietly(index, states, gone, now_ms)

    # -- loading

    def leader(self, key: StateKey) -> int:
        """The broker that keeps this state; KafkaError while there is none."""
        if not self._count:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no {STATE_TOPIC} yet")
        leader = self._leaders[partition_for(str(key), self._count)]
        if leader == NO_LEADER:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody leads its partition")
        return leader

    def _shard(self, key: StateKey, now_ms: int) -> tuple[int, ShareStates]:
        if self.leader(key) != self._broker.node_id:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        index = partition_for(str(key), self._count)
        states = self._shards.get(index)
        if states is None:
            states = self._load(index, now_ms)
        return index, states

    def _load(self, index: int, now_ms: int) -> ShareStates:
        config = self._broker.config
        try:
            partition = self._broker.partitions.leading(STATE_TOPIC, index)
            states = ShareStates(
                updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot
            )
            states.end_offset = partition.log.start_offset
            for batches in stored(partition, size_max=config.share_coordinator_load_buffer_size):
                for batch in batches:
                    for record in batch.records:
                        if record.key is not None:
                            states.load(record.key, record.value, record.offset)
            states.end_offset = partition.log.end_offset
        except KafkaError as error:
            log.error("states of %s-%d cannot be read: %s", STATE_TOPIC, index, error)
            raise KafkaError(coordinator_code(error.code)) from error
        self._shards[index] = states
        self._epochs[index] = partition.leader_epoch
        topics = self._broker.image.names_by_id
        gone = [key for key in states if key.topic_id not in topics]
        self._delete_quietly(index, states, gone, now_ms)
        return states

    # -- changes

    def _change(
        self, key: StateKey, make: Callable[[ShareStates], Stored], now_ms: int
    ) -> Answer[Found]:
        answer = Answer[Found]()
        try:
            index, states = self._shard(key, now_ms)
            self._append(index, states, [(key, make(states))], now_ms)
            partition = self._leading(index)
        except KafkaError as error:
            answer.give(error)
            return answer
        state = states.state(key)

        def committed(code: ErrorCode) -> None:
            answer.give(state if code is ErrorCode.NONE else KafkaError(coordinator_code(code)))

        timeout_ms = self._broker.config.share_coordinator_write_timeout_ms
        when_committed(partition, committed, timeout_ms=timeout_ms)
        return answer

    def _leading(self, index: int) -> Partition:
        try:
            return self._broker.partitions.leading(STATE_TOPIC, index)
        except KafkaError as error:
            raise KafkaError(coordinator_code(error.code), error.message) from error

    def _append(
        self,
        index: int,
        states: ShareStates,
        changes: Iterable[tuple[StateKey, Stored]],
        now_ms: int,
    ) -> None:
        """All of them or none. Whoever has to know waits until they are committed."""
        wanted = [
            (key, change.record, change) for key, change in changes if change.record is not None
        ]
        if not wanted:
            return
        codec = self._broker.config.share_coordinator_state_topic_compression_codec
        try:
            partition = self._broker.partitions.leading(STATE_TOPIC, index)
            offset = partition.log.end_offset
            append(partition, [record for _, record, _ in wanted], now_ms, codec=codec)
        except KafkaError as error:
            for _, _, change in reversed(wanted):
                change.undo()
            raise KafkaError(coordinator_code(error.code), error.message) from error
        for place, (key, record, _) in enumerate(wanted, offset):
            states.appended(key, record, place)

    def _delete_quietly(
        self, index: int, states: ShareStates, keys: Iterable[StateKey], now_ms: int
    ) -> None:
        """What is not deleted now is found again when the partition is loaded the next time."""
        try:
            self._append(index, states, [(key, states.delete(key)) for key in keys], now_ms)
        except KafkaError as error:
            log.warning("%s-%d: states remain of a deleted topic: %s", STATE_TOPIC, index, error)

    # -- the logs' length

    def _prune_all(self, now_ms: int) -> int:
        for index, states in self._shards.items():
            try:
                self._prune_one(index, states, now_ms)
            except KafkaError as error:
                log.warning("%s-%d is not cut: %s", STATE_TOPIC, index, error)
        return now_ms + self._broker.config.share_coordinator_state_topic_prune_interval_ms

    def _prune_one(self, index: int, states: ShareStates, now_ms: int) -> None:
        old = states.renew(states.end_offset - RENEW_BEHIND, now_ms)
        self._append(index, states, old, now_ms)
        partition = self._broker.partitions.leading(STATE_TOPIC, index)
        oldest = min(states.oldest_offset(), partition.high_watermark)
        if oldest > partition.log.start_offset:
            partition.delete_records(oldest, now_ms)

    def __iter__(self) -> Iterator[ShareStates]:
        return iter(self._shards.values())
