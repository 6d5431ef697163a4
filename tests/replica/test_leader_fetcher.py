"""A follower's requests, and its handling of responses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_partition import NOW_MS, TOPIC_ID, batch
from test_roles import LAG_MS, LIVE

from ottla.cluster.image import PartitionRegistration
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import patch
from ottla.replica.leader_fetcher import BACKOFF_MS_MIN, FetchLimits, LeaderFetcher, restart_within
from ottla.replica.partition import LOG_END, Partition
from ottla.storage.log import LogConfig
from ottla.storage.store import LogStore
from ottla.testing.memory_files import MemoryFiles
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

LEADER, US = 2, 1
SESSION = 77


def held(node: int = US, index: int = 0, epoch: int = 1) -> Partition:
    store = LogStore.open(["/data"], LogConfig(), NOW_MS, files=MemoryFiles())
    log = store.create("t", index, TOPIC_ID, now_ms=NOW_MS)
    made = Partition(
        "t", index, topic_id=TOPIC_ID, leader_epoch=0, log=log, node_id=node, high_watermark=0
    )
    lead(made, LEADER, epoch)
    return made


def lead(partition: Partition, leader: int, epoch: int) -> None:
    state = PartitionRegistration(partition.index, (1, 2, 3), leader, epoch, (1, 2, 3), epoch)
    partition.apply(state, NOW_MS, live=LIVE, lag_max_ms=LAG_MS, may_lead=True)


def written(partition: Partition, count: int, epoch: int, value: bytes = b"v") -> Partition:
    """As a leader of that epoch wrote them."""
    for _ in range(count):
        data = batch(value)
        patch(data, 0, partition.log.end_offset, epoch)
        partition.log.append_as_follower(data, now_ms=NOW_MS)
    return partition


DEFAULTS = FetchLimits()


def following(*partitions: Partition, limits: FetchLimits = DEFAULTS) -> LeaderFetcher:
    made = LeaderFetcher(US, LEADER, limits)
    for partition in partitions:
        made.follow(partition)
    return made


def asked(request: FetchRequest | None) -> list[tuple[int, int, int, int]]:
    """Index, leader epoch, offset and epoch of the last record, of each partition."""
    assert request is not None
    return [
        (
            partition.partition,
            partition.current_leader_epoch,
            partition.fetch_offset,
            partition.last_fetched_epoch,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]


def answer(*data: PartitionData, session: int = SESSION, error: int = 0) -> FetchResponse:
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(data))
    return FetchResponse(session_id=session, error_code=error, responses=[topic])


def records(source: Partition, offset: int, **more: Any) -> PartitionData:
    found = source.read(offset, size_max=1 << 20, isolation=LOG_END, whole_first_batch=True)
    data = found.records.read() if found.records is not None else b""
    given = {"high_watermark": source.high_watermark, "log_start_offset": found.start_offset}
    return PartitionData(partition_index=source.index, records=data, **{**given, **more})


def test_the_first_request_names_everything_and_the_next_only_what_moved() -> None:
    ours, other = written(held(), 3, epoch=1), held(index=1)
    leader = written(held(node=LEADER), 5, epoch=1)
    follow = following(ours, other)
    first = follow.next_request(11, NOW_MS)
    assert asked(first) == [(0, 1, 3, 1), (1, 1, 0, -1)]
    assert first is not None
    assert (first.session_id, first.session_epoch, first.max_wait) == (0, 0, 0)
    assert first.replica_state is not None
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (US, 11)
    assert (
        follow.process_response(
            answer(records(leader, 3), PartitionData(partition_index=1)), NOW_MS
        )
        == []
    )
    assert (ours.log.end_offset, ours.high_watermark) == (5, leader.high_watermark)
    second = follow.next_request(11, NOW_MS)
    assert asked(second) == [(0, 1, 5, 1)]
    assert second is not None
    assert (second.session_id, second.session_epoch, second.max_wait) == (SESSION, 1, 500)
    follow.process_response(answer(), NOW_MS)
    third = follow.next_request(11, NOW_MS)
    assert asked(third) == []
    assert third is not None
    assert third.session_epoch == 2


def test_a_request_names_no_more_than_the_leader_takes() -> None:
    limits = FetchLimits(partitions_max=2)
    follow = following(*(held(index=index) for index in range(5)), limits=limits)
    named = []
    while indexes := [index for index, *_ in asked(follow.next_request(11, NOW_MS))]:
        named.append(indexes)
        follow.process_response(answer(), NOW_MS)
    assert named == [[0, 1], [2, 3], [4]]


def test_a_removed_partition_is_forgotten_and_may_return() -> None:
    ours, other = held(), held(index=1)
    follow = following(ours, other)
    follow.next_request(11, NOW_MS)
    follow.process_response(answer(), NOW_MS)
    follow.drop(ours)
    request = follow.next_request(11, NOW_MS)
    assert request is not None
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
    follow.drop(other)
    follow.follow(other)
    again = follow.next_request(11, NOW_MS)
    assert asked(again) == [(1, 1, 0, -1)]
    assert again is not None
    assert again.forgotten_topics_data == []  # which would be processed after the addition


def test_a_lost_session_starts_again() -> None:
    follow = following(held())
    follow.next_request(11, NOW_MS)
    follow.process_response(answer(), NOW_MS)
    follow.next_request(11, NOW_MS)
    follow.process_response(answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), NOW_MS)
    again = follow.next_request(11, NOW_MS)
    assert again is not None
    assert (again.session_id, again.session_epoch, len(asked(again))) == (0, 0, 1)


def test_without_a_session_every_request_is_full_and_waits() -> None:
    follow = following(held())
    follow.next_request(11, NOW_MS)
    follow.process_response(answer(session=0), NOW_MS)
    again = follow.next_request(11, NOW_MS)
    assert again is not None
    assert (again.session_epoch, len(asked(again)), again.max_wait) == (0, 1, 500)


def test_other_top_level_errors_close_the_connection() -> None:
    follow = following(held())
    follow.next_request(11, NOW_MS)
    with pytest.raises(KafkaError):
        follow.process_response(answer(error=ErrorCode.UNKNOWN_SERVER_ERROR), NOW_MS)


def test_a_failing_partition_backs_off_while_others_continue() -> None:
    ours, other = held(), held(index=1)
    follow = following(ours, other)
    refusal = PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    now_ms = NOW_MS
    for backoff_ms in (BACKOFF_MS_MIN, 2 * BACKOFF_MS_MIN):
        assert (0, 1, 0, -1) in asked(follow.next_request(11, now_ms))
        follow.process_response(answer(refusal), now_ms)
        assert (0, 1, 0, -1) not in asked(follow.next_request(11, now_ms))
        assert follow.delay_ms(now_ms) == backoff_ms
        now_ms += backoff_ms
    follow.process_response(answer(), now_ms)
    lead(ours, LEADER, 2)
    follow.follow(ours)  # another epoch: at once
    assert (0, 2, 0, -1) in asked(follow.next_request(11, now_ms))


def test_when_all_partitions_back_off_nothing_is_fetched() -> None:
    follow = following(held())
    follow.next_request(11, NOW_MS)
    refusal = PartitionData(partition_index=0, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    follow.process_response(answer(refusal), NOW_MS)
    assert follow.next_request(11, NOW_MS) is None
    assert len(asked(follow.next_request(11, NOW_MS + BACKOFF_MS_MIN))) == 1


def test_an_answer_for_an_outdated_state_is_dropped() -> None:
    ours = held()
    leader = written(held(node=LEADER), 5, epoch=1)
    follow = following(ours)
    follow.next_request(11, NOW_MS)
    lead(ours, 3, 2)  # the epoch is another one
    follow.process_response(answer(records(leader, 0)), NOW_MS)
    assert ours.log.end_offset == 0
    follow.drop(ours)
    follow.process_response(answer(records(leader, 0)), NOW_MS)
    assert ours.log.end_offset == 0


def test_an_answer_to_an_earlier_position_is_dropped() -> None:
    """Two requests are in flight; when the second one's response arrives, the follower has asked
    for what follows the first one's records. The leader has not received that: it sends them again.
    """
    ours, leader = held(), written(held(node=LEADER), 2, 1)
    follow = following(ours)
    follow.process_response(answer(PartitionData(partition_index=0)), NOW_MS)  # a session
    follow.next_request(11, NOW_MS)
    first = follow.requests
    follow.next_request(11, NOW_MS)
    second = follow.requests
    assert not follow.process_response(answer(records(leader, 0)), NOW_MS, first)
    assert ours.log.end_offset == 2
    assert asked(follow.next_request(11, NOW_MS)) == [(0, 1, 2, 1)]
    assert not follow.process_response(answer(records(leader, 0)), NOW_MS, second)
    assert follow.delay_ms(NOW_MS) is None  # it has not failed
    assert ours.log.end_offset == 2


def test_records_sent_twice_are_appended_once() -> None:
    """A second request that overtakes a waiting one may return the same records."""
    ours = held()
    leader = written(held(node=LEADER), 5, epoch=1)
    follow = following(ours)
    follow.next_request(11, NOW_MS)
    follow.process_response(answer(records(leader, 0)), NOW_MS)
    follow.process_response(answer(records(leader, 0)), NOW_MS)
    assert ours.log.end_offset == 5


def test_a_truncated_last_batch_is_left_out() -> None:
    ours = held()
    leader = written(held(node=LEADER), 2, epoch=1)
    follow = following(ours)
    follow.next_request(11, NOW_MS)
    whole = records(leader, 0)
    whole.records = bytes(whole.records or b"")[:-10]  # type: ignore[arg-type]
    follow.process_response(answer(whole), NOW_MS)
    assert ours.log.end_offset == 1
    assert asked(follow.next_request(11, NOW_MS)) == [(0, 1, 1, 1)]


def test_damaged_records_are_refused_and_fetched_again() -> None:
    ours = held()
    leader = written(held(node=LEADER), 1, epoch=1)
    follow = following(ours)
    follow.next_request(11, NOW_MS)
    bad = records(leader, 0)
    bad.records = bytes(bad.records or b"")[:-1] + b"!"  # type: ignore[arg-type]
    follow.process_response(answer(bad), NOW_MS)
    assert ours.log.end_offset == 0
    assert follow.next_request(11, NOW_MS) is None
    assert asked(follow.next_request(11, NOW_MS + BACKOFF_MS_MIN)) == [(0, 1, 0, -1)]


def converge(ours: Partition, leader: Partition) -> list[int]:
    """Fetches like broker/handlers/fetch until nothing is new; returns our ends on the way."""
    follow = following(ours)
    ends = [ours.log.end_offset]
    for _ in range(20):
        request = follow.next_request(11, NOW_MS)
        assert request is not None
        if request.session_id and not request.topics:
            return ends
        assert ours.log.end_offset <= leader.log.end_offset or asked(request)
        ((_, _, offset, last_epoch),) = asked(request)
        data = records(leader, offset) if offset <= leader.log.end_offset else PartitionData()
        if last_epoch >= 0:
            epoch, end = leader.epoch_end_offset(last_epoch)
            if epoch != last_epoch or end < offset:
                diverging = EpochEndOffset(epoch=epoch, end_offset=end)
                data = PartitionData(partition_index=0, diverging_epoch=diverging)
        follow.process_response(answer(data), NOW_MS)
        if ours.log.end_offset != ends[-1]:
            ends.append(ours.log.end_offset)
    raise AssertionError(ends)


def history(partition: Partition) -> bytes:
    data = records(partition, partition.log.start_offset).records
    return bytes(data or b"")  # type: ignore[arg-type]


# Histories as (epoch, count): what the leader has, what we have, our ends on the way.
@pytest.mark.parametrize(
    ("theirs", "ours", "ends"),
    [
        ([(1, 5)], [(1, 3)], [3, 5]),
        ([(1, 5)], [(1, 5)], [5]),
        ([(1, 3), (3, 2)], [(1, 5)], [5, 3, 5]),  # KIP-101: our last two were never committed
        ([(1, 3), (3, 4)], [(1, 3), (2, 2)], [5, 3, 7]),  # an epoch unknown to the leader
        ([(1, 2), (3, 2), (5, 2)], [(1, 2), (2, 3), (4, 3)], [8, 5, 2, 6]),  # KIP-279
        ([(1, 4), (2, 2), (5, 1)], [(1, 4), (2, 1), (3, 2)], [7, 5, 7]),
        ([(5, 3)], [(1, 2)], [2, 0, 3]),
    ],
)
def test_diverging_histories_are_reconciled(
    theirs: list[tuple[int, int]], ours: list[tuple[int, int]], ends: list[int]
) -> None:
    leader, follower = held(node=LEADER), held()
    for epoch, count in theirs:
        written(leader, count, epoch, value=b"theirs")
    for epoch, count in ours:
        value = b"theirs" if any(entry[0] == epoch for entry in theirs) else b"ours"
        written(follower, count, epoch, value=value)
    lead(leader, LEADER, 9)
    assert converge(follower, leader) == ends
    assert history(follower) == history(leader)
    known = [entry for entry in leader.log.epochs.entries() if entry[0] != 9]
    assert follower.log.epochs.entries() == known


EPOCHS = st.lists(
    st.tuples(st.integers(1, 12), st.integers(1, 3)), max_size=4, unique_by=lambda entry: entry[0]
).map(sorted)


@given(EPOCHS, EPOCHS, EPOCHS, st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_after_any_divergence_the_leaders_records_win(
    common: list[tuple[int, int]],
    theirs: list[tuple[int, int]],
    ours: list[tuple[int, int]],
    theirs_more: int,
    ours_more: int,
) -> None:
    """A common history, of which one may have more, then different epochs."""
    leader, follower = held(node=LEADER), held()
    last = common[-1][0] if common else 0
    for partition, own, more, odd in (
        (leader, theirs, theirs_more, 1),
        (follower, ours, ours_more, 0),
    ):
        for epoch, count in common:
            written(partition, count, epoch, value=b"both")
        if common:
            written(partition, more, last, value=b"both")
        for epoch, count in own:  # an epoch has one leader
            written(partition, count, last + 2 * epoch + odd, value=b"own")
    lead(leader, LEADER, 99)
    converge(follower, leader)
    assert history(follower) == history(leader)
    assert follower.log.end_offset == leader.log.end_offset


def test_an_offset_out_of_range_is_handed_back() -> None:
    ours = held()
    follow = following(ours)
    follow.next_request(11, NOW_MS)
    lost = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert follow.process_response(answer(lost), NOW_MS) == [ours]


def test_a_follower_restarts_at_the_leaders_start_offset() -> None:
    ours = written(held(), 3, epoch=1)
    restart_within(ours, 10, 20, NOW_MS)
    assert (ours.log.start_offset, ours.log.end_offset, ours.high_watermark) == (10, 10, 10)


def test_records_lost_by_an_unclean_leader_are_truncated() -> None:
    ours = written(held(), 5, epoch=1)
    ours.follow_offsets(5, 0, NOW_MS)
    restart_within(ours, 0, 2, NOW_MS)
    assert (ours.log.end_offset, ours.high_watermark) == (2, 2)


def test_an_offset_in_range_by_now_is_kept() -> None:
    ours = written(held(), 5, epoch=1)
    restart_within(ours, 0, 9, NOW_MS)
    assert ours.log.end_offset == 5
