from __future__ import annotations

import asyncio
import re
import uuid

import pytest

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.client.consumer import posix_pattern


@pytest.fixture
def five(bootstrap: str, topic: str) -> str:
    """A topic with five records: b"0" to b"4"."""
    with Producer(bootstrap, value=str, settings={"enable.idempotence": False}) as producer:
        for number in range(5):
            producer.send(topic, str(number))
    return topic


def reader(bootstrap: str, topic: str, **options: object) -> Consumer[bytes, str]:
    return Consumer(bootstrap, topic, value=str, auto_offset_reset="earliest", **options)  # type: ignore[arg-type]


def fail_at(consumer: Consumer[bytes, str], value: str) -> None:
    for record in consumer:
        if record.value == value:
            raise RuntimeError


def test_iteration_gives_records_in_order(bootstrap: str, five: str) -> None:
    found = []
    with reader(bootstrap, five) as consumer:
        for record in consumer:
            found.append((record.offset, record.value))
            if len(found) == 5:
                break
    assert found == [(number, str(number)) for number in range(5)]


def test_async_iteration_gives_the_same(bootstrap: str, five: str, group: str) -> None:
    async def read() -> list[str | None]:
        found = []
        async with reader(bootstrap, five, group=group) as consumer:
            async for record in consumer:
                found.append(record.value)
                if len(found) == 5:
                    break
        return found

    assert asyncio.run(read()) == ["0", "1", "2", "3", "4"]
    with reader(bootstrap, five, group=group) as consumer:
        assert consumer.committed([TopicPartition(five, 0)]) == {TopicPartition(five, 0): 5}


def test_a_record_has_everything(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, key=str, value=str) as producer:
        producer.send(topic, "v", key="k", headers=[("a", b"1"), ("a", None)], timestamp_ms=77)
    with Consumer(bootstrap, topic, auto_offset_reset="earliest") as consumer:
        (record,) = consumer.take(1)
    assert record.topic_partition == TopicPartition(topic, 0)
    assert (record.key, record.value, record.timestamp_ms) == (b"k", b"v", 77)
    assert record.headers == (("a", b"1"), ("a", None))
    assert (record.leader_epoch, record.timestamp_type) == (0, "CreateTime")


def test_poll_gives_none_when_nothing_comes(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic) as consumer:
        assert consumer.poll(0.05) is None
        assert consumer.take(1, timeout_s=0.05) == []


def test_processed_records_are_committed_at_close(bootstrap: str, five: str, group: str) -> None:
    with reader(bootstrap, five, group=group) as consumer:
        assert [record.value for record in consumer.take(2)] == ["0", "1"]
    with reader(bootstrap, five, group=group) as consumer:
        assert [record.value for record in consumer.take(3)] == ["2", "3", "4"]


def test_at_least_once_a_record_whose_work_failed_comes_again(
    bootstrap: str, five: str, group: str
) -> None:
    with pytest.raises(RuntimeError), reader(bootstrap, five, group=group) as consumer:
        fail_at(consumer, "2")
    with reader(bootstrap, five, group=group) as consumer:
        assert [record.value for record in consumer.take(3)] == ["2", "3", "4"]


def test_at_most_once_a_record_whose_work_failed_does_not(
    bootstrap: str, five: str, group: str
) -> None:
    with (
        pytest.raises(RuntimeError),
        reader(bootstrap, five, group=group, delivery="at_most_once") as consumer,
    ):
        fail_at(consumer, "2")
    with reader(bootstrap, five, group=group) as consumer:
        assert "2" not in [record.value for record in consumer.take(1, timeout_s=3)]


def test_exactly_once_commits_nothing_by_itself(bootstrap: str, five: str, group: str) -> None:
    with reader(bootstrap, five, group=group, delivery="exactly_once") as consumer:
        consumer.take(3)
        offsets, _ = consumer.processed_offsets()
        assert [(offset.topic, offset.partition, offset.offset) for offset in offsets] == [
            (five, 0, 3)
        ]
        consumer.on_abort()
        assert [record.value for record in consumer.take(2)] == ["0", "1"]
    with reader(bootstrap, five, group=group) as consumer:
        assert consumer.committed([TopicPartition(five, 0)]) == {TopicPartition(five, 0): None}


