"""librdkafka's consumer groups: rebalancing, static members, cooperative-sticky, commits, regex."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from compat_confluent import PATIENCE_S, consumer, make_topic, produce, take
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

Until = Callable[[Callable[[], object], str], None]


class Member:
    """A member that polls on a thread, and records what it owned and read."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], **config: object) -> None:
        self.consumer = consumer(
            bootstrap,
            group_id=group,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=500,
            **config,
        )
        self.assigned: set[tuple[str, int]] = set()
        self.events: list[str] = []
        self.values: list[bytes] = []
        self.cooperative = config.get("partition_assignment_strategy") == "cooperative-sticky"
        self._stop = threading.Event()
        self.consumer.subscribe(
            topics, on_assign=self._assign, on_revoke=self._revoke, on_lost=self._revoke
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self.consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.values.append(message.value())
        self.consumer.close()

    def _assign(self, reader: Consumer, partitions: list[TopicPartition]) -> None:
        self.events.append(f"assign {len(partitions)}")
        names = {(p.topic, p.partition) for p in partitions}
        self.assigned = self.assigned | names if self.cooperative else names

    def _revoke(self, reader: Consumer, partitions: list[TopicPartition]) -> None:
        self.events.append(f"revoke {len(partitions)}")
        self.assigned = self.assigned - {(p.topic, p.partition) for p in partitions}


@pytest.fixture
def members() -> Iterator[list[Member]]:
    started: list[Member] = []
    yield started
    for member in started:
        member.close()


def _spread(members: list[Member], partitions: int) -> bool:
    """Every partition has one owner and every member has some."""
    owned = [partition for member in members for partition in member.assigned]
    return len(owned) == len(set(owned)) == partitions and all(m.assigned for m in members)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_three_members_share_and_hand_over(
    bootstrap: str,
    topic_name: str,
    group_name: str,
    strategy: str,
    members: list[Member],
    until: Until,
) -> None:
    make_topic(bootstrap, topic_name, partitions=6)
    for count in (1, 2, 3):
        members.append(
            Member(bootstrap, group_name, [topic_name], partition_assignment_strategy=strategy)
        )
        until(lambda: _spread(members, 6), f"{count} members share 6 partitions")
    produce(bootstrap, topic_name, [{"value": str(i), "partition": i % 6} for i in range(60)])
    until(lambda: sum(len(m.values) for m in members) >= 60, "60 records are read")
    assert sorted(int(v) for m in members for v in m.values) == list(range(60))
    members.pop().close()
    until(lambda: _spread(members, 6), "two members share after one has left")
    members.pop().close()
    until(lambda: _spread(members, 6), "one member has all")


def test_cooperative_rebalance_keeps_what_stays(
    bootstrap: str, topic_name: str, group_name: str, members: list[Member], until: Until
) -> None:
    make_topic(bootstrap, topic_name, partitions=4)
    config = {"partition_assignment_strategy": "cooperative-sticky"}
    members.append(Member(bootstrap, group_name, [topic_name], **config))
    until(lambda: len(members[0].assigned) == 4, "the first member has all")
    members.append(Member(bootstrap, group_name, [topic_name], **config))
    until(lambda: _spread(members, 4), "two members share")
    assert "revoke 4" not in members[0].events
    assert "revoke 2" in members[0].events


def test_static_member_comes_back_without_a_rebalance(
    bootstrap: str, topic_name: str, group_name: str, members: list[Member], until: Until
) -> None:
    make_topic(bootstrap, topic_name, partitions=2)
    for name in ("one", "two"):
        members.append(Member(bootstrap, group_name, [topic_name], group_instance_id=name))
    until(lambda: _spread(members, 2), "two static members share")
    kept = members[1].assigned
    events_before = list(members[0].events)
    members.pop().close()
    members.append(Member(bootstrap, group_name, [topic_name], group_instance_id="two"))
    until(lambda: members[1].assigned == kept, "the static member has its partition again")
    assert members[0].events == events_before


def test_second_static_member_of_one_name_fences_the_first(
    bootstrap: str, topic_name: str, group_name: str
) -> None:
    make_topic(bootstrap, topic_name)
    errors: list[KafkaError] = []

    def joined(reader: Consumer) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not reader.assignment():
            reader.poll(0.1)
            assert time.monotonic() < deadline

    config = {"group_id": group_name, "group_instance_id": "twin", "heartbeat_interval_ms": 300}
    first = consumer(bootstrap, error_cb=errors.append, **config)
    first.subscribe([topic_name])
    joined(first)
    second = consumer(bootstrap, **config)
    second.subscribe([topic_name])
    joined(second)
    deadline = time.monotonic() + PATIENCE_S
    fenced = False
    while not fenced and time.monotonic() < deadline:
        try:
            message = first.poll(0.2)
            codes = [error.code() for error in errors]
            if message is not None and message.error() is not None:
                codes.append(message.error().code())
        except KafkaException as raised:
            codes = [raised.args[0].code()]
        fenced = KafkaError._FATAL in codes or KafkaError.FENCED_INSTANCE_ID in codes
    assert fenced
    first.close()
    second.close()


def test_a_member_that_dies_is_replaced_after_its_session(
    bootstrap: str, topic_name: str, group_name: str, members: list[Member], until: Until
) -> None:
    """The first member is static, so that its close does not leave the group: like a crash."""
    make_topic(bootstrap, topic_name, partitions=2)
    session = {"session_timeout_ms": 2000, "heartbeat_interval_ms": 300}
    dead = consumer(bootstrap, group_id=group_name, group_instance_id="dead", **session)
    dead.subscribe([topic_name])
    until(lambda: dead.poll(0.1) is None and dead.assignment(), "the first member has joined")
    dead.close()
    members.append(Member(bootstrap, group_name, [topic_name]))
    until(lambda: len(members[0].assigned) == 2, "the survivor has all partitions")


def test_commit_sync_async_and_committed(bootstrap: str, topic_name: str, group_name: str) -> None:
    make_topic(bootstrap, topic_name, partitions=2)
    produce(bootstrap, topic_name, [{"value": str(i), "partition": 0} for i in range(20)])
    outcomes: list[object] = []
    reader = consumer(
        bootstrap, group_id=group_name, on_commit=lambda err, parts: outcomes.append(err)
    )
    both = [TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)]
    assert [p.offset for p in reader.committed(both, timeout=PATIENCE_S)] == [OFFSET_INVALID] * 2
    reader.subscribe([topic_name])
    last = take(reader, 10)[-1]
    (done,) = reader.commit(message=last, asynchronous=False)
    assert (done.offset, done.error) == (10, None)
    assert [p.offset for p in reader.committed(both, timeout=PATIENCE_S)] == [10, OFFSET_INVALID]
    reader.commit(offsets=[TopicPartition(topic_name, 1, 7, metadata="note")], asynchronous=True)
    deadline = time.monotonic() + PATIENCE_S
    while not outcomes and time.monotonic() < deadline:
        reader.poll(0.2)
    assert outcomes == [None]  # only the asynchronous commit calls back
    found = reader.committed(both, timeout=PATIENCE_S)
    assert [(p.offset, p.metadata) for p in found] == [(10, None), (7, "note")]
    reader.close()


