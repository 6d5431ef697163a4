"""A share-partition: which member acquires which records, for how long, and how often."""

from __future__ import annotations

import pytest

from ottla.coordinator.share.partition import (
    AcquiredRecords,
    AcquireLimits,
    BatchSpan,
    ShareAcknowledgementBatch,
    SharePartition,
    SharePartitionLimits,
    StateTransition,
)
from ottla.coordinator.share.record_state import AcknowledgeType, RecordState, StateBatch
from ottla.errors import ErrorCode, KafkaError

ACCEPT = [AcknowledgeType.ACCEPT]
RELEASE = [AcknowledgeType.RELEASE]
REJECT = [AcknowledgeType.REJECT]
RENEW = [AcknowledgeType.RENEW]
LOCK_MS = 30_000


def take(
    partition: SharePartition,
    member: str,
    *spans: tuple[int, int] | BatchSpan,
    most: int = 500,
    batch_size: int = 500,
    strict: bool = False,
    now_ms: int = 0,
) -> list[AcquiredRecords]:
    offset = partition.fetch_offset()
    assert offset is not None
    return partition.acquire(
        member,
        [BatchSpan(*span) for span in spans],
        fetch_offset=offset,
        acquire_limits=AcquireLimits(most, batch_size, strict),
        now_ms=now_ms,
    )


def say(
    partition: SharePartition, member: str, first: int, last: int, types: list[int], now_ms: int = 0
) -> StateTransition:
    change = partition.acknowledge(member, [ShareAcknowledgementBatch(first, last, types)], now_ms)
    partition.commit(change)
    return change


def test_records_are_acquired_once() -> None:
    partition = SharePartition(0)
    assert take(partition, "a", (0, 9)) == [AcquiredRecords(0, 9, 1)]
    assert partition.fetch_offset() == 10
    assert take(partition, "b", (0, 9), (10, 14)) == [AcquiredRecords(10, 14, 1)]


def test_the_start_offset_moves_past_accepted_records() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 9))
    change = say(partition, "a", 3, 5, ACCEPT)
    assert change.batches == [StateBatch(3, 5, RecordState.ACKNOWLEDGED, 1)]
    assert (change.start_offset, change.delivery_complete_count) == (0, 3)
    assert partition.start_offset == 0
    change = say(partition, "a", 0, 2, REJECT)
    assert (change.start_offset, change.delivery_complete_count) == (6, 0)
    assert partition.start_offset == 6


def test_released_records_go_to_the_next_fetch() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 9))
    change = say(partition, "a", 2, 4, RELEASE)
    assert change.batches == [StateBatch(2, 4, RecordState.AVAILABLE, 1)]
    assert partition.fetch_offset() == 2
    assert take(partition, "b", (0, 9)) == [AcquiredRecords(2, 4, 2)]


def test_an_acknowledgement_may_differ_for_each_record() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 3))
    say(partition, "a", 0, 3, [*ACCEPT, *RELEASE, *REJECT, AcknowledgeType.GAP])
    assert partition.start_offset == 1
    assert take(partition, "a", (0, 3)) == [AcquiredRecords(1, 1, 2)]
    say(partition, "a", 1, 1, ACCEPT)
    assert partition.start_offset == 4


@pytest.mark.parametrize(
    ("member", "first", "last", "code"),
    [
        ("b", 0, 4, ErrorCode.INVALID_RECORD_STATE),  # another member's
        ("a", 5, 5, ErrorCode.INVALID_RECORD_STATE),  # acknowledged before
        ("a", 0, 9, ErrorCode.INVALID_RECORD_STATE),  # among others
        ("a", 8, 10, ErrorCode.INVALID_REQUEST),  # 10 was never acquired
    ],
)
def test_a_wrong_acknowledgement_changes_nothing(
    member: str, first: int, last: int, code: ErrorCode
) -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 9))
    say(partition, "a", 5, 5, ACCEPT)
    with pytest.raises(KafkaError) as refused:
        partition.acknowledge(
            "a" if member == "a" else "b", [ShareAcknowledgementBatch(first, last, ACCEPT)], 0
        )
    assert refused.value.code is code
    say(partition, "a", 0, 4, ACCEPT)
    say(partition, "a", 6, 9, ACCEPT)
    assert partition.start_offset == 10
    with pytest.raises(KafkaError):
        partition.acknowledge("a", [ShareAcknowledgementBatch(0, 4, ACCEPT)], 0)


def test_a_lock_expires() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 4))
    take(partition, "b", (5, 9), now_ms=1_000)
    assert partition.next_deadline_ms() == LOCK_MS
    change = partition.expire(LOCK_MS)
    assert change.batches == [StateBatch(0, 4, RecordState.AVAILABLE, 1)]
    partition.commit(change)
    assert partition.next_deadline_ms() == LOCK_MS + 1_000
    assert take(partition, "b", (0, 4), now_ms=LOCK_MS) == [AcquiredRecords(0, 4, 2)]


def test_a_member_can_renew_its_locks() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 4))
    assert say(partition, "a", 0, 2, RENEW, now_ms=20_000).batches == []
    change = partition.expire(LOCK_MS)
    assert change.batches == [StateBatch(3, 4, RecordState.AVAILABLE, 1)]
    partition.commit(change)
    assert partition.next_deadline_ms() == LOCK_MS + 20_000
    say(partition, "a", 0, 2, ACCEPT)


def test_a_record_delivered_too_often_is_archived() -> None:
    partition = SharePartition(0, limits=SharePartitionLimits(delivery_count_max=2))
    for _ in range(2):
        assert take(partition, "a", (0, 0))
        change = say(partition, "a", 0, 0, RELEASE)
    assert change.batches == [StateBatch(0, 0, RecordState.ARCHIVED, 2)]
    assert partition.start_offset == 1


