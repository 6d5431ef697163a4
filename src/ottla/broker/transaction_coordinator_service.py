"""The transaction coordinator with its log, its clock, and the markers that it has written.

What `CoordinatorService` does for every coordinator is not repeated here. A client gets a response
only when its records are in the log; and what is decided in the log is carried out, by the next
coordinator that loads it if need be. So a transaction is committed or aborted as a whole, wherever
the process is killed:

    before Prepare is stored        it is open, and aborted when its time is over
    between Prepare and Complete    loading writes all its markers, some of them for the second time
    after Complete                  done
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Final

from ottla.broker.coordinator_service import CoordinatorService
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.transaction_markers import TransactionMarkerChannel
from ottla.clock import WatchedClock
from ottla.cluster.image import MetadataImage
from ottla.cluster.topics import TopicSpec
from ottla.config import ServerConfig
from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.transactions.coordinator import TransactionCoordinator
from ottla.coordinator.transactions.records import TRANSACTIONS_TOPIC
from ottla.coordinator.transactions.result import (
    TransactionMarkers,
)
from ottla.coordinator.transactions.shard import TransactionConfig
from ottla.coordinator.transactions.transaction import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partitions import Partitions

log = logging.getLogger("ottla.broker")

UNCOMPRESSED: Final = 0
COMMIT_TIMEOUT_MS: Final = 10_000  # a reply whose records are not committed by then is an error


class TransactionCoordinatorService(CoordinatorService[TransactionCoordinator]):
    """The transactional ids that this broker coordinates."""

    codec = UNCOMPRESSED
    commit_timeout_ms = COMMIT_TIMEOUT_MS

    def __init__(
        self,
        partitions: Partitions,
        producer_ids: ProducerIds,
        markers: TransactionMarkerChannel,
        *,
        config: Callable[[], ServerConfig],
        clock: WatchedClock,
    ) -> None:
        self._producer_ids = producer_ids
        self._channel = markers
        self._config = config
        self._tasks: set[asyncio.Task[None]] = set()
        count = config().transaction_state_log_num_partitions
        super().__init__(TRANSACTIONS_TOPIC, partitions, partition_count=count, clock=clock)

    def new_coordinator(self, partition_count: int) -> TransactionCoordinator:
        return TransactionCoordinator(
            partition_count=partition_count,
            config=transaction_config(self._config()),
            ids=self._take_id,
        )

    @property
    def load_buffer_size(self) -> int:
        return self._config().transaction_state_log_load_buffer_size

    # -- start, stop, and the cluster's changes

    def start(self, image: MetadataImage, now_ms: int) -> None:
        """Load every partition of `__transaction_state` that this broker leads."""
        self.apply(image, now_ms)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._channel.stop()
        super().stop()

    def apply(self, image: MetadataImage, now_ms: int) -> None:
        config = transaction_config(self._config())
        if config != self.coordinator.config:
            self.coordinator.configure(config)
        self._topic.apply(image, now_ms)

    def transactions_topic(self) -> TopicSpec:
        """`__transaction_state` as it is created when it is first needed."""
        config = self._config()
        return TopicSpec(
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

    def _take_id(self) -> int:
        """An id for `ids` of a shard. Requests wait for a block of ids before they reach a shard. A
        transaction that times out does not wait: without an id it is aborted later."""
        ids = self._producer_ids
        if not ids.at_hand:
            self._beside(self._fill_ids())
        return ids.take()

    async def _fill_ids(self) -> None:
        try:
            await self._producer_ids.fill()
        except KafkaError as error:
            log.warning("Failed to allocate a block of producer ids: %s", error)

    def _beside(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- markers

    def decided(self, result: CoordinatorResult, now_ms: int) -> None:
        for markers in result.markers:
            marked = partial(self._marked, result.partition, markers)
            self._channel.send(markers, now_ms, marked)

    def _marked(
        self, index: int, markers: TransactionMarkers, codes: Mapping[TopicPartition, ErrorCode]
    ) -> None:
        shard = self.coordinator.shards.get(index)
        if shard is not None:
            now_ms = self._clock.now_ms()
            self.carry_out(shard.marked(markers, codes, now_ms=now_ms), now_ms)


def transaction_config(config: ServerConfig) -> TransactionConfig:
    return TransactionConfig(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        expiration_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
    )
