"""A share-partition: who is given which records, for how long, and how often."""

from __future__ import annotations

import pytest

from ottla.coordinator.share.partition import (
    Acknowledged,
    Acquired,
    Change,
    Limits,
    SharePartition,
    Span,
    Wanted,
)
from ottla.coordinator.share.states import Acknowledgement, RecordState, StateBatch
from ottla.errors import ErrorCode, KafkaError

ACCEPT = [Acknowledgement.ACCEPT]
RELEASE = [Acknowledgement.RELEASE]
REJECT = [Acknowledgement.REJECT]
RENEW = [Acknowledgement.RENEW]
LOCK_MS = 30_000


def take(
    partition: SharePartition,
    member: str,
    *spans: tuple[int, int] | Span,
    most: int = 500,
    batch_size: int = 500,
    strict: bool = False,
    now_ms: int = 0,
) -> list[Acquired]:
    offset = partition.fetch_offset()
    assert offset is not None
    return partition.acquire(
        member,
        [Span(*span) for span in spans],
        fetch_offset=offset,
        wanted=Wanted(most, batch_size, strict),
        now_ms=now_ms,
    )


def say(
    partition: SharePartition, member: str, first: int, last: int, types: list[int], now_ms: int = 0
) -> Change:
    change = partition.acknowledge(member, [Acknowledged(first, last, types)], now_ms)
    partition.commit(change)
    return change


def test_records_are_given_out_once() -> None:
    partition = SharePartition(0)
    assert take(partition, "a", (0, 9)) == [Acquired(0, 9, 1)]
    assert partition.fetch_offset() == 10
    assert take(partition, "b", (0, 9), (10, 14)) == [Acquired(10, 14, 1)]


def test_accepted_records_are_done_and_the_start_moves_over_them() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 9))
    change = say(partition, "a", 3, 5, ACCEPT)
    assert change.batches == [StateBatch(3, 5, RecordState.ACKNOWLEDGED, 1)]
    assert (change.start_offset, change.delivery_complete_count) == (0, 3)
    assert partition.start_offset == 0
    change = say(partition, "a", 0, 2, REJECT)
    assert (change.start_offset, change.delivery_complete_count) == (6, 0)
    assert partition.start_offset == 6


def test_released_records_go_to_the_next_who_asks() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 9))
    change = say(partition, "a", 2, 4, RELEASE)
    assert change.batches == [StateBatch(2, 4, RecordState.AVAILABLE, 1)]
    assert partition.fetch_offset() == 2
    assert take(partition, "b", (0, 9)) == [Acquired(2, 4, 2)]


def test_one_word_for_each_record() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 3))
    say(partition, "a", 0, 3, [*ACCEPT, *RELEASE, *REJECT, Acknowledgement.GAP])
    assert partition.start_offset == 1
    assert take(partition, "a", (0, 3)) == [Acquired(1, 1, 2)]
    say(partition, "a", 1, 1, ACCEPT)
    assert partition.start_offset == 4


@pytest.mark.parametrize(
    ("member", "first", "last", "code"),
    [
        ("b", 0, 4, ErrorCode.INVALID_RECORD_STATE),  # another member's
        ("a", 5, 5, ErrorCode.INVALID_RECORD_STATE),  # acknowledged before
        ("a", 0, 9, ErrorCode.INVALID_RECORD_STATE),  # among others
        ("a", 8, 10, ErrorCode.INVALID_REQUEST),  # 10 was never given out
    ],
)
def test_a_wrong_acknowledgement_changes_nothing(
    member: str, first: int, last: int, code: ErrorCode
) -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 9))
    say(partition, "a", 5, 5, ACCEPT)
    with pytest.raises(KafkaError) as refused:
        partition.acknowledge("a" if member == "a" else "b", [Acknowledged(first, last, ACCEPT)], 0)
    assert refused.value.code is code
    say(partition, "a", 0, 4, ACCEPT)
    say(partition, "a", 6, 9, ACCEPT)
    assert partition.start_offset == 10
    with pytest.raises(KafkaError):
        partition.acknowledge("a", [Acknowledged(0, 4, ACCEPT)], 0)


def test_a_lock_ends() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 4))
    take(partition, "b", (5, 9), now_ms=1_000)
    assert partition.next_deadline_ms() == LOCK_MS
    change = partition.expire(LOCK_MS)
    assert change.batches == [StateBatch(0, 4, RecordState.AVAILABLE, 1)]
    partition.commit(change)
    assert partition.next_deadline_ms() == LOCK_MS + 1_000
    assert take(partition, "b", (0, 4), now_ms=LOCK_MS) == [Acquired(0, 4, 2)]


def test_who_needs_more_time_can_say_so() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 4))
    assert say(partition, "a", 0, 2, RENEW, now_ms=20_000).batches == []
    change = partition.expire(LOCK_MS)
    assert change.batches == [StateBatch(3, 4, RecordState.AVAILABLE, 1)]
    partition.commit(change)
    assert partition.next_deadline_ms() == LOCK_MS + 20_000
    say(partition, "a", 0, 2, ACCEPT)


def test_a_record_that_was_given_out_often_enough_is_archived() -> None:
    partition = SharePartition(0, limits=Limits(delivery_count_max=2))
    for _ in range(2):
        assert take(partition, "a", (0, 0))
        change = say(partition, "a", 0, 0, RELEASE)
    assert change.batches == [StateBatch(0, 0, RecordState.ARCHIVED, 2)]
    assert partition.start_offset == 1


