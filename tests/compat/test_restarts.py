"""Stopping, killing and restarting: acknowledged records survive, and groups continue."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compat_brokers import Broker
from compat_confluent import (
    PATIENCE_S,
    await_leaders,
    consumer,
    make_topic,
    produce,
    read_all,
    take,
)
from compat_raw import RawClient, batch, code, new_producer
from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource

Start = Callable[..., Broker]


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    """Through a consumer: librdkafka's admin call crashes on a coordinator that still loads."""
    reader = consumer(bootstrap, group_id=group)
    try:
        wanted = [TopicPartition(topic, partition) for partition in range(partitions)]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return [p.offset for p in reader.committed(wanted, timeout=PATIENCE_S)]
            except KafkaException:
                assert time.monotonic() < deadline
                time.sleep(0.2)
    finally:
        reader.close()


def segment(broker: Broker, topic: str, suffix: str) -> Path:
    """The newest file of this kind of partition 0."""
    return sorted((broker.data_directory / f"{topic}-0").glob(f"*{suffix}"))[-1]


def test_graceful_stop_keeps_everything(own_broker: Start, unique: Callable[[str], str]) -> None:
    broker = own_broker()
    topic, group = unique("topic"), unique("group")
    make_topic(broker.bootstrap, topic, partitions=3, retention_ms="123456789")
    produce(broker.bootstrap, topic, [{"value": str(i), "partition": 0} for i in range(500)])
    reader = consumer(broker.bootstrap, group_id=group)
    reader.subscribe([topic])
    reader.commit(message=take(reader, 200)[-1], asynchronous=False)
    reader.close()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    before = admin.describe_topics(TopicCollection([topic]))[topic].result(PATIENCE_S)
    cluster = admin.describe_cluster().result(PATIENCE_S).cluster_id

    assert broker.stop() in (0, 143)
    assert (broker.data_directory / ".kafka_cleanshutdown").exists()
    broker.start()

    await_leaders(broker.bootstrap, topic, 3)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    after = admin.describe_topics(TopicCollection([topic]))[topic].result(PATIENCE_S)
    assert str(after.topic_id) == str(before.topic_id)
    assert len(after.partitions) == 3
    assert admin.describe_cluster().result(PATIENCE_S).cluster_id == cluster
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert configs["retention.ms"].value == "123456789"
    assert committed(broker.bootstrap, group, topic, 1) == [200]
    again = consumer(broker.bootstrap, group_id=group)
    again.subscribe([topic])
    assert [m.offset() for m in take(again, 300)] == list(range(200, 500))
    again.close()


def test_stop_does_not_wait_for_idle_clients(
    own_broker: Start, unique: Callable[[str], str]
) -> None:
    broker = own_broker()
    topic = make_topic(broker.bootstrap, unique("topic"))
    reader = consumer(broker.bootstrap, group_id=unique("group"), fetch_wait_max_ms=20_000,
                      socket_timeout_ms=60_000)  # fmt: skip
    reader.subscribe([topic])
    assert reader.poll(2.0) is None
    with RawClient(broker.bootstrap) as idle:
        idle.call("metadata", 9, topics=())
        start = time.monotonic()
        assert broker.stop() in (0, 143)
        assert time.monotonic() - start < 30
        assert idle.is_closed_by_broker()
    reader.close()


