"""confluent_kafka.ShareConsumer (KIP-932): several members share the records of one partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from compat_brokers import Broker
from compat_confluent import PATIENCE_S, make_topic, produce, read_all
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

QUIET_S = 1.5


@pytest.fixture
def share_group(bootstrap: str, unique: Callable[[str], str]) -> str:
    """A share group begins at the end of a topic, unless its config says otherwise."""
    group = unique("share")
    configure(bootstrap, group, "share.auto.offset.reset", "earliest")
    return group


@pytest.fixture
def join(bootstrap: str, share_group: str) -> Iterator[Callable[..., ShareConsumer]]:
    joined: list[ShareConsumer] = []

    def start(topic: str, mode: str = "explicit", **config: Any) -> ShareConsumer:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": share_group,
            "share.acknowledgement.mode": mode,
            **config,
        }
        reader = ShareConsumer(settings)
        reader.subscribe([topic])
        joined.append(reader)
        return reader

    yield start
    for reader in joined:
        reader.close()


def configure(bootstrap: str, group: str, name: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def some(reader: ShareConsumer, patience_s: float = PATIENCE_S) -> list[Message]:
    """The next records; an empty list after a timeout."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        found = list(reader.poll(0.3))
        for message in found:
            assert message.error() is None, message.error()
        if found:
            return found
    return []


def drain(reader: ShareConsumer, count: int, kind: AcknowledgeType) -> list[int]:
    """Offsets of the next `count` records, each acknowledged like this."""
    offsets: list[int] = []
    while len(offsets) < count:
        found = some(reader)
        assert found, f"{len(offsets)} of {count} records came"
        for message in found:
            offsets.append(message.offset())
            reader.acknowledge(message, kind)
        assert all(error is None for error in reader.commit_sync(PATIENCE_S).values())
    return offsets


def send(bootstrap: str, topic: str, count: int) -> None:
    produce(bootstrap, topic, [{"value": str(i), "partition": 0} for i in range(count)])


def test_accepted_records_are_not_delivered_again(
    bootstrap: str, topic_name: str, join: Callable[..., ShareConsumer]
) -> None:
    make_topic(bootstrap, topic_name)
    send(bootstrap, topic_name, 20)
    reader = join(topic_name)
    assert sorted(drain(reader, 20, AcknowledgeType.ACCEPT)) == list(range(20))
    assert some(reader, QUIET_S) == []
    send(bootstrap, topic_name, 5)
    assert sorted(drain(reader, 5, AcknowledgeType.ACCEPT)) == list(range(20, 25))


def test_released_records_are_delivered_again_and_counted(
    bootstrap: str, topic_name: str, join: Callable[..., ShareConsumer]
) -> None:
    make_topic(bootstrap, topic_name)
    send(bootstrap, topic_name, 4)
    reader = join(topic_name)
    assert sorted(drain(reader, 4, AcknowledgeType.RELEASE)) == [0, 1, 2, 3]
    assert sorted(drain(reader, 4, AcknowledgeType.ACCEPT)) == [0, 1, 2, 3]
    assert some(reader, QUIET_S) == []


def test_rejected_records_are_not_delivered_again(
    bootstrap: str, topic_name: str, join: Callable[..., ShareConsumer]
) -> None:
    make_topic(bootstrap, topic_name)
    send(bootstrap, topic_name, 4)
    reader = join(topic_name)
    assert sorted(drain(reader, 4, AcknowledgeType.REJECT)) == [0, 1, 2, 3]
    assert some(reader, QUIET_S) == []


def test_a_record_that_fails_five_times_is_given_up(
    bootstrap: str, topic_name: str, join: Callable[..., ShareConsumer]
) -> None:
    """group.share.delivery.count.limit is 5."""
    make_topic(bootstrap, topic_name)
    send(bootstrap, topic_name, 1)
    reader = join(topic_name)
    assert drain(reader, 5, AcknowledgeType.RELEASE) == [0] * 5
    assert some(reader, QUIET_S) == []


def test_two_members_share_one_partition(
    bootstrap: str, topic_name: str, join: Callable[..., ShareConsumer]
) -> None:
    make_topic(bootstrap, topic_name)
    readers = [join(topic_name, **{"max.poll.records": 10}) for _ in range(2)]
    for reader in readers:
        some(reader, QUIET_S)
    send(bootstrap, topic_name, 200)
    seen: list[list[int]] = [[], []]
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(len, seen)) < 200 and time.monotonic() < deadline:
        for reader, offsets in zip(readers, seen, strict=True):
            for message in some(reader, 0.3):
                offsets.append(message.offset())
                reader.acknowledge(message)
            reader.commit_sync(PATIENCE_S)
    assert sorted([*seen[0], *seen[1]]) == list(range(200))


