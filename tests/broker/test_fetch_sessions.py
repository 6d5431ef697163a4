"""Fetch sessions: what a client need not repeat."""

from __future__ import annotations

import pytest

from ottla.broker.fetch_sessions import EPOCH_MAX, EVICTABLE_AFTER_MS, FetchSessions
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

VERSION = 12


def request(session_id: int, epoch: int, *partitions: int, offset: int = 0) -> FetchRequest:
    topic = FetchTopic(
        topic="t",
        partitions=[FetchPartition(partition=p, fetch_offset=offset) for p in partitions],
    )
    topics = [topic] if partitions else []
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics)


def refused(sessions: FetchSessions, asked: FetchRequest, version: int = VERSION) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        sessions.resolve(asked, version, 0)
    return caught.value.code


def test_without_a_session_each_request_names_everything() -> None:
    sessions = FetchSessions(10)
    fetch_context = sessions.resolve(request(0, -1, 0, 1), VERSION, 0)
    assert list(fetch_context.partitions) == [("t", 0), ("t", 1)]
    assert fetch_context.session is None
    assert len(sessions) == 0


def test_versions_before_7_know_no_sessions() -> None:
    sessions = FetchSessions(10)
    fetch_context = sessions.resolve(request(0, 0, 0), 6, 0)
    assert fetch_context.session is None
    assert len(sessions) == 0


def test_a_session_remembers_its_partitions_and_takes_changes() -> None:
    sessions = FetchSessions(10)
    session = sessions.resolve(request(0, 0, 0, 1), VERSION, 0).session
    assert session is not None
    assert session.id > 0
    fetch_context = sessions.resolve(request(session.id, 1, 1, 2, offset=7), VERSION, 0)
    assert fetch_context.incremental
    assert {key: cached.fetch_offset for key, cached in fetch_context.partitions.items()} == {
        ("t", 0): 0,
        ("t", 1): 7,
        ("t", 2): 7,
    }
    forget = request(session.id, 2)
    forget.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0, 2])]
    assert list(sessions.resolve(forget, VERSION, 0).partitions) == [("t", 1)]


def test_a_session_whose_last_partition_is_forgotten_ends() -> None:
    sessions = FetchSessions(10)
    session = sessions.resolve(request(0, 0, 0), VERSION, 0).session
    assert session is not None
    forget = request(session.id, 1)
    forget.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0])]
    assert sessions.resolve(forget, VERSION, 0).session is None
    assert len(sessions) == 0


def test_a_lost_or_repeated_request_is_refused() -> None:
    sessions = FetchSessions(10)
    session = sessions.resolve(request(0, 0, 0), VERSION, 0).session
    assert session is not None
    sessions.resolve(request(session.id, 1), VERSION, 0)
    assert refused(sessions, request(session.id, 1)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert refused(sessions, request(session.id, 3)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.resolve(request(session.id, 2), VERSION, 0).incremental


def test_an_unknown_session_is_not_found() -> None:
    assert refused(FetchSessions(10), request(99, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_by_topic_name_cannot_continue_by_id() -> None:
    sessions = FetchSessions(10)
    session = sessions.resolve(request(0, 0, 0), 12, 0).session
    assert session is not None
    code = refused(sessions, request(session.id, 1), version=13)
    assert code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_epoch_minus_one_ends_the_session_it_names() -> None:
    sessions = FetchSessions(10)
    session = sessions.resolve(request(0, 0, 0), VERSION, 0).session
    assert session is not None
    sessions.resolve(request(session.id, -1, 0), VERSION, 0)
    assert len(sessions) == 0


def test_the_epoch_starts_again_at_one() -> None:
    sessions = FetchSessions(10)
    session = sessions.resolve(request(0, 0, 0), VERSION, 0).session
    assert session is not None
    session.epoch = EPOCH_MAX
    sessions.resolve(request(session.id, EPOCH_MAX), VERSION, 0)
    assert session.epoch == 1


def test_the_cache_is_bounded_and_gives_up_only_idle_sessions() -> None:
    sessions = FetchSessions(1)
    first = sessions.resolve(request(0, 0, 0), VERSION, 0).session
    assert first is not None
    assert sessions.resolve(request(0, 0, 0), VERSION, 1000).session is None
    later = sessions.resolve(request(0, 0, 0), VERSION, EVICTABLE_AFTER_MS).session
    assert later is not None
    assert refused(sessions, request(first.id, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_follower_always_gets_exactly_one_session() -> None:
    sessions = FetchSessions(1)
    assert sessions.resolve(request(0, 0, 0), VERSION, 0).session is not None
    ids = []
    for _ in range(3):
        asked = request(0, 0, 0)
        asked.replica_state = ReplicaState(2, 12)
        session = sessions.resolve(asked, 15, 0).session
        assert session is not None
        ids.append(session.id)
    assert len(sessions) == 2
    assert refused(sessions, request(ids[0], 1), 15) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.resolve(request(ids[2], 1), 15, 0).incremental


def test_served_partitions_move_to_the_end() -> None:
    sessions = FetchSessions(10)
    session = sessions.resolve(request(0, 0, 0, 1, 2), VERSION, 0).session
    assert session is not None
    session.serve_last([("t", 0), ("t", 9)])
    assert list(session.partitions) == [("t", 1), ("t", 2), ("t", 0)]