def test_kill_loses_nothing_that_was_confirmed(
    own_broker: Start, unique: Callable[[str], str]
) -> None:
    """Three times: produce without a pause, kill -9 in the middle, start, compare."""
    broker = own_broker()
    topic = make_topic(broker.bootstrap, unique("topic"))
    confirmed: dict[int, bytes] = {}

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            confirmed[message.offset()] = message.value()

    for round_number in range(3):
        settings = {"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 1,
                    "message.timeout.ms": 3000}  # fmt: skip
        producer = Producer(settings)
        wanted = len(confirmed) + 2000
        number = 0
        deadline = time.monotonic() + PATIENCE_S
        while len(confirmed) < wanted:
            assert time.monotonic() < deadline
            producer.produce(topic, f"{round_number} {number}", on_delivery=on_delivery)
            producer.poll(0)
            number += 1
            if number % 500 == 0:
                producer.poll(0.01)
        broker.kill()
        producer.flush(10)
        broker.start()
        highest = max(confirmed)
        found = read_all(broker.bootstrap, topic, highest + 1, check_crcs=True)
        assert [m.offset() for m in found] == list(range(highest + 1))
        missing = [o for o, value in confirmed.items() if found[o].value() != value]
        assert not missing


def test_kill_keeps_groups_topics_and_commits(
    own_broker: Start, unique: Callable[[str], str]
) -> None:
    broker = own_broker()
    topic, group = unique("topic"), unique("group")
    make_topic(broker.bootstrap, topic, partitions=2)
    produce(broker.bootstrap, topic, [{"value": str(i), "partition": i % 2} for i in range(100)])
    # The member killed with its broker is expected until its session expires.
    reader = consumer(broker.bootstrap, group_id=group, session_timeout_ms=3000)
    reader.subscribe([topic])
    take(reader, 100)
    reader.commit(asynchronous=False)
    broker.kill()
    reader.close()
    broker.start()
    assert committed(broker.bootstrap, group, topic, 2) == [50, 50]
    produce(broker.bootstrap, topic, [{"value": "next", "partition": 0}])
    again = consumer(broker.bootstrap, group_id=group)
    again.subscribe([topic])
    assert [m.value() for m in take(again, 1)] == [b"next"]
    again.close()


def test_producer_and_group_survive_a_restart(
    own_broker: Start, unique: Callable[[str], str]
) -> None:
    """Connected clients continue by themselves, without loss or duplicates."""
    broker = own_broker()
    topic = make_topic(broker.bootstrap, unique("topic"))
    errors: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 5,
         "reconnect.backoff.max.ms": 500, "message.timeout.ms": 60_000},
    )  # fmt: skip
    reader = consumer(broker.bootstrap, group_id=unique("group"), session_timeout_ms=10_000,
                      reconnect_backoff_max_ms=500)  # fmt: skip
    reader.subscribe([topic])

    def send(first: int, last: int) -> None:
        for number in range(first, last):
            producer.produce(topic, str(number), on_delivery=lambda e, _: e and errors.append(e))

    send(0, 1000)
    assert producer.flush(PATIENCE_S) == 0
    got = [int(m.value()) for m in take(reader, 1000)]
    reader.commit(asynchronous=False)
    for number, stop in enumerate((broker.stop, broker.kill), start=1):
        stop()
        send(number * 1000, number * 1000 + 1000)
        broker.start()
        assert producer.flush(PATIENCE_S) == 0
        got += [int(m.value()) for m in take(reader, 1000)]
        reader.commit(asynchronous=False)
    assert not errors
    assert got == list(range(3000))
    reader.close()


def test_sequences_are_remembered_after_a_kill(
    own_broker: Start, unique: Callable[[str], str]
) -> None:
    broker = own_broker()
    topic = make_topic(broker.bootstrap, unique("topic"))
    with RawClient(broker.bootstrap) as client:
        who = new_producer(client)
        # Producers expire a day after their last record: these records must be recent.
        now_ms = int(time.time() * 1000)
        first = batch([b"a", b"b"], producer=(*who, 0), timestamp=now_ms)
        _send(client, topic, first, 0)
    for stop in (broker.kill, broker.stop):
        stop()
        broker.start()
        with RawClient(broker.bootstrap) as client:
            _send(client, topic, first, 0)
            assert new_producer(client) != who
    with RawClient(broker.bootstrap) as client:
        _send(client, topic, batch([b"c"], producer=(*who, 2), timestamp=now_ms), 2)