def test_next_member_goes_on_where_the_last_committed(
    bootstrap: str, topic_name: str, group_name: str
) -> None:
    make_topic(bootstrap, topic_name)
    produce(bootstrap, topic_name, [{"value": str(i)} for i in range(30)])
    for start in (0, 10, 20):
        reader = consumer(bootstrap, group_id=group_name)
        reader.subscribe([topic_name])
        got = take(reader, 10)
        assert [m.offset() for m in got] == list(range(start, start + 10))
        reader.commit(message=got[-1], asynchronous=False)
        reader.close()


def test_auto_commit_on_close(bootstrap: str, topic_name: str, group_name: str) -> None:
    make_topic(bootstrap, topic_name)
    produce(bootstrap, topic_name, [{"value": str(i)} for i in range(5)])
    reader = consumer(bootstrap, group_id=group_name, enable_auto_commit=True)
    reader.subscribe([topic_name])
    take(reader, 5)
    reader.close()
    again = consumer(bootstrap, group_id=group_name)
    assert again.committed([TopicPartition(topic_name, 0)], timeout=PATIENCE_S)[0].offset == 5
    again.close()


def test_commit_of_a_non_member_is_refused(
    bootstrap: str, topic_name: str, group_name: str, members: list[Member], until: Until
) -> None:
    make_topic(bootstrap, topic_name)
    members.append(Member(bootstrap, group_name, [topic_name]))
    until(lambda: members[0].assigned, "the member has joined")
    stranger = consumer(bootstrap, group_id=group_name)
    with pytest.raises(KafkaException) as raised:
        stranger.commit(offsets=[TopicPartition(topic_name, 0, 3)], asynchronous=False)
    assert raised.value.args[0].code() in (
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
    )
    stranger.close()


def test_regex_subscription_finds_new_topics(
    bootstrap: str,
    unique: Callable[[str], str],
    group_name: str,
    members: list[Member],
    until: Until,
) -> None:
    prefix = unique("regex")
    make_topic(bootstrap, f"{prefix}-a")
    make_topic(bootstrap, f"other-{prefix}")
    members.append(
        Member(bootstrap, group_name, [f"^{prefix}-.*"], topic_metadata_refresh_interval_ms=500)
    )
    until(lambda: members[0].assigned == {(f"{prefix}-a", 0)}, "the first topic is found")
    make_topic(bootstrap, f"{prefix}-b")
    expected = {(f"{prefix}-a", 0), (f"{prefix}-b", 0)}
    until(lambda: members[0].assigned == expected, "the topic that came later is found")


def test_more_partitions_reach_the_group(
    bootstrap: str, topic_name: str, group_name: str, members: list[Member], until: Until
) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    make_topic(bootstrap, topic_name, partitions=1)
    members.append(
        Member(bootstrap, group_name, [topic_name], topic_metadata_refresh_interval_ms=500)
    )
    until(lambda: len(members[0].assigned) == 1, "the member has joined")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic_name, 3)])[topic_name].result(PATIENCE_S)
    until(lambda: len(members[0].assigned) == 3, "the new partitions are assigned")