def test_after_a_transaction_only_later_records_are_returned_again(
    bootstrap: str, five: str, group: str
) -> None:
    with reader(bootstrap, five, group=group, delivery="exactly_once") as consumer:
        consumer.take(2)
        consumer.processed_offsets()
        consumer.on_commit()
        assert consumer.take(1)[0].value == "2"
        consumer.on_abort()
        assert consumer.take(1)[0].value == "2"


def test_commit_commits_now(bootstrap: str, five: str, group: str) -> None:
    partition = TopicPartition(five, 0)
    with reader(bootstrap, five, group=group) as consumer:
        consumer.take(3)
        assert consumer.position(partition) == 3
        consumer.commit()
        consumer.commit()
        assert consumer.committed([partition]) == {partition: 3}


def test_without_a_group_nothing_is_committed(bootstrap: str, five: str, admin: Admin) -> None:
    before = {group.name for group in admin.groups.list()}
    with reader(bootstrap, five) as consumer:
        consumer.take(5)
        consumer.commit()
    new = {group.name for group in admin.groups.list()} - before
    assert [admin.groups.offsets(group_id) for group_id in new] == [{}] * len(new)


def test_batches_come_as_lists(bootstrap: str, five: str) -> None:
    found: list[str | None] = []
    with reader(bootstrap, five) as consumer:
        for batch in consumer.batches():
            found += [record.value for record in batch]
            if len(found) == 5:
                break
    assert found == ["0", "1", "2", "3", "4"]


def test_batches_end_when_nothing_comes(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic) as consumer:
        assert list(consumer.batches(timeout_s=0.05)) == []


def test_seek_moves_to_any_offset(bootstrap: str, five: str) -> None:
    partition = TopicPartition(five, 0)
    with Consumer(bootstrap, value=str) as consumer:
        consumer.assign({partition: 4})
        assert consumer.take(1)[0].value == "4"
        consumer.seek(partition, 1)
        assert [record.value for record in consumer.take(2)] == ["1", "2"]
        assert consumer.assignment == [partition]


def test_a_paused_partition_returns_no_records(bootstrap: str, five: str) -> None:
    partition = TopicPartition(five, 0)
    with Consumer(bootstrap, value=str) as consumer:
        consumer.assign({partition: 0})
        consumer.pause([partition])
        assert consumer.poll(0.3) is None
        consumer.resume([partition])
        assert consumer.take(1)[0].value == "0"


def test_subscribe_by_a_pattern_means_the_whole_name(bootstrap: str, admin: Admin) -> None:
    prefix = f"p{uuid.uuid4().hex[:8]}"
    for name in (f"{prefix}-1", f"{prefix}-22", f"x{prefix}-1"):
        admin.topics.create(name, 1)
        with Producer(bootstrap, value=str, settings={"enable.idempotence": False}) as producer:
            producer.send(name, name)
    pattern = re.compile(rf"{prefix}-\d")
    with Consumer(bootstrap, pattern, value=str, auto_offset_reset="earliest") as consumer:
        assert [record.value for record in consumer.take(1)] == [f"{prefix}-1"]
        assert consumer.assignment == [TopicPartition(f"{prefix}-1", 0)]


class _Listener:
    def __init__(self) -> None:
        self.received: list[tuple[str, list[TopicPartition]]] = []

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self.received.append(("assigned", partitions))

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self.received.append(("revoked", partitions))

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self.received.append(("lost", partitions))


def test_a_listener_is_called_when_partitions_are_assigned_and_revoked(
    bootstrap: str, five: str, group: str
) -> None:
    listener = _Listener()
    with reader(bootstrap, five, group=group, listener=listener) as consumer:
        consumer.take(1)
        assert listener.received == [("assigned", [TopicPartition(five, 0)])]
    assert listener.received[-1] == ("revoked", [TopicPartition(five, 0)])


def test_settings_override_the_delivery_mode(bootstrap: str, five: str, group: str) -> None:
    with reader(bootstrap, five, group=group, settings={"enable.auto.commit": False}) as consumer:
        consumer.take(5)
    with reader(bootstrap, five, group=group) as consumer:
        assert consumer.take(1)[0].value == "0"


@pytest.mark.parametrize(
    ("pattern", "posix"),
    [("a|b", "^(a|b)$"), ("^a$", "^(a)$"), (r"t-\d+", "^(t-[0-9]+)$"), ("(?:a)b", "^((a)b)$")],
)
def test_a_pattern_as_librdkafka_reads_it(pattern: str, posix: str) -> None:
    assert posix_pattern(pattern) == posix
