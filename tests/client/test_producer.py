from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest

from ottla.client import Admin, Consumer, KafkaError, Producer, TopicPartition
from ottla.client.serde import JSON
from ottla.errors import ErrorCode
from ottla.testing import LocalCluster


def test_a_record_is_delivered_where_the_future_says(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, value=str) as producer:
        first = producer.send(topic, "one").result(60)
        second = producer.send(topic, "two", timestamp_ms=12345).result(60)
    assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
    assert (second.offset, second.timestamp_ms) == (1, 12345)


def test_a_send_can_be_awaited(bootstrap: str, topic: str) -> None:
    async def send() -> list[int]:
        with Producer(bootstrap) as producer:
            sendings = [producer.send(topic, b"x") for _ in range(3)]
            return [(await future).offset for future in sendings]

    assert asyncio.run(send()) == [0, 1, 2]


def test_key_value_headers_and_nulls_arrive(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, key=str, value=JSON) as producer:
        producer.send(topic, {"a": 1}, key="k", headers={"h": b"1", "null": None})
        producer.send(topic, None, key="k")
    with Consumer(bootstrap, topic, key=str, value=JSON, auto_offset_reset="earliest") as consumer:
        first, second = consumer.take(2)
    assert (first.key, first.value) == ("k", {"a": 1})
    assert first.headers == (("h", b"1"), ("null", None))
    assert second.value is None


def test_keys_go_where_javas_clients_put_them(bootstrap: str, admin: Admin, topic: str) -> None:
    """Where Apache Kafka 4.3's own console producer puts these keys."""
    name = f"{topic}-3"
    admin.topics.create(name, 3)
    expected = {"a": 1, "b": 2, "c": 1, "d": 2, "e": 2, "f": 0, "g": 0, "h": 1}
    with Producer(bootstrap, key=str, value=str) as producer:
        found = {key: producer.send(name, "v", key=key).result(60).partition for key in expected}
    assert found == expected


