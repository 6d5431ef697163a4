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
from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

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
from ottla.broker.markers import MarkerPost
from ottla.cluster.decisions import NewTopic
from ottla.cluster.image import Image
from ottla.coordinator.keys import partition_for
from ottla.coordinator.outcome import coordinator_code
from ottla.coordinator.transactions.coordinator import TransactionCoordinator
from ottla.coordinator.transactions.keys import TRANSACTIONS_TOPIC
from ottla.coordinator.transactions.outcome import Markers, Outcome, Reply, Result
from ottla.coordinator.transactions.shard import TransactionConfig
from ottla.coordinator.transactions.transaction import Partition
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

UNCOMPRESSED: Final = 0
ANSWER_TIMEOUT_MS: Final = 10_000  # what is not committed by then is answered without


class Transactions:
    """The transactional ids that this broker coordinates. Handlers ask through `carry_out`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(broker.clock, self._expire)
        broker.clock.when_set(lambda step_ms: self.coordinator.clock_set(step_ms))
        self._post = MarkerPost(broker)
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
        self._post.stop()
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

    # -- outcomes

    def carry_out(self, outcome: Outcome, now_ms: int) -> None:
        """Append, and once that is committed, answer and mark. With one replica that is at once.

        What has nothing to append may tell of what others have appended, and waits for that too.
        """
        index = outcome.partition
        try:
            if outcome.records:
                partition = self._broker.partitions.leading(TRANSACTIONS_TOPIC, index)
                append(partition, outcome.records, now_ms, codec=UNCOMPRESSED)
        except KafkaError as error:
            where = f"{TRANSACTIONS_TOPIC}-{index}"
            log.warning("%s: what transactions did could not be stored: %s", where, error)
            self._answer(self.coordinator.failed(outcome, error.code, now_ms=now_ms))
        else:
            self._follow(outcome, now_ms)
        shard = self.coordinator.shards.get(index)
        if shard is not None:
            self._alarm.set(shard.next_deadline_ms(), now_ms)

    def _follow(self, outcome: Outcome, now_ms: int) -> None:
        """Answer and mark when it is time."""
        replies, markers = outcome.replies, outcome.markers
        partition = self._broker.partitions.of_topic(TRANSACTIONS_TOPIC).get(outcome.partition)
        if partition is None or is_committed(partition):
            self._answer(replies)
            for each in markers:
                self._mark(outcome.partition, each, now_ms)
            return
        if replies:
            told = partial(self._committed, replies)
            when_committed(partition, told, timeout_ms=ANSWER_TIMEOUT_MS)
        if markers:
            when_committed(partition, partial(self._decided, outcome.partition, markers))

    def _committed(self, replies: list[Reply], code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            refused = Result(coordinator_code(code))
            replies = [(token, refused) for token, _ in replies]
        self._answer(replies)

    def _decided(self, index: int, markers: list[Markers], code: ErrorCode) -> None:
        """If another broker has taken over, it is the one to write the markers."""
        if code is ErrorCode.NONE:
            for each in markers:
                self._mark(index, each, self._broker.clock.now_ms())

    def read(
        self, response: DescribeTransactionsResponse, ids: Iterable[str]
    ) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
        """What was read of these, once nothing of it can be lost with this broker."""
        shards, count = self.coordinator.shards, self.coordinator.partition_count
        held = self._broker.partitions.of_topic(TRANSACTIONS_TOPIC)
        indexes = {partition_for(each, count) for each in ids}
        return read_committed(
            response,
            [held.get(index) for index in indexes if index in shards],
            _refused,
            timeout_ms=ANSWER_TIMEOUT_MS,
        )

    def _mark(self, index: int, markers: Markers, now_ms: int) -> None:
        self._post.send(markers, now_ms, partial(self._marked, index, markers))

    def _marked(self, index: int, markers: Markers, codes: Mapping[Partition, ErrorCode]) -> None:
        shard = self.coordinator.shards.get(index)
        if shard is not None:
            now_ms = self._broker.clock.now_ms()
            self.carry_out(shard.marked(markers, codes, now_ms=now_ms), now_ms)

    def _answer(self, replies: Iterable[Reply]) -> None:
        for answer, result in replies:
            assert isinstance(answer, Answer)
            answer.give(result)

    # -- time

    def _expire(self, now_ms: int) -> int | None:
        for outcome in self.coordinator.expire(now_ms):
            self.carry_out(outcome, now_ms)
        return self.coordinator.next_deadline_ms()


def _refused(
    response: DescribeTransactionsResponse, code: ErrorCode
) -> DescribeTransactionsResponse:
    told = coordinator_code(code)
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(error_code=told, transactional_id=each.transactional_id)
            for each in response.transaction_states
        ]
    )


def transaction_config(broker: Broker) -> TransactionConfig:
    config = broker.config
    return TransactionConfig(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        expiration_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
    )