def test_records_of_a_member_that_leaves_go_to_another(
    bootstrap: str, topic_name: str, join: Callable[..., ShareConsumer], share_group: str
) -> None:
    make_topic(bootstrap, topic_name)
    send(bootstrap, topic_name, 3)
    first = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": share_group,
            "share.acknowledgement.mode": "explicit",
        }
    )
    first.subscribe([topic_name])
    assert some(first)
    first.close()
    assert sorted(drain(join(topic_name), 3, AcknowledgeType.ACCEPT)) == [0, 1, 2]


def test_an_expired_lock_passes_to_another_member(
    bootstrap: str, topic_name: str, join: Callable[..., ShareConsumer], share_group: str
) -> None:
    configure(bootstrap, share_group, "share.record.lock.duration.ms", "15000")
    make_topic(bootstrap, topic_name)
    send(bootstrap, topic_name, 2)
    holder, other = join(topic_name), join(topic_name)
    held = some(holder)
    assert len(held) == 2
    start = time.monotonic()
    assert sorted(drain(other, 2, AcknowledgeType.ACCEPT)) == [0, 1]
    assert time.monotonic() - start > 5
    for message in held:  # too late: the broker may refuse it, and nothing changes
        holder.acknowledge(message, AcknowledgeType.RELEASE)
    holder.commit_sync(PATIENCE_S)
    assert some(other, QUIET_S) == []


def test_implicit_acknowledgement(
    bootstrap: str, topic_name: str, join: Callable[..., ShareConsumer]
) -> None:
    make_topic(bootstrap, topic_name)
    send(bootstrap, topic_name, 10)
    reader = join(topic_name, mode="implicit")
    offsets: list[int] = []
    while len(offsets) < 10:
        found = some(reader)
        assert found
        offsets += [message.offset() for message in found]
    assert sorted(offsets) == list(range(10))
    reader.commit_sync(PATIENCE_S)
    assert some(reader, QUIET_S) == []


def test_share_groups_see_committed_records_only_where_they_ask_for_it(
    bootstrap: str, topic_name: str, join: Callable[..., ShareConsumer], share_group: str,
    unique: Callable[[str], str],
) -> None:  # fmt: skip
    configure(bootstrap, share_group, "share.isolation.level", "read_committed")
    make_topic(bootstrap, topic_name)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("txn")})
    producer.init_transactions(PATIENCE_S)
    for value, commit in (("a", True), ("dropped", False), ("b", True)):
        producer.begin_transaction()
        producer.produce(topic_name, value, partition=0)
        producer.flush(PATIENCE_S)
        (producer.commit_transaction if commit else producer.abort_transaction)(PATIENCE_S)
    assert sorted(drain(join(topic_name), 2, AcknowledgeType.ACCEPT)) == [0, 4]


def test_rejected_records_become_dead_letters(
    bootstrap: str, broker: Broker, topic_name: str, join: Callable[..., ShareConsumer],
    share_group: str,
) -> None:  # fmt: skip
    if broker.name == "apache":
        pytest.skip("dead letter queues (KIP-1191) came with Kafka 4.4")
    letters = f"dlq.{topic_name}"
    make_topic(bootstrap, letters, errors_deadletterqueue_group_enable="true")
    make_topic(bootstrap, topic_name)
    configure(bootstrap, share_group, "errors.deadletterqueue.topic.name", letters)
    configure(bootstrap, share_group, "errors.deadletterqueue.copy.record.enable", "true")
    send(bootstrap, topic_name, 3)
    assert sorted(drain(join(topic_name), 3, AcknowledgeType.REJECT)) == [0, 1, 2]
    found = read_all(bootstrap, letters, 3)
    assert sorted(message.value() for message in found) == [b"0", b"1", b"2"]
    assert {dict(message.headers())["__dlq.errors.topic"] for message in found} == {
        topic_name.encode()
    }


def test_a_delayed_record_is_delivered_when_due(
    bootstrap: str, broker: Broker, topic_name: str, join: Callable[..., ShareConsumer],
    share_group: str,
) -> None:  # fmt: skip
    if broker.name == "apache":
        pytest.skip("Ottla's alone")
    make_topic(bootstrap, topic_name)
    configure(bootstrap, share_group, "ottla.share.delayed.delivery.enable", "true")
    due_ms = int(time.time() * 1000) + 3000
    late = {"value": "late", "partition": 0, "headers": {"ottla.deliver.at": str(due_ms)}}
    produce(bootstrap, topic_name, [late, {"value": "soon", "partition": 0}])
    reader = join(topic_name)
    assert drain(reader, 1, AcknowledgeType.ACCEPT) == [1]
    assert drain(reader, 1, AcknowledgeType.ACCEPT) == [0]
    assert time.time() * 1000 >= due_ms