def test_records_that_fail_again_and_again_are_given_out_in_ever_smaller_numbers() -> None:
    partition = SharePartition(0, limits=Limits(delivery_count_max=6))
    sizes = []
    for _ in range(6):
        acquired = take(partition, "a", (0, 7))
        sizes.append(acquired[-1].last - acquired[0].first + 1)
        for each in acquired:
            say(partition, "a", each.first, each.last, RELEASE)
    assert sizes == [8, 8, 8, 4, 2, 1]
    assert partition.start_offset == 1


def test_what_a_session_held_is_for_others_when_it_ends() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 4))
    take(partition, "b", (5, 9))
    change = partition.release("a")
    assert change.batches == [StateBatch(0, 4, RecordState.AVAILABLE, 1)]
    partition.commit(change)
    assert take(partition, "b", (0, 4)) == [Acquired(0, 4, 2)]


def test_what_is_in_flight_has_a_limit() -> None:
    partition = SharePartition(0, limits=Limits(in_flight_max=10))
    take(partition, "a", (0, 4), (5, 9), (10, 14), (15, 19), most=100)
    assert partition.end_offset == 10
    assert partition.fetch_offset() is None
    say(partition, "a", 4, 6, RELEASE)
    assert take(partition, "b", (0, 4), (5, 9), (10, 14)) == [Acquired(4, 6, 2)]
    assert partition.fetch_offset() is None
    say(partition, "a", 0, 3, ACCEPT)
    assert partition.fetch_offset() == 10


def test_whole_batches_are_given_out_unless_the_limit_is_strict() -> None:
    partition = SharePartition(0)
    assert take(partition, "a", (0, 9), (10, 19), most=5) == [Acquired(0, 9, 1)]
    assert take(partition, "a", (10, 19), most=5, strict=True) == [Acquired(10, 14, 1)]
    assert partition.fetch_offset() == 15
    partition.commit(partition.release("a"))
    assert take(partition, "b", (0, 9), most=3, strict=True) == [Acquired(0, 2, 2)]


def test_batches_of_the_log_are_grouped_by_the_batch_size() -> None:
    partition = SharePartition(0)
    spans = [(0, 2), (3, 5), (6, 8), (9, 9)]
    acquired = take(partition, "a", *spans, batch_size=5)
    assert acquired == [Acquired(0, 5, 1), Acquired(6, 9, 1)]


def test_aborted_records_are_given_to_nobody() -> None:
    partition = SharePartition(0)
    spans = [Span(0, 1, aborted=True), Span(2, 4), Span(5, 6, aborted=True), Span(7, 7)]
    acquired = take(partition, "a", *spans)
    assert acquired == [Acquired(2, 4, 1), Acquired(7, 7, 1)]
    assert partition.start_offset == 2
    say(partition, "a", 2, 4, ACCEPT)
    assert partition.start_offset == 7


def test_what_the_log_lost_is_given_to_nobody() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 9))
    partition.move_log_start(5)
    assert partition.start_offset == 5
    say(partition, "a", 0, 3, ACCEPT)  # too late to matter, and no error
    say(partition, "a", 0, 9, ACCEPT)
    assert partition.start_offset == 10
    partition.move_log_start(20)
    assert (partition.start_offset, partition.fetch_offset()) == (20, 20)


def test_what_was_compacted_away_does_not_hold_up_the_start() -> None:
    partition = SharePartition(0, batches=[StateBatch(6, 7, RecordState.ACKNOWLEDGED, 1)])
    assert partition.fetch_offset() == 0
    assert take(partition, "a", (4, 9)) == [Acquired(4, 5, 1), Acquired(8, 9, 1)]
    assert partition.start_offset == 4
    assert take(partition, "a", (12, 12)) == [Acquired(12, 12, 1)]
    say(partition, "a", 4, 5, ACCEPT)
    say(partition, "a", 8, 9, ACCEPT)
    assert partition.start_offset == 12


def test_until_a_change_is_stored_its_records_are_left_alone() -> None:
    partition = SharePartition(0)
    take(partition, "a", (0, 4))
    change = partition.acknowledge("a", [Acknowledged(0, 4, RELEASE)], 0)
    assert partition.fetch_offset() == 5
    assert not take(partition, "b", (0, 4))
    with pytest.raises(KafkaError):
        partition.acknowledge("a", [Acknowledged(0, 0, ACCEPT)], 0)
    assert partition.expire(LOCK_MS).batches == []
    partition.rollback(change)
    assert partition.next_deadline_ms() == LOCK_MS
    partition.commit(partition.expire(LOCK_MS))
    assert take(partition, "b", (0, 4)) == [Acquired(0, 4, 2)]


def test_what_was_stored_stands_after_a_restart() -> None:
    batches = [
        StateBatch(12, 13, RecordState.ACKNOWLEDGED, 1),
        StateBatch(15, 16, RecordState.AVAILABLE, 3),
        StateBatch(10, 10, RecordState.ARCHIVED, 1),
    ]
    partition = SharePartition(10, batches=batches, limits=Limits(delivery_count_max=10))
    assert (partition.start_offset, partition.end_offset) == (11, 17)
    acquired = take(partition, "a", (10, 19))
    assert acquired == [
        Acquired(11, 11, 1),
        Acquired(14, 14, 1),
        Acquired(15, 16, 4),
        Acquired(17, 19, 1),
    ]
