"""What a fetch finds in one partition: records, that histories part, an error, or nothing new."""

from __future__ import annotations

from typing import Final

from ottla.broker.sessions import Wanted
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import READ_COMMITTED, Partition
from ottla.wire.messages.fetch import AbortedTransaction, EpochEndOffset, PartitionData

STORAGE_ERROR_FROM: Final = 6


def read(
    partition: Partition, wanted: Wanted, size_left: int, isolation: int, first: bool
) -> PartitionData:
    if wanted.last_fetched_epoch >= 0:
        parted = diverging(partition, wanted)
        if parted is not None:
            return parted
    found = partition.read(
        wanted.fetch_offset,
        size_max=max(0, min(wanted.size_max, size_left)),
        isolation=isolation,
        whole_first_batch=first,
    )
    aborted = None
    if isolation == READ_COMMITTED:
        aborted = [
            AbortedTransaction(producer_id=producer_id, first_offset=offset)
            for producer_id, offset in found.aborted or ()
        ]
    return PartitionData(
        partition_index=wanted.index,
        high_watermark=found.high_watermark,
        last_stable_offset=found.last_stable_offset,
        log_start_offset=found.start_offset,
        aborted_transactions=aborted,
        records=found.records if found.records is not None else b"",
    )


def diverging(partition: Partition, wanted: Wanted) -> PartitionData | None:
    """KIP-595: the reader's last batch is of an epoch that ended earlier here; it must go back."""
    epoch, end_offset = partition.epoch_end_offset(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0 or wanted.fetch_offset < partition.log.start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return None
    return PartitionData(
        partition_index=wanted.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.start_offset,
        diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset),
        records=b"",
    )


def agrees(partition: Partition, wanted: Wanted) -> bool:
    """Whether a reader's log is the same as ours, as far as it goes: else it must go back first."""
    log = partition.log
    if not log.start_offset <= wanted.fetch_offset <= log.end_offset:
        return False
    return wanted.last_fetched_epoch < 0 or diverging(partition, wanted) is None


def refused(wanted: Wanted, error: KafkaError, version: int) -> PartitionData:
    code = error.code
    if code is ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_FROM:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # which clients of that time know to try again
    return PartitionData(
        partition_index=wanted.index,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        records=b"",
    )


def is_known(partition: Partition, wanted: Wanted, replica_id: int) -> bool:
    """Whether a follower in sync has all of a partition, and knows it. Whatever makes this untrue
    wakes who waits for the partition."""
    log = partition.log
    return (
        wanted.told
        and partition.leads
        and wanted.current_leader_epoch == partition.leader_epoch
        and wanted.fetch_offset == log.end_offset
        and wanted.high_watermark == partition.high_watermark
        and wanted.start_offset == log.start_offset
        and replica_id in partition.isr
        and not log.dir.offline
    )


def changed(wanted: Wanted, data: PartitionData) -> bool:
    """An incremental response names only the partitions that have news."""
    return bool(
        data.records
        or data.error_code
        or data.diverging_epoch is not None
        or data.preferred_read_replica >= 0
        or data.high_watermark != wanted.high_watermark
        or data.log_start_offset != wanted.start_offset
    )
