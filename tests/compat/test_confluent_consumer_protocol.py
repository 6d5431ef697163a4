"""librdkafka with group.protocol=consumer (KIP-848): the broker assigns, members only heartbeat."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from compat_brokers import Broker
from compat_confluent import PATIENCE_S, consumer, make_topic, produce, take
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

Until = Callable[[Callable[[], object], str], None]
SHORT = {
    "group_consumer_min_session_timeout_ms": "1000",
    "group_consumer_session_timeout_ms": "2000",
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_consumer_heartbeat_interval_ms": "300",
}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose groups send three heartbeats a second, so that members react quickly."""
    from compat_brokers import start_broker

    settings = {name.replace("_", "."): value for name, value in SHORT.items()}
    broker = start_broker(tmp_path_factory.mktemp("quick"), settings)
    yield broker
    broker.kill()


@pytest.fixture
def server(quick: Broker) -> str:
    return quick.bootstrap


class Member:
    """A member that polls on a thread, and records what it owned and read."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], **config: Any) -> None:
        protocol = {"group_protocol": "consumer", **config}
        if protocol["group_protocol"] == "classic":
            protocol = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 300, **protocol}
        self.errors: list[KafkaError] = []
        self.consumer = consumer(bootstrap, group_id=group, error_cb=self.errors.append, **protocol)
        self.assigned: set[tuple[str, int]] = set()
        self.events: list[str] = []
        self.values: list[bytes] = []
        self.fenced = threading.Event()
        self._stop = threading.Event()
        self.consumer.subscribe(
            topics, on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                message = self.consumer.poll(0.1)
            except KafkaException as error:
                self.errors.append(error.args[0])
                self.fenced.set()
                break
            if message is None:
                continue
            if message.error() is not None:
                self.errors.append(message.error())
            else:
                self.values.append(message.value() or b"")
        self.consumer.close()

    def _assign(self, reader: Consumer, partitions: list[TopicPartition]) -> None:
        self.events.append(f"assign {len(partitions)}")
        self.assigned = self.assigned | {(p.topic, p.partition) for p in partitions}

    def _revoke(self, reader: Consumer, partitions: list[TopicPartition]) -> None:
        self.events.append(f"revoke {len(partitions)}")
        self.assigned = self.assigned - {(p.topic, p.partition) for p in partitions}

    def _lose(self, reader: Consumer, partitions: list[TopicPartition]) -> None:
        self.events.append(f"lose {len(partitions)}")
        self.assigned = self.assigned - {(p.topic, p.partition) for p in partitions}


@pytest.fixture
def members() -> Iterator[list[Member]]:
    started: list[Member] = []
    yield started
    for member in started:
        member.close()


def spread(members: list[Member], partitions: int) -> bool:
    """Every partition has one owner and every member has some."""
    owned = [partition for member in members for partition in member.assigned]
    return len(owned) == len(set(owned)) == partitions and all(m.assigned for m in members)


def describe(bootstrap: str, group: str) -> Any:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return admin.describe_consumer_groups([group])[group].result(PATIENCE_S)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_three_members_share_and_hand_over(
    server: str, topic_name: str, group_name: str, assignor: str, members: list[Member],
    until: Until,
) -> None:  # fmt: skip
    make_topic(server, topic_name, partitions=6)
    config = {"group_remote_assignor": assignor}
    for count in (1, 2, 3):
        members.append(Member(server, group_name, [topic_name], **config))
        until(lambda: spread(members, 6), f"{count} members share 6 partitions")
    # For a moment all six are owned while the third member has only one of its two.
    until(lambda: all(len(member.assigned) == 2 for member in members), "two partitions each")
    produce(server, topic_name, [{"value": str(i), "partition": i % 6} for i in range(60)])
    until(lambda: sum(len(m.values) for m in members) >= 60, "60 records are read")
    assert sorted(int(v) for m in members for v in m.values) == list(range(60))
    until(
        lambda: describe(server, group_name).state == ConsumerGroupState.STABLE,
        "the broker has heard from all members",
    )
    described = describe(server, group_name)
    assert described.type == ConsumerGroupType.CONSUMER
    assert described.partition_assignor == assignor
    members.pop().close()
    until(lambda: spread(members, 6), "two members share after one has left")
    members.pop().close()
    until(lambda: spread(members, 6), "one member has all")


def test_a_member_keeps_what_it_has_while_others_come(
    server: str, topic_name: str, group_name: str, members: list[Member], until: Until
) -> None:
    """No rebalance stops the group: a member revokes only partitions that move."""
    make_topic(server, topic_name, partitions=4)
    members.append(Member(server, group_name, [topic_name]))
    until(lambda: len(members[0].assigned) == 4, "the first member has all")
    members.append(Member(server, group_name, [topic_name]))
    until(lambda: spread(members, 4), "two members share")
    assert "revoke 2" in members[0].events
    assert "revoke 4" not in members[0].events


def test_commits_are_found_by_the_next_member(
    server: str, topic_name: str, group_name: str
) -> None:
    make_topic(server, topic_name)
    produce(server, topic_name, [{"value": str(i), "partition": 0} for i in range(10)])
    first = consumer(server, group_id=group_name, group_protocol="consumer")
    first.subscribe([topic_name])
    messages = take(first, 4)
    first.commit(message=messages[-1], asynchronous=False)
    first.close()
    second = consumer(server, group_id=group_name, group_protocol="consumer")
    second.subscribe([topic_name])
    assert take(second, 1)[0].value() == b"4"
    second.close()


def test_a_static_member_comes_back_to_its_partitions(
    server: str, topic_name: str, group_name: str, members: list[Member], until: Until
) -> None:
    make_topic(server, topic_name, partitions=2)
    for name in ("one", "two"):
        members.append(Member(server, group_name, [topic_name], group_instance_id=name))
    until(lambda: spread(members, 2), "two static members share")
    kept, before = members[1].assigned, list(members[0].events)
    members.pop().close()
    members.append(Member(server, group_name, [topic_name], group_instance_id="two"))
    until(lambda: members[1].assigned == kept, "the static member has its partition again")
    assert members[0].events == before


def test_a_second_static_member_of_one_name_is_refused(
    server: str, topic_name: str, group_name: str, members: list[Member], until: Until
) -> None:
    """Unlike in the classic protocol, the existing member stays."""
    make_topic(server, topic_name)
    members.append(Member(server, group_name, [topic_name], group_instance_id="twin"))
    until(lambda: members[0].assigned, "the first has its partition")
    twin = Member(server, group_name, [topic_name], group_instance_id="twin")
    members.append(twin)
    until(lambda: twin.errors, "the second is refused")
    assert {error.code() for error in twin.errors} <= {
        KafkaError.UNRELEASED_INSTANCE_ID, KafkaError._FATAL
    }  # fmt: skip
    assert members[0].assigned
    assert not members[0].fenced.is_set()


def test_a_pattern_is_resolved_by_the_broker(
    server: str, unique: Callable[[str], str], group_name: str, members: list[Member], until: Until
) -> None:
    prefix = unique("pattern")
    make_topic(server, f"{prefix}-a", partitions=2)
    make_topic(server, f"other-{prefix}")
    members.append(Member(server, group_name, [f"^{prefix}-.*"]))
    until(lambda: members[0].assigned == {(f"{prefix}-a", 0), (f"{prefix}-a", 1)}, "a matches")


def test_new_partitions_are_assigned(
    server: str, topic_name: str, group_name: str, members: list[Member], until: Until
) -> None:
    from confluent_kafka.admin import NewPartitions

    make_topic(server, topic_name, partitions=1)
    members.append(Member(server, group_name, [topic_name]))
    until(lambda: len(members[0].assigned) == 1, "one partition")
    admin = AdminClient({"bootstrap.servers": server})
    admin.create_partitions([NewPartitions(topic_name, 3)])[topic_name].result(PATIENCE_S)
    until(lambda: len(members[0].assigned) == 3, "three partitions")


def test_an_unknown_assignor_is_refused(
    server: str, topic_name: str, group_name: str, members: list[Member], until: Until
) -> None:
    make_topic(server, topic_name)
    config = {"group_remote_assignor": "nobody"}
    members.append(Member(server, group_name, [topic_name], **config))
    until(lambda: members[0].errors, "the assignor is refused")
    codes = {error.code() for error in members[0].errors}
    assert codes <= {KafkaError.UNSUPPORTED_ASSIGNOR, KafkaError._FATAL}


FROZEN_MEMBER = """
import sys
from confluent_kafka import Consumer
reader = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2],
    "group.protocol": "consumer", "auto.offset.reset": "earliest", "enable.auto.commit": False})
