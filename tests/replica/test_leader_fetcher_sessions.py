"""A follower's fetch session: its requests, and when a second one may overtake."""

from __future__ import annotations

from test_partition import NOW_MS
from test_roles import apply, held, state

from ottla.errors import ErrorCode
from ottla.replica.leader_fetcher import FetchLimits, LeaderFetcher
from ottla.replica.partition import Partition
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

SESSION = 77


def followed(index: int) -> Partition:
    partition = held()
    partition.index = index
    apply(partition, state(leader=2, epoch=2, version=1))
    return partition


def asked(request: FetchRequest | None) -> list[int]:
    assert request is not None
    return [partition.partition for topic in request.topics for partition in topic.partitions]


def answer(partition: Partition) -> FetchResponse:
    data = PartitionData(partition_index=partition.index, high_watermark=0, records=b"")
    topic = FetchableTopicResponse(topic_id=partition.topic_id, partitions=[data])
    return FetchResponse(session_id=SESSION, responses=[topic])


def test_nothing_overtakes_the_request_that_begins_a_session() -> None:
    """A second one would open another session, and partitions named only by the first would not
    be in it: one of the two partitions would never be fetched again."""
    following = LeaderFetcher(1, 2, FetchLimits())
    first, second = followed(0), followed(1)
    following.follow(first)
    assert asked(following.next_request(5, NOW_MS)) == [0]
    following.follow(second)
    assert not following.overtakes
    following.process_response(answer(first), NOW_MS)
    assert following.overtakes
    request = following.next_request(5, NOW_MS)
    assert request is not None
    assert (request.session_id, asked(request)) == (SESSION, [1])


def test_setting_the_clock_back_extends_no_back_off() -> None:
    following = LeaderFetcher(1, 2, FetchLimits(backoff_ms_max=100))
    partition = followed(0)
    following.follow(partition)
    following.next_request(5, NOW_MS)
    refusal = answer(partition)
    refusal.responses[0].partitions[0].error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    following.process_response(refusal, NOW_MS)
    assert following.next_request(5, NOW_MS + 1) is None  # it rests
    before = NOW_MS - 3_600_000
    delay_ms = following.delay_ms(before)
    assert delay_ms is not None
    assert delay_ms <= 500
    assert asked(following.next_request(5, before)) == [0]
