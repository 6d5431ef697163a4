"""Carries out what the transaction coordinator decides: appends, answers, has markers written.

The coordinator is a state machine without I/O (see `ottla.coordinator.transactions`). Here its
outcomes meet the log of `__transaction_state`, the partitions that transactions write to, the
loop's timers, and the clients that wait for an answer.

Whatever a client is told is in the log before; whatever is decided in the log is carried out, if
need be by the next one to load it. So a transaction is committed as a whole or aborted as a whole,
wherever the process is killed:

    before Prepare is stored        it is open, and aborted when its time is over
    between Prepare and Complete    loading writes all its markers, some of them for the second time
    after Complete                  done
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING

from ottla.broker.journal import LOAD_AT_ONCE_BYTES_MAX, Alarm, Answer, append, stored
from ottla.broker.markers import write_marker
from ottla.cluster.decisions import NewTopic
from ottla.cluster.image import Image, Topic
from ottla.coordinator.transactions.coordinator import TransactionCoordinator
from ottla.coordinator.transactions.keys import TRANSACTIONS_TOPIC
from ottla.coordinator.transactions.outcome import Markers, Outcome, Reply, Result
from ottla.coordinator.transactions.shard import TransactionConfig, TransactionShard
from ottla.coordinator.transactions.transaction import EPOCH_BUMP_FROM
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

UNCOMPRESSED = 0


class Transactions:
    """The transactional ids that this broker coordinates. Handlers ask through `carry_out`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(broker.clock, self._expire)
        self._tasks: set[asyncio.Task[None]] = set()
        self._topic_id = b""
        self._led: dict[int, int] = {}  # partitions of the topic, with the epoch of their leader
        count = broker.config.transaction_state_log_num_partitions
        self.coordinator = self._new_coordinator(count)

    # -- start, stop, and the cluster's changes

    def start(self, now_ms: int) -> None:
        """Load every partition of `__transaction_state` that this broker leads."""
        self.apply(self._broker.image, now_ms)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._alarm.stop()
        self._unload(list(self._led))

    def apply(self, image: Image, now_ms: int) -> None:
        config = transaction_config(self._broker)
        if config != self.coordinator.config:
            self.coordinator.configure(config)
        topic = image.topics.get(TRANSACTIONS_TOPIC)
        topic_id = b"" if topic is None else topic.id
        if topic_id != self._topic_id:
            self._unload(list(self._led))
            self._topic_id = topic_id
            if topic is not None:
                self.coordinator = self._new_coordinator(len(topic.partitions))
        if topic is not None:
            self._follow(topic, now_ms)

    def transactions_topic(self) -> NewTopic:
        """`__transaction_state` as it is created when it is first needed."""
        config = self._broker.config
        return NewTopic(
            TRANSACTIONS_TOPIC,
            partition_count=config.transaction_state_log_num_partitions,
            replication_factor=config.transaction_state_log_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )

    def _new_coordinator(self, partition_count: int) -> TransactionCoordinator:
        return TransactionCoordinator(
            partition_count=partition_count,
            config=transaction_config(self._broker),
            ids=self._take_id,
        )

    def _take_id(self) -> int:
        """Requests come when there is one; a timeout may not, and then has one at the next look."""
        ids = self._broker.producer_ids
        if not ids.at_hand:
            self._beside(self._fill_ids())
        return ids.take()

    async def _fill_ids(self) -> None:
        try:
            await self._broker.producer_ids.fill()
        except KafkaError as error:
            log.warning("there are no producer ids: %s", error)

    def _beside(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _follow(self, topic: Topic, now_ms: int) -> None:
        """Load what this broker leads now, unload what it no longer does or was given anew."""
        node_id = self._broker.node_id
        leads = {
            each.index: each.leader_epoch for each in topic.partitions if each.leader == node_id
        }
        if leads == self._led:
            return
        self._unload([index for index, epoch in self._led.items() if leads.get(index) != epoch])
        size = 0
        for index, epoch in leads.items():
            if index not in self._led:
                size += self._load(index, epoch, size, now_ms)

    # -- loading

    def _load(self, index: int, epoch: int, size_before: int, now_ms: int) -> int:
        """Begin to load a partition, and give its size."""
        self._led[index] = epoch
        try:
            partition = self._broker.partitions.find(TRANSACTIONS_TOPIC, index)
        except KafkaError as error:
            where = f"{TRANSACTIONS_TOPIC}-{index}"
            log.error("transactions of %s are not here: %s", where, error)
            return 0
        shard = self.coordinator.begin_load(index, epoch)
        size = partition.log.size
        if size_before + size <= LOAD_AT_ONCE_BYTES_MAX:
            self._load_now(partition, shard, now_ms)
        else:
            self._beside(self._load_beside(partition, shard))
        return size

    def _load_now(self, partition: Partition, shard: TransactionShard, now_ms: int) -> None:
        size_max = self._broker.config.transaction_state_log_load_buffer_size
        try:
            for batches in stored(partition, size_max=size_max):
                for batch in batches:
                    shard.load(batch.records)
        except Exception as error:
            self._give_up(partition, error)
            return
        self.carry_out(self.coordinator.end_load(partition.index, now_ms), now_ms)

    async def _load_beside(self, partition: Partition, shard: TransactionShard) -> None:
        """A chunk at a time, so that the broker serves others meanwhile."""
        size_max = self._broker.config.transaction_state_log_load_buffer_size
        index = partition.index
        try:
            for batches in stored(partition, size_max=size_max):
                for batch in batches:
                    shard.load(batch.records)
                await asyncio.sleep(0)
        except Exception as error:
            if self.coordinator.is_loading(shard):
                self._give_up(partition, error)
            return
        if self.coordinator.is_loading(shard):
            now_ms = self._broker.clock.now_ms()
            self.carry_out(self.coordinator.end_load(index, now_ms), now_ms)

    def _give_up(self, partition: Partition, error: Exception) -> None:
        """Damage has been told in words; anything else is a bug, of which the place is told too."""
        trace = None if isinstance(error, KafkaError) else error
        where = f"{TRANSACTIONS_TOPIC}-{partition.index}"
        log.error("transactions of %s cannot be read: %s", where, error, exc_info=trace)
        self.coordinator.unload(partition.index)

    def _unload(self, indexes: list[int]) -> None:
        for index in indexes:
            del self._led[index]
            self.coordinator.unload(index)

    # -- what others ask

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[tuple[str, int]],
        *,
        add: bool,
        now_ms: int,
    ) -> dict[tuple[str, int], ErrorCode]:
        """Whether a producer may write to these in its transaction (KIP-890).

        `add` is transaction version 2: the partitions are added by being written to. Else they have
        to be in the transaction that is open. The producer's transactions have their coordinator
        on this broker; with several brokers this is an AddPartitionsToTxn v4 to the one that has.
        """
        coordinator = self.coordinator
        if not add:
            return coordinator.verify(
                transactional_id, partitions, producer_id=producer_id, epoch=producer_epoch
            )
        answer = Answer[Result]()
        outcome = coordinator.add_partitions(
            transactional_id,
            partitions,
            producer_id=producer_id,
            epoch=producer_epoch,
            client_version=EPOCH_BUMP_FROM,
            token=answer,
            now_ms=now_ms,
        )
        self.carry_out(outcome, now_ms)
        result = answer.result()
        assert isinstance(result, Result)
        return dict.fromkeys(partitions, result.code)

    # -- outcomes

    def carry_out(self, outcome: Outcome, now_ms: int) -> None:
        """Append, and once that is committed, answer and mark. With one replica that is at once."""
        pending = [outcome]
        while pending:
            outcome = pending.pop()
            if self._store(outcome, now_ms):
                for markers in outcome.markers:
                    codes = self._mark(markers, now_ms)
                    shard = self.coordinator.shards[outcome.partition]
                    pending.append(shard.marked(markers, codes, now_ms=now_ms))
            shard_or_none = self.coordinator.shards.get(outcome.partition)
            if shard_or_none is not None:
                self._alarm.set(shard_or_none.next_deadline_ms(), now_ms)

    def _store(self, outcome: Outcome, now_ms: int) -> bool:
        try:
            if outcome.records:
                partition = self._broker.partitions.find(TRANSACTIONS_TOPIC, outcome.partition)
                append(partition, outcome.records, now_ms, codec=UNCOMPRESSED)
        except KafkaError as error:
            where = f"{TRANSACTIONS_TOPIC}-{outcome.partition}"
            log.warning("%s: what transactions did could not be stored: %s", where, error)
            self._answer(self.coordinator.failed(outcome, error.code, now_ms=now_ms))
            return False
        self._answer(outcome.replies)
        return True

    def _mark(self, markers: Markers, now_ms: int) -> dict[tuple[str, int], ErrorCode]:
        """Write a decided transaction's markers.

        The one place that takes every partition to be led by this broker; with several brokers
        these are WriteTxnMarkers requests to the leaders. A partition that no longer exists needs
        no marker.
        """
        topics = self._broker.image.topics
        codes: dict[tuple[str, int], ErrorCode] = {}
        for topic, index in markers.partitions:
            known = topics.get(topic)
            if known is None or index >= len(known.partitions):
                codes[topic, index] = ErrorCode.NONE
                continue
            codes[topic, index] = write_marker(
                self._broker,
                topic,
                index,
                producer_id=markers.producer_id,
                producer_epoch=markers.producer_epoch,
                coordinator_epoch=markers.coordinator_epoch,
                commit=markers.commit,
                transaction_version=markers.transaction_version,
                now_ms=now_ms,
            )
            if codes[topic, index] is not ErrorCode.NONE:
                what = f"{markers.transactional_id!r} in {topic}-{index}"
                log.warning("marker of %s: %s", what, codes[topic, index].name)
        return codes

    def _answer(self, replies: Iterable[Reply]) -> None:
        for answer, result in replies:
            assert isinstance(answer, Answer)
            answer.give(result)

    # -- time

    def _expire(self, now_ms: int) -> int | None:
        for outcome in self.coordinator.expire(now_ms):
            self.carry_out(outcome, now_ms)
        return self.coordinator.next_deadline_ms()


def transaction_config(broker: Broker) -> TransactionConfig:
    config = broker.config
    return TransactionConfig(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        expiration_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
    )