reader.subscribe([sys.argv[3]], on_assign=lambda c, p: print("assign", len(p), flush=True),
    on_lost=lambda c, p: print("lost", len(p), flush=True))
while True:
    reader.poll(0.1)
"""


def test_a_silent_member_is_fenced_and_rejoins(
    server: str, topic_name: str, group_name: str, members: list[Member], until: Until
) -> None:
    make_topic(server, topic_name, partitions=2)
    frozen = subprocess.Popen(
        [sys.executable, "-c", FROZEN_MEMBER, server, group_name, topic_name],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert frozen.stdout is not None
        assert frozen.stdout.readline() == "assign 2\n"
        frozen.send_signal(signal.SIGSTOP)
        members.append(Member(server, group_name, [topic_name]))
        until(lambda: len(members[0].assigned) == 2, "the other has all when the session is over")
        frozen.send_signal(signal.SIGCONT)
        assert frozen.stdout.readline() == "lost 2\n"
        assert frozen.stdout.readline() == "assign 1\n"
        until(lambda: len(members[0].assigned) == 1, "they share")
    finally:
        frozen.kill()
        frozen.wait()
        frozen.stdout.close()


def test_a_stale_member_cannot_commit(server: str, topic_name: str, group_name: str) -> None:
    make_topic(server, topic_name)
    produce(server, topic_name, [{"value": "v", "partition": 0}])
    reader = consumer(server, group_id=group_name, group_protocol="consumer")
    reader.subscribe([topic_name])
    take(reader, 1)
    outsider = consumer(server, group_id=group_name)
    with pytest.raises(KafkaException) as raised:
        outsider.commit(offsets=[TopicPartition(topic_name, 0, 1)], asynchronous=False)
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    reader.close()
    outsider.commit(offsets=[TopicPartition(topic_name, 0, 1)], asynchronous=False)
    outsider.close()


def test_a_group_moves_to_the_new_protocol_and_back(
    server: str, topic_name: str, group_name: str, members: list[Member], until: Until
) -> None:
    """Online, one member after another (group.consumer.migration.policy is bidirectional).

    Not with cooperative-sticky: on Apache Kafka, too, librdkafka's classic members do not settle
    then. The Java client's do, and have their check."""
    make_topic(server, topic_name, partitions=4)
    classic = {"group_protocol": "classic", "partition_assignment_strategy": "range"}
    for config in (classic, classic):
        members.append(Member(server, group_name, [topic_name], **config))
    until(lambda: spread(members, 4), "two classic members share")
    members.append(Member(server, group_name, [topic_name]))
    until(lambda: spread(members, 4), "two classic members and a new one share")
    assert describe(server, group_name).type == ConsumerGroupType.CONSUMER
    for _ in range(2):
        members.pop(0).close()
    until(lambda: spread(members, 4), "the new one has all")
    members.append(Member(server, group_name, [topic_name], **classic))
    until(lambda: spread(members, 4), "a classic member joins")
    members.pop(0).close()
    until(lambda: spread(members, 4), "the classic member has all")
    until(lambda: describe(server, group_name).type == ConsumerGroupType.CLASSIC, "classic again")


def test_members_continue_after_the_broker_was_killed(
    own_broker: Callable[..., Broker], topic_name: str, group_name: str, members: list[Member],
    until: Until,
) -> None:  # fmt: skip
    broker = own_broker(**SHORT)
    make_topic(broker.bootstrap, topic_name, partitions=4)
    config = {"reconnect_backoff_max_ms": 200}
    for _ in range(2):
        members.append(Member(broker.bootstrap, group_name, [topic_name], **config))
    until(lambda: spread(members, 4), "two members share")
    broker.kill()
    broker.start()
    records = [{"value": str(i), "partition": i % 4} for i in range(20)]
    produce(broker.bootstrap, topic_name, records)
    until(lambda: sum(len(m.values) for m in members) >= 20, "all is read")
    until(lambda: spread(members, 4), "two members share still")
    time.sleep(0.5)
    assert spread(members, 4)