def test_a_partition_can_be_named(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.topics.grow(topic, 3)
    with Producer(bootstrap) as producer:
        assert producer.send(topic, b"x", partition=2).result(60).partition == 2


def test_a_record_that_is_refused_fails_with_kafkas_code(bootstrap: str) -> None:
    with Producer(bootstrap) as producer:
        sending = producer.send("no such topic/", b"x")
        with pytest.raises(KafkaError) as caught:
            sending.result(60)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_record_that_is_too_large_is_refused_at_once(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer, pytest.raises(KafkaError) as caught:
        producer.send(topic, bytes(2_000_000))
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_full_queue_blocks_up_to_the_timeout() -> None:
    settings = {"queue.buffering.max.messages": 1, "message.timeout.ms": 300}
    producer = Producer("localhost:1", settings=settings, block_s_max=0.05)
    producer.send("t", b"x")
    with pytest.raises(KafkaError, match="stayed full") as caught:
        producer.send("t", b"x")
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
    producer.close()


def test_at_most_once_does_not_wait_for_an_offset(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, delivery="at_most_once") as producer:
        delivered = producer.send(topic, b"x").result(60)
    assert delivered.offset == -1


def test_exactly_once_and_a_transactional_id_belong_together() -> None:
    with pytest.raises(ValueError, match="transactional_id"):
        Producer("localhost:1", delivery="exactly_once")
    with pytest.raises(ValueError, match="transactional_id"):
        Producer("localhost:1", transactional_id="me")


class _Calls:
    """A fake of librdkafka's producer, which records its calls."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: object) -> None:
            self.made.append(name)

        return call


class _Reader:
    def __init__(self) -> None:
        self.made: list[str] = []

    def processed_offsets(self) -> tuple[list[int], str]:
        return [1], "group"

    def on_commit(self) -> None:
        self.made.append("on_commit")

    def on_abort(self) -> None:
        self.made.append("on_abort")


@pytest.fixture
def transactional(monkeypatch: pytest.MonkeyPatch) -> Producer:
    producer: Producer = Producer.__new__(Producer)
    producer.raw = _Calls()  # type: ignore[assignment]
    producer._block_s_max = 1.0
    return producer


def test_a_transaction_commits_the_readers_offsets_with_it(transactional: Producer) -> None:
    reader: Any = _Reader()
    with transactional.transaction(reader):
        pass
    raw: Any = transactional.raw
    assert raw.made == ["begin_transaction", "send_offsets_to_transaction", "commit_transaction"]
    assert reader.made == ["on_commit"]


def test_a_transaction_that_fails_sends_the_reader_back(transactional: Producer) -> None:
    reader: Any = _Reader()
    with pytest.raises(RuntimeError), transactional.transaction(reader):
        raise RuntimeError
    raw: Any = transactional.raw
    assert raw.made == ["begin_transaction", "abort_transaction"]
    assert reader.made == ["on_abort"]


def test_a_zombie_gets_a_fenced_error(bootstrap: str, topic: str) -> None:
    """Every call and every future fails; the polling thread survives the fatal error."""
    options: Any = {"delivery": "exactly_once", "transactional_id": topic}
    with Producer(bootstrap, **options) as zombie:
        with zombie.transaction():
            zombie.send(topic, b"first")
        with Producer(bootstrap, **options) as successor:
            for _ in range(2):
                with pytest.raises(KafkaError) as raised, zombie.transaction():
                    zombie.send(topic, b"zombie").result(60)
                assert raised.value.code == ErrorCode.PRODUCER_FENCED
            with successor.transaction():
                successor.send(topic, b"second")
    with Consumer(bootstrap, topic, auto_offset_reset="earliest") as consumer:
        assert [record.value for record in consumer.take(2)] == [b"first", b"second"]


def test_a_rebalance_during_a_transaction_aborts_it() -> None:
    """Otherwise its records would be committed without offsets, and the next owner repeat them."""
    with LocalCluster() as cluster:
        for topic in ("in", "out"):
            cluster.create_topic(topic, partitions=2)
        with cluster.producer() as source:
            for number in range(20):
                source.send("in", str(number).encode(), partition=number % 2)
        options: Any = {"group": "workers", "delivery": "exactly_once"}
        places = [TopicPartition("in", index) for index in range(2)]
        first = cluster.consumer("in", **options)
        producer = cluster.producer(delivery="exactly_once", transactional_id="worker")

        def begin_and_lose() -> None:
            for record in first.take(20):
                producer.send("out", record.value)
            second = cluster.consumer("in", **options)
            deadline = time.monotonic() + 60
            while not second.assignment and time.monotonic() < deadline:
                second.poll(0.05)
                first.poll(0.05)
            second.close()

        with pytest.raises(KafkaError) as raised, producer.transaction(first):
            begin_and_lose()
        assert raised.value.code is ErrorCode.REBALANCE_IN_PROGRESS
        done = 0
        while done < 20:  # the second one has left, so there may be a rebalance more
            with contextlib.suppress(KafkaError), producer.transaction(first):
                records = first.take(20 - done, 5)
                for record in records:
                    producer.send("out", record.value)
            done = sum(offset or 0 for offset in first.committed(places).values())
        reader = cluster.consumer()
        reader.assign({TopicPartition("out", index): 0 for index in range(2)})
        read = sorted(int(record.value) for record in reader.take(21, 3))
        assert read == list(range(20))


def test_transactions_continue_after_a_broker_outage() -> None:
    """With librdkafka's own defaults the second one waits forever, whatever its timeout."""
    done: list[bytes | None] = []

    def work(cluster: LocalCluster) -> None:
        servers = cluster.bootstrap_servers
        with (
            Producer(servers, delivery="exactly_once", transactional_id="worker") as producer,
            cluster.consumer("in", group="workers", delivery="exactly_once") as consumer,
        ):
            for _ in range(2):
                with producer.transaction(consumer):
                    for record in consumer.take(1):
                        producer.send("out", record.value)
                        done.append(record.value)
                if len(done) == 1:
                    cluster.kill()
                    threading.Thread(target=cluster.restart).start()

    with LocalCluster(process=True) as cluster:
        cluster.create_topic("in")
        with cluster.producer() as source:
            source.send("in", b"before")
            source.send("in", b"after")
        worker = threading.Thread(target=work, args=(cluster,), daemon=True)
        worker.start()
        worker.join(60)
        assert not worker.is_alive()
    assert done == [b"before", b"after"]


def test_closing_twice_is_harmless(bootstrap: str) -> None:
    producer = Producer(bootstrap)
    producer.close()
    producer.close()


def test_close_respects_its_timeout() -> None:
    """librdkafka's own close flushes again, for as long as message.timeout.ms says."""
    with LocalCluster(process=True) as cluster:
        producer = Producer(cluster.bootstrap_servers)
        producer.send("t", "delivered").result()
        cluster.kill()
        producer.send("t", "in vain")
        started_at = time.monotonic()
        with pytest.raises(KafkaError, match="1 records not delivered"):
            producer.close(0.5)
        assert time.monotonic() - started_at < 60  # and not 300 s