def test_repeatedly_failing_records_are_acquired_in_smaller_batches() -> None:
    partition = SharePartition(0, limits=SharePartitionLimits(delivery_count_max=6))
    sizes = []
    for _ in range(6):
        acquired = take(partition, "a", (0, 7))
        sizes.append(acquired[-1].last - acquired[0].first + 1)
        for run in acquired:
            say(partition, "a", run.first, run.last, RELEASE)
    assert sizes == [8, 8, 8, 4, 2, 1]
    assert partition.start_offset == 1


def test_a_closed_session_releases_its_records() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 4))
    take(partition, "b", (5, 9))
    change = partition.release("a")
    assert change.batches == [StateBatch(0, 4, RecordState.AVAILABLE, 1)]
    partition.commit(change)
    assert take(partition, "b", (0, 4)) == [AcquiredRecords(0, 4, 2)]


def test_the_number_of_in_flight_records_is_limited() -> None:
    partition = SharePartition(0, limits=SharePartitionLimits(in_flight_max=10))
    take(partition, "a", (0, 4), (5, 9), (10, 14), (15, 19), most=100)
    assert partition.end_offset == 10
    assert partition.fetch_offset() is None
    say(partition, "a", 4, 6, RELEASE)
    assert take(partition, "b", (0, 4), (5, 9), (10, 14)) == [AcquiredRecords(4, 6, 2)]
    assert partition.fetch_offset() is None
    say(partition, "a", 0, 3, ACCEPT)
    assert partition.fetch_offset() == 10


def test_whole_batches_are_acquired_unless_the_limit_is_strict() -> None:
    partition = SharePartition(0)
    assert take(partition, "a", (0, 9), (10, 19), most=5) == [AcquiredRecords(0, 9, 1)]
    assert take(partition, "a", (10, 19), most=5, strict=True) == [AcquiredRecords(10, 14, 1)]
    assert partition.fetch_offset() == 15
    partition.commit(partition.release("a"))
    assert take(partition, "b", (0, 9), most=3, strict=True) == [AcquiredRecords(0, 2, 2)]


def test_batches_of_the_log_are_grouped_by_the_batch_size() -> None:
    partition = SharePartition(0)
    spans = [(0, 2), (3, 5), (6, 8), (9, 9)]
    acquired = take(partition, "a", *spans, batch_size=5)
    assert acquired == [AcquiredRecords(0, 5, 1), AcquiredRecords(6, 9, 1)]


def test_aborted_records_are_not_acquired() -> None:
    partition = SharePartition(0)
    spans = [
        BatchSpan(0, 1, aborted=True),
        BatchSpan(2, 4),
        BatchSpan(5, 6, aborted=True),
        BatchSpan(7, 7),
    ]
    acquired = take(partition, "a", *spans)
    assert acquired == [AcquiredRecords(2, 4, 1), AcquiredRecords(7, 7, 1)]
    assert partition.start_offset == 2
    say(partition, "a", 2, 4, ACCEPT)
    assert partition.start_offset == 7


def test_records_missing_from_the_log_are_not_acquired() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 9))
    partition.move_log_start(5)
    assert partition.start_offset == 5
    say(partition, "a", 0, 3, ACCEPT)  # too late to matter, and no error
    say(partition, "a", 0, 9, ACCEPT)
    assert partition.start_offset == 10
    partition.move_log_start(20)
    assert (partition.start_offset, partition.fetch_offset()) == (20, 20)


def test_compacted_records_do_not_block_the_start_offset() -> None:
    partition = SharePartition(0, batches=[StateBatch(6, 7, RecordState.ACKNOWLEDGED, 1)])
    assert partition.fetch_offset() == 0
    assert take(partition, "a", (4, 9)) == [AcquiredRecords(4, 5, 1), AcquiredRecords(8, 9, 1)]
    assert partition.start_offset == 4
    assert take(partition, "a", (12, 12)) == [AcquiredRecords(12, 12, 1)]
    say(partition, "a", 4, 5, ACCEPT)
    say(partition, "a", 8, 9, ACCEPT)
    assert partition.start_offset == 12


def test_records_of_an_unstored_change_are_not_acquired() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 4))
    change = partition.acknowledge("a", [ShareAcknowledgementBatch(0, 4, RELEASE)], 0)
    assert partition.fetch_offset() == 5
    assert not take(partition, "b", (0, 4))
    with pytest.raises(KafkaError):
        partition.acknowledge("a", [ShareAcknowledgementBatch(0, 0, ACCEPT)], 0)
    assert partition.expire(LOCK_MS).batches == []
    partition.rollback(change)
    assert partition.next_deadline_ms() == LOCK_MS
    partition.commit(partition.expire(LOCK_MS))
    assert take(partition, "b", (0, 4)) == [AcquiredRecords(0, 4, 2)]


def test_stored_states_survive_a_restart() -> None:
    batches = [
        StateBatch(12, 13, RecordState.ACKNOWLEDGED, 1),
        StateBatch(15, 16, RecordState.AVAILABLE, 3),
        StateBatch(10, 10, RecordState.ARCHIVED, 1),
    ]
    partition = SharePartition(
        10, batches=batches, limits=SharePartitionLimits(delivery_count_max=10)
    )
    assert (partition.start_offset, partition.end_offset) == (11, 17)
    acquired = take(partition, "a", (10, 19))
    assert acquired == [
        AcquiredRecords(11, 11, 1),
        AcquiredRecords(14, 14, 1),
        AcquiredRecords(15, 16, 4),
        AcquiredRecords(17, 19, 1),
    ]
