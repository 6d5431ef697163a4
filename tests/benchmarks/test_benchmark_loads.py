"""The loads of the rows for groups and transactions do what they say, on a small scale."""

from __future__ import annotations

import asyncio

import pytest
from benchmarks.group_load import ClassicMember, ConsumerMember, Group, Member

from benchmarks import group_load, librdkafka_load, transaction_load
from ottla.testing import LocalCluster

MEMBERS = 6


@pytest.mark.parametrize("kind", [ClassicMember, ConsumerMember])
def test_a_group_settles_after_a_start_a_join_and_a_leave(
    kafka: LocalCluster, kind: type[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_load, "HEARTBEAT_S", 0.02)
    kafka.create_topic("groups", partitions=MEMBERS)
    result = asyncio.run(group_load.run(kind, kafka.port, "groups", MEMBERS))
    assert set(result) == {"start_ms", "join_ms", "leave_ms"}
    assert all(value > 0 for value in result.values())


def test_a_group_is_settled_when_each_partition_has_one_owner_and_each_member_has_one() -> None:
    async def look() -> list[bool]:
        group = Group(ClassicMember, 0, "t", partitions=3)
        group.members = [group.make(), group.make()]
        found = []
        for first, second in (({0, 1}, {2}), ({0, 1}, {1, 2}), ({0, 1}, set()), ({0}, {1})):
            group.members[0].owned, group.members[1].owned = frozenset(first), frozenset(second)
            found.append(group.is_settled())
        return found

    assert asyncio.run(look()) == [True, False, False, False]


def test_transactions_are_counted(kafka: LocalCluster) -> None:
    kafka.create_topic("transactions", partitions=2)
    result = transaction_load.run(
        kafka.port, "transactions", seconds=0.2, records=3, size=10, partitions=2
    )
    assert result["transactions"] > 0
    assert 0 < result["commit_p50_ms"] <= result["commit_p99_ms"]


def test_a_record_that_comes_before_the_reader_is_ready_counts(kafka: LocalCluster) -> None:
    """The Spark rows start both at once, and now and then missed the first record."""
    kafka.create_topic("early")
    librdkafka_load.run_produce_rate(kafka.port, "early", count=12, rate=1000, size=20)
    read = librdkafka_load.run_consume_latency(kafka.port, "early", count=12, skip=2)
    assert read["count"] == 10
