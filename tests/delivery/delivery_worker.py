"""A worker process of the delivery tests, with confluent-kafka (librdkafka).

    python delivery_worker.py '{"role": "source", "mode": "exactly_once", ...}'

source     writes numbered records; in exactly_once as transactions, some of which it aborts
transform  reads the input, writes each record to the output, and commits its group's offsets
observer   reads both topics with read_committed from start to end, and journals the records

SIGTERM stops it cleanly; every other end is a subject of the tests.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from confluent_kafka import (
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from delivery_journal import Journal

CALL_S = 12.0
HANGS_S = 20.0
BATCH_COUNT = 12
ABORTED_SHARE = 0.15
FATAL_EXIT = 3

# Reconnect at once when a broker is back.
CLIENT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "socket.timeout.ms": 8000}
PRODUCER: dict[str, dict[str, Any]] = {
    "at_most_once": {"enable.idempotence": False, "retries": 0, "acks": 1},
    "at_least_once": {"enable.idempotence": True, "acks": "all", "delivery.timeout.ms": 120_000},
    "exactly_once": {"enable.idempotence": True},
}


class Worker:
    def __init__(self, given: dict[str, Any]) -> None:
        self.mode: str = given["mode"]
        self.slot: str = given["slot"]
        self.incarnation: int = given["incarnation"]
        self.given = given
        self.journal = Journal(given["journal"])
        self.chance = random.Random(f"{given['seed']} {self.slot} {self.incarnation}")
        self.ending = False
        self.count = 0
        self.nowhere = open(os.devnull, "w")  # noqa: SIM115 -- open as long as the process is
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_: object) -> None:
        self.ending = True

    def run(self) -> None:
        roles: dict[str, Callable[[], None]] = {
            "source": self.source_transactions if self.exactly_once else self.source,
            "transform": self.transform,
            "observer": self.observe,
        }
        try:
            roles[self.given["role"]]()
        except KafkaException as error:
            self.journal("error", f"{error.args[0].name()}: {error.args[0].str()}")
            sys.exit(FATAL_EXIT)
        except SystemError as error:  # how confluent-kafka reports a fatal error out of a callback
            self.journal("error", str(error))
            sys.exit(FATAL_EXIT)

    @property
    def exactly_once(self) -> bool:
        return self.mode == "exactly_once"

    def is_alive(self) -> bool:
        """Whether to continue; also resets the watchdog, which ends a worker that hangs. Now and
        then librdkafka waits forever in one of its calls (send_offsets_to_transaction, if the
        broker goes down during it)."""
        faulthandler.dump_traceback_later(HANGS_S, exit=True, file=self.nowhere)
        return not self.ending

    def dawdle(self) -> None:
        """Wait between two steps that belong together, so that faults can hit there."""
        time.sleep(self.chance.uniform(0, 0.03))

    def security(self) -> dict[str, str]:
        if "user" not in self.given:
            return {}
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": self.given["user"],
            "sasl.password": self.given["password"],
            "ssl.ca.location": self.given["ca"],
        }

    # Writing

    def producer(self) -> Producer:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.given["bootstrap"],
            "linger.ms": 2,
            **CLIENT,
            **self.security(),
            **PRODUCER[self.mode],
        }
        if self.mode == "at_most_once" and self.chance.random() < 0.5:
            settings["acks"] = 0
        if self.exactly_once:
            settings["transactional.id"] = f"{self.given['group']}-{self.slot}"
            settings["transaction.timeout.ms"] = self.given["transaction_timeout_ms"]
        producer = Producer(settings)
        if self.exactly_once:
            producer.init_transactions(CALL_S)
        self.journal("ready")
        return producer

    def source(self) -> None:
        producer = self.producer()
        while self.is_alive():
            for name in self.next_ids():
                self.journal("sent", name)
                partition = self.chance.randrange(self.given["partitions"])
                producer.produce(
                    self.given["input"], name, name, partition, on_delivery=self.delivered
                )
            producer.poll(0)
            time.sleep(self.chance.uniform(0.005, 0.03))
        producer.flush(CALL_S)

    def delivered(self, error: Any, message: Message) -> None:
        value = message.value()
        assert isinstance(value, bytes)
        if error is not None:
            self.journal("failed", value.decode(), error.name())
        else:
            where = message.topic(), message.partition(), message.offset()
            self.journal("acked", value.decode(), *where)

    def next_ids(self, count: int = 0) -> list[str]:
        self.count += 1
        count = count or self.chance.randint(1, 6)
        name = f"{self.slot}.{self.incarnation}.{self.count}"
        return [f"{name}.{number}.{count}" for number in range(count)]

    def source_transactions(self) -> None:
        producer = self.producer()
        while self.is_alive():
            names = self.next_ids()
            for name in names:
                self.journal("sent", name)
            placed = [
                (self.given["input"], name, name, self.chance.randrange(self.given["partitions"]))
                for name in names
            ]
            self.transaction(producer, names[0].rsplit(".", 2)[0], placed)
            time.sleep(self.chance.uniform(0, 0.03))

    def transaction(
        self,
        producer: Producer,
        name: str,
        placed: Sequence[tuple[str, str, str, int]],
        offsets: tuple[list[TopicPartition], Any] | None = None,
    ) -> bool:
        """True if it was committed. Raises errors that only a new producer can recover from."""
        producer.begin_transaction()
        try:
            for topic, key, value, partition in placed:
                producer.produce(topic, value, key, partition, on_delivery=self.delivered)
            if offsets is not None:
                self.dawdle()
                producer.send_offsets_to_transaction(*offsets, CALL_S)
                self.dawdle()
            if offsets is None and self.chance.random() < ABORTED_SHARE:
                producer.flush(CALL_S)
                self.abort(producer, name)
                return False
            self.journal("committing", name)
            self.insist(lambda: producer.commit_transaction(CALL_S))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.journal("note", f"{name}: {error.args[0].name()}")
            self.abort(producer, name)
            return False
        self.journal("committed", name)
        return True

    def abort(self, producer: Producer, name: str) -> None:
        self.insist(lambda: producer.abort_transaction(CALL_S))
        self.journal("aborted", name)

    def insist(self, call: Callable[[], None]) -> None:
        """Call commit or abort again if the error is retriable."""
        while True:
            try:
                return call()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    # Reading and writing

    def consumer(self) -> Consumer:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.given["bootstrap"],
            "group.id": self.given["group"],
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "group.protocol": self.given["group_protocol"],
            "fetch.wait.max.ms": 100,
            "max.poll.interval.ms": 10_000,
            **CLIENT,
            **self.security(),
        }
        if self.given["group_protocol"] == "classic":
            settings |= {"session.timeout.ms": 3000, "heartbeat.interval.ms": 500}
            settings["partition.assignment.strategy"] = self.given["assignor"]
        consumer = Consumer(settings)
        consumer.subscribe([self.given["input"]])
        return consumer

    def transform(self) -> None:
        producer, consumer = self.producer(), self.consumer()
        step = {
            "at_most_once": self.commit_then_write,
            "at_least_once": self.write_then_commit,
            "exactly_once": self.write_and_commit,
        }[self.mode]
        while self.is_alive():
            count = self.chance.randint(1, BATCH_COUNT)
            messages = [
                message for message in consumer.consume(count, 0.2) if message.error() is None
            ]
            if messages:
                step(producer, consumer, messages)
        producer.flush(CALL_S)
        consumer.close()

    def commit_then_write(
        self, producer: Producer, consumer: Consumer, read: list[Message]
    ) -> None:
        """Write nothing if the commit fails, because another worker then reads from there."""
        try:
            consumer.commit(offsets=next_offsets(read), asynchronous=False)
        except KafkaException as error:
            self.journal("note", f"commit: {error.args[0].name()}")
            return
        self.dawdle()
        self.write(producer, read)
        producer.flush(CALL_S)

    def write_then_commit(
        self, producer: Producer, consumer: Consumer, read: list[Message]
    ) -> None:
        self.write(producer, read)
        if producer.flush(CALL_S):
            self.journal("error", "not delivered: the next begins at the committed offset")
            sys.exit(FATAL_EXIT)
        self.dawdle()
        try:
            consumer.commit(offsets=next_offsets(read), asynchronous=False)
        except KafkaException as error:
            self.journal("note", f"commit: {error.args[0].name()}")

    def write_and_commit(self, producer: Producer, consumer: Consumer, read: list[Message]) -> None:
        placed = self.placed(read)
        name = placed[0][1].rsplit(".", 2)[0]
        offsets = next_offsets(read), consumer.consumer_group_metadata()
        if self.transaction(producer, name, placed, offsets):
            return
        for first in first_offsets(read):  # read again what was aborted
            try:
                consumer.seek(first)
            except KafkaException as error:
                self.journal(
                    "note", f"seek: {error.args[0].name()}"
                )  # another worker owns it by now

    def write(self, producer: Producer, read: list[Message]) -> None:
        for topic, key, value, partition in self.placed(read):
            producer.produce(topic, value, key, partition, on_delivery=self.delivered)

    def placed(self, read: list[Message]) -> list[tuple[str, str, str, int]]:
        partitions, topic = self.given["partitions"], self.given["output"]
        names = self.next_ids(len(read))
        return [
            (topic, name, text(message), self.chance.randrange(partitions))
            for name, message in zip(names, read, strict=True)
        ]

    # Reading only

    def observe(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.given["bootstrap"],
                "group.id": f"{self.given['group']}-{self.slot}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",  # an offset that is gone is a finding
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
                # When no broker can be reached, librdkafka (2.16) starts again from its bootstrap
                # servers; once it then stayed disconnected until the end of the run.
                "metadata.recovery.strategy": "none",
                **CLIENT,
                **self.security(),
            }
        )
        topics = (self.given["input"], self.given["output"])
        numbers = range(self.given["partitions"])
        consumer.assign(
            [TopicPartition(topic, number, 0) for topic in topics for number in numbers]
        )
        self.journal("ready")
        while not self.ending:
            for message in consumer.consume(100, 0.2):
                if message.error() is not None:
                    self.journal("error", f"{message.error().name()}: {message.error().str()}")
                else:
                    where = message.topic(), message.partition(), message.offset()
                    self.journal("read", *where, text(message))
        consumer.close()


def text(message: Message) -> str:
    value = message.value()
    assert isinstance(value, bytes)
    return value.decode()


def next_offsets(read: list[Message]) -> list[TopicPartition]:
    after: dict[tuple[str, int], int] = {}
    for message in read:
        after[message.topic(), message.partition()] = cast(int, message.offset()) + 1
    return [TopicPartition(topic, number, offset) for (topic, number), offset in after.items()]


def first_offsets(read: list[Message]) -> list[TopicPartition]:
    first: dict[tuple[str, int], int] = {}
    for message in read:
        first.setdefault((message.topic(), message.partition()), message.offset())
    return [TopicPartition(topic, number, offset) for (topic, number), offset in first.items()]


if __name__ == "__main__":
    Worker(json.loads(sys.argv[1])).run()
