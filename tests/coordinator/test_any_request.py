"""Any requests in any order: each has one response, or waits for one."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.classic.group import GroupCoordinatorConfig
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.coordinator.result import CoordinatorResult
from ottla.wire.fields import Writer
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

NUMBERS = st.sampled_from([-(2**31), -2, -1, 0, 1, 2, 6_000, 2**31 - 1])
GROUPS = st.sampled_from(["", "g", "h"])
MEMBERS = st.sampled_from(["", "c-1", "c-2", "i-1", "i-2", "x"])
INSTANCES = st.sampled_from([None, "", "i"])
TYPES = st.sampled_from(["", "consumer", "connect"])
METADATA = st.sampled_from([b"", b"\0", b"\0\0\0\0\0\1\0\1t", b"\0\0\xff\xff\xff\xff"])
TOPICS = st.sampled_from(["", "t"])

PROTOCOLS = st.lists(
    st.builds(JoinGroupRequestProtocol, st.sampled_from(["", "range"]), METADATA), max_size=2
)
JOINS = st.builds(
    JoinGroupRequest,
    GROUPS,
    st.sampled_from([6_000, 6_000, 6_000, 0]),
    NUMBERS,
    MEMBERS,
    INSTANCES,
    TYPES,
    PROTOCOLS,
)
SYNCS = st.builds(
    SyncGroupRequest,
    GROUPS,
    NUMBERS,
    MEMBERS,
    INSTANCES,
    st.sampled_from([None, "consumer", "connect"]),
    st.sampled_from([None, "range", ""]),
    st.lists(st.builds(SyncGroupRequestAssignment, MEMBERS, METADATA), max_size=2),
)
HEARTBEATS = st.builds(HeartbeatRequest, GROUPS, NUMBERS, MEMBERS, INSTANCES)
IDENTITIES = st.lists(st.builds(MemberIdentity, MEMBERS, INSTANCES), max_size=3)
LEAVES = st.builds(LeaveGroupRequest, GROUPS, MEMBERS, IDENTITIES)
PARTITIONS = st.builds(
    OffsetCommitRequestPartition, NUMBERS, NUMBERS, NUMBERS, st.sampled_from([None, "", "m"])
)
COMMITS = st.builds(
    OffsetCommitRequest,
    GROUPS,
    NUMBERS,
    MEMBERS,
    NUMBERS,
    INSTANCES,
    st.lists(
        st.builds(
            OffsetCommitRequestTopic,
            TOPICS,
            st.just(bytes(16)),
            st.lists(PARTITIONS, max_size=2),
        ),
        max_size=2,
    ),
)
DELETES = st.builds(
    OffsetDeleteRequest,
    GROUPS,
    st.lists(
        st.builds(
            OffsetDeleteRequestTopic,
            TOPICS,
            st.lists(st.builds(OffsetDeleteRequestPartition, NUMBERS), max_size=2),
        ),
        max_size=2,
    ),
)
TXN_COMMITS = st.builds(
    TxnOffsetCommitRequest,
    st.just("id"),
    GROUPS,
    st.integers(0, 2),
    st.integers(0, 1),
    NUMBERS,
    MEMBERS,
    INSTANCES,
    st.lists(
        st.builds(
            TxnOffsetCommitRequestTopic,
            TOPICS,
            st.lists(
                st.builds(
                    TxnOffsetCommitRequestPartition,
                    NUMBERS,
                    NUMBERS,
                    NUMBERS,
                    st.sampled_from([None, "", "m"]),
                ),
                max_size=2,
            ),
        ),
        max_size=2,
    ),
)
EVENTS = st.one_of(
    JOINS,
    JOINS,
    SYNCS,
    HEARTBEATS,
    LEAVES,
    COMMITS,
    TXN_COMMITS,
    DELETES,
    st.sampled_from([0, 5_000, 700_000]),
    st.lists(GROUPS, min_size=1, max_size=2),
)


def carry_out(
    coordinator: GroupCoordinator, event: Any, version: int, token: int, now_ms: int
) -> list[CoordinatorResult]:
    at: dict[str, Any] = {"token": token, "now_ms": now_ms}
    match event:
        case JoinGroupRequest():
            return [
                coordinator.join_group(
                    event, version=version, client_id="c", client_host="/h", **at
                )
            ]
        case SyncGroupRequest():
            return [coordinator.sync_group(event, version=min(version, 5), **at)]
        case HeartbeatRequest():
            return [coordinator.heartbeat(event, **at)]
        case LeaveGroupRequest():
            return [coordinator.leave_group(event, version=min(version, 5), **at)]
        case OffsetCommitRequest():
            return [coordinator.offset_commit(event, version=max(version, 2), **at)]
        case TxnOffsetCommitRequest():
            return [coordinator.txn_offset_commit(event, version=min(version, 5), **at)]
        case OffsetDeleteRequest():
            return [coordinator.offset_delete(event, **at)]
        case list():
            tokens = itertools.count(-token * 10).__next__
            return coordinator.delete_groups(event, tokens=tokens, now_ms=now_ms)
    return coordinator.expire(now_ms)


@given(st.lists(st.tuples(EVENTS, st.integers(0, 9)), max_size=40))
@settings(max_examples=150, deadline=None)
def test_any_request_is_answered_once(events: list[tuple[Any, int]]) -> None:
    numbers = itertools.count(1)
    coordinator = GroupCoordinator(
        partition_count=2,
        config=GroupCoordinatorConfig(initial_rebalance_delay_ms=0),
        uuid=lambda: str(next(numbers)),
    )
    now_ms = 0
    for partition in range(2):
        coordinator.begin_load(partition, 0)
        coordinator.end_load(partition, now_ms)
    waiting: dict[object, int] = {}
    for token, (event, version) in enumerate(events, 1):
        if isinstance(event, int):
            now_ms += event
        elif not isinstance(event, list):
            waiting[token] = version
        for outcome in carry_out(coordinator, event, version, token, now_ms):
            for answered, message in outcome.replies:
                asked = waiting.pop(answered, 2)  # a deletion has tokens of its own, and version 2
                if isinstance(message, TxnOffsetCommitResponse):
                    asked = min(asked, 5)
                message.write(Writer(), asked)
    for partition in range(2):
        for answered, _ in coordinator.unload(partition):
            del waiting[answered]
    assert not waiting
