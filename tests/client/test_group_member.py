"""A member of a group with a custom protocol: it joins, gets its share, expires, and leaves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from ottla.client.group_member import Generation, GroupMember
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.testing import LocalCluster

WAIT_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(config={"group.initial.rebalance.delay.ms": "0"}) as found:
        yield found


def member(
    cluster: LocalCluster, group: str, protocol: str = "mine-1", instance: str | None = None
) -> GroupMember:
    return GroupMember(
        cluster.bootstrap_servers,
        group,
        protocol_type="connect",
        protocol=protocol,
        session_timeout_ms=6000,
        instance=instance,
    )


def told_to_join_again(member: GroupMember) -> None:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            member.heartbeat()
        except KafkaError as error:
            if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
                return
            raise
        time.sleep(0.05)
    raise AssertionError("nobody told it to join again")


def test_the_leader_sees_all_members_and_each_gets_its_share(cluster: LocalCluster) -> None:
    one, two = member(cluster, "shares"), member(cluster, "shares")
    first = one.join(b"first")
    assert first.leads
    assert first.members == {first.member_id: b"first"}
    assert one.sync({first.member_id: b"all of it"}) == b"all of it"
    one.heartbeat()

    joined: list[Generation] = []
    second = threading.Thread(target=lambda: joined.append(two.join(b"second")))
    second.start()
    told_to_join_again(one)
    again = one.join(b"first")
    second.join(WAIT_S)
    assert again.leads
    assert not joined[0].leads
    assert joined[0].generation == again.generation > first.generation
    assert sorted(again.members.values()) == [b"first", b"second"]

    one.sync({first.member_id: b"left", joined[0].member_id: b"right"})
    assert two.sync({}) == b"right"
    two.leave()
    told_to_join_again(one)
    alone = one.join(b"first")
    assert set(alone.members) == {alone.member_id}
    one.leave()
    for entry in (one, two):
        entry.close()


def test_a_removed_member_notices_and_may_rejoin(cluster: LocalCluster) -> None:
    one = member(cluster, "outs")
    joined = one.join(b"")
    one.sync({joined.member_id: b""})
    other = member(cluster, "outs")
    other.member_id = joined.member_id
    other.leave()
    with pytest.raises(KafkaError) as error:
        one.heartbeat()
    assert error.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert one.join(b"").leads
    stranger = member(cluster, "outs", protocol="theirs-1")
    with pytest.raises(KafkaError) as refused:
        stranger.join(b"")
    assert refused.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    one.leave()
    for entry in (one, other, stranger):
        entry.close()


def test_an_absent_broker_is_a_failure() -> None:
    gone = GroupMember("127.0.0.1:1", "g", protocol_type="connect", protocol="mine-1")
    with pytest.raises(KafkaError) as error:
        gone.join(b"")
    assert error.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    gone.close()


def test_a_static_name_has_one_member_and_only_it_commits(cluster: LocalCluster) -> None:
    cluster.create_topic("named", partitions=1)
    where = TopicPartition("named", 0)
    one, two = (member(cluster, "names", instance="the one") for _ in range(2))
    first = one.join(b"")
    one.sync({first.member_id: b"mine"})
    one.commit({where: 4})
    second = two.join(b"")
    assert second.generation == first.generation  # without a rebalance
    assert two.sync({}) == b"mine"
    for attempt in (lambda: one.commit({where: 3}), one.heartbeat):
        one.member_id = first.member_id
        with pytest.raises(KafkaError) as error:
            attempt()
        assert error.value.code is ErrorCode.FENCED_INSTANCE_ID
    two.commit({where: 5})
    one.put_out()
    with pytest.raises(KafkaError) as out:
        two.commit({where: 6})
    assert out.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    with cluster.admin() as admin:
        assert admin.groups.offsets("names")[where].offset == 5
    for entry in (one, two):
        entry.close()
