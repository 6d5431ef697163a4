"""What a Fetch finds in one partition: records, a diverging epoch, an error, or nothing new."""

from __future__ import annotations

from typing import Final

from ottla.broker.fetch_sessions import CachedPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import READ_COMMITTED, Partition
from ottla.wire.messages.fetch import AbortedTransaction, EpochEndOffset, PartitionData

STORAGE_ERROR_FROM: Final = 6


def read_partition_data(
    partition: Partition, cached: CachedPartition, size_left: int, isolation: int, first: bool
) -> PartitionData:
    if cached.last_fetched_epoch >= 0:
        diverging = diverging_partition_data(partition, cached)
        if diverging is not None:
            return diverging
    read_result = partition.read(
        cached.fetch_offset,
        size_max=max(0, min(cached.size_max, size_left)),
        isolation=isolation,
        whole_first_batch=first,
    )
    aborted = None
    if isolation == READ_COMMITTED:
        aborted = [
            AbortedTransaction(producer_id=producer_id, first_offset=offset)
            for producer_id, offset in read_result.aborted or ()
        ]
    return PartitionData(
        partition_index=cached.index,
        high_watermark=read_result.high_watermark,
        last_stable_offset=read_result.last_stable_offset,
        log_start_offset=read_result.start_offset,
        aborted_transactions=aborted,
        records=read_result.records if read_result.records is not None else b"",
    )


def diverging_partition_data(partition: Partition, cached: CachedPartition) -> PartitionData | None:
    """KIP-595: the epoch of the reader's last batch ended earlier here, so it has to truncate."""
    epoch, end_offset = partition.epoch_end_offset(cached.last_fetched_epoch)
    if epoch < 0 or end_offset < 0 or cached.fetch_offset < partition.log.start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch == cached.last_fetched_epoch and end_offset >= cached.fetch_offset:
        return None
    return PartitionData(
        partition_index=cached.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.start_offset,
        diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset),
        records=b"",
    )


def is_consistent(partition: Partition, cached: CachedPartition) -> bool:
    """True if a follower's log is the same as ours, as far as it goes. Else it truncates first, and
    its fetch offset does not count as progress."""
    log = partition.log
    if not log.start_offset <= cached.fetch_offset <= log.end_offset:
        return False
    return cached.last_fetched_epoch < 0 or diverging_partition_data(partition, cached) is None


def error_partition_data(cached: CachedPartition, error: KafkaError, version: int) -> PartitionData:
    code = error.code
    if code is ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_FROM:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # which clients of these versions retry
    return PartitionData(
        partition_index=cached.index,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        records=b"",
    )


def is_caught_up(partition: Partition, cached: CachedPartition, replica_id: int) -> bool:
    """True if an in-sync follower has all of a partition, and knows it. Whatever makes this untrue
    wakes the fetches that wait for the partition."""
    log = partition.log
    return (
        cached.reported
        and partition.leads
        and cached.current_leader_epoch == partition.leader_epoch
        and cached.fetch_offset == log.end_offset
        and cached.high_watermark == partition.high_watermark
        and cached.start_offset == log.start_offset
        and replica_id in partition.isr
        and not log.dir.offline
    )


def has_changed(cached: CachedPartition, data: PartitionData) -> bool:
    """True if an incremental response has to name the partition."""
    return bool(
        data.records
        or data.error_code
        or data.diverging_epoch is not None
        or data.preferred_read_replica >= 0
        or data.high_watermark != cached.high_watermark
        or data.log_start_offset != cached.start_offset
    )
