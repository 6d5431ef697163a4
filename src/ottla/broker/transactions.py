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

from ottla.broker.internal_topic import InternalTopic, Take
from ottla.broker.journal import Alarm, Answer, Stored, append
from ottla.broker.markers import write_marker
from ottla.cluster.decisions import NewTopic
from ottla.cluster.image import Image
from ottla.coordinator.transactions.coordinator import TransactionCoordinator
from ottla.coordinator.transactions.keys import TRANSACTIONS_TOPIC
from ottla.coordinator.transactions.outcome import Markers, Outcome, Reply, Result
from ottla.coordinator.transactions.shard import TransactionConfig
from ottla.coordinator.transactions.transaction import EPOCH_BUMP_FROM
from ottla.errors import ErrorCode, KafkaError

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
        self._topic = InternalTopic(
            TRANSACTIONS_TOPIC,
            broker,
            self,
            buffer_size=lambda: broker.config.transaction_state_log_load_buffer_size,
        )
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
        self._topic.stop()

    def apply(self, image: Image, now_ms: int) -> None:
        config = transaction_config(self._broker)
        if config != self.coordinator.config:
            self.coordinator.configure(config)
        self._topic.apply(image, now_ms)

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

    # -- loading

    def reset(self, partition_count: int) -> None:
        self.coordinator = self._new_coordinator(partition_count)

    def begin(self, index: int, leader_epoch: int) -> Take:
        shard = self.coordinator.begin_load(index, leader_epoch)

        def take(batches: list[Stored]) -> None:
            for batch in batches:
                shard.load(batch.records)

        return take

    def finish(self, index: int, now_ms: int) -> None:
        self.carry_out(self.coordinator.end_load(index, now_ms), now_ms)

    def drop(self, index: int) -> None:
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