def _send(client: RawClient, topic: str, records: bytes, expected_offset: int) -> None:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = client.call("produce", 9, acks=-1, timeout=10_000, topic_data=data)
        found = answer.responses[0].partition_responses[0]
        if found.error_code != code("not_leader_or_follower") or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert found.error_code in (code("none"), code("duplicate_sequence_number"))
    assert found.base_offset == expected_offset


@pytest.mark.parametrize("damage", ["torn batch", "zeroes", "garbage", "index", "all indexes gone"])
def test_damage_after_a_kill_is_truncated_and_logged(
    own_broker: Start, unique: Callable[[str], str], damage: str
) -> None:
    broker = own_broker()
    topic = make_topic(broker.bootstrap, unique("topic"))
    records = [{"value": str(i), "timestamp": 1_700_000_000_000 + i} for i in range(2000)]
    produce(broker.bootstrap, topic, records, batch_num_messages=50)
    broker.kill()
    log, index = segment(broker, topic, ".log"), segment(broker, topic, ".index")
    if damage == "torn batch":
        with log.open("ab") as file:
            file.write(batch([b"half of this"])[:40])
    elif damage == "zeroes":
        with log.open("ab") as file:
            file.write(b"\x00" * 10_000)
    elif damage == "garbage":
        with log.open("ab") as file:
            file.write(b"\xffnot a batch" * 100)
    elif damage == "index":
        index.write_bytes(b"\xff" * 64)
    else:
        for suffix in (".index", ".timeindex"):
            segment(broker, topic, suffix).unlink()
    broker.start()
    found = read_all(broker.bootstrap, topic, 2000, check_crcs=True)
    assert [int(m.value()) for m in found] == list(range(2000))
    reader = consumer(broker.bootstrap)
    (at,) = reader.offsets_for_times(
        [TopicPartition(topic, 0, 1_700_000_000_000 + 1500)], timeout=PATIENCE_S
    )
    assert at.offset == 1500
    reader.close()
    (delivered,) = produce(broker.bootstrap, topic, [{"value": "next"}])
    assert delivered.offset() == 2000


def test_deleted_topics_stay_deleted(own_broker: Start, unique: Callable[[str], str]) -> None:
    broker = own_broker()
    topic, kept = unique("gone"), unique("kept")
    for name in (topic, kept):
        make_topic(broker.bootstrap, name)
        produce(broker.bootstrap, name, [{"value": "v"}])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    broker.kill()
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    assert topic not in topics
    assert kept in topics
    assert not (broker.data_directory / f"{topic}-0").exists()


def test_two_brokers_cannot_share_a_directory(own_broker: Start) -> None:
    broker = own_broker()
    rival = type(broker)(broker.directory, {"broker.id": "0"})
    rival.log_path = broker.directory / "rival.log"
    with pytest.raises(AssertionError, match="did not start"):
        rival.start()
    assert broker.alive()
    AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=PATIENCE_S)


def test_wrong_settings_refuse_to_start_and_say_why(tmp_path: Path, own_broker: Start) -> None:
    broker = own_broker()
    for name, value in (("num.partitions", "many"), ("log.retention.hours", "x")):
        wrong = type(broker)(tmp_path / "wrong", {name: value})
        with pytest.raises(AssertionError, match="did not start") as raised:
            wrong.start()
        assert name in str(raised.value)
        assert value in str(raised.value)


def test_a_taken_port_refuses_to_start_and_says_why(tmp_path: Path, own_broker: Start) -> None:
    broker = own_broker()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        other = type(broker)(tmp_path / "other", {"broker.id": "1"})
        other.port = taken.getsockname()[1]
        other.bootstrap = f"127.0.0.1:{other.port}"
        other.directory.mkdir()
        with other.log_path.open("wb") as log:
            done = subprocess.run(other.command(), stdout=log, stderr=log, timeout=PATIENCE_S)
        assert done.returncode != 0
        assert str(other.port) in other.log_tail()
