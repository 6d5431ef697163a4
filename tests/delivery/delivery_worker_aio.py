"""The source and the observer of the delivery tests with another client, aiokafka.

There is no transforming worker: aiokafka sends only the group id with offsets (TxnOffsetCommit
without a generation, KIP-447), so the coordinator can't distinguish it from its zombie.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
import ssl
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from delivery_journal import Journal

ABORTED_SHARE = 0.15
FATAL_EXIT = 3
CALL_S = 30.0
START_S = 30.0


class Worker:
    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.exactly_once = given["mode"] == "exactly_once"
        self.journal = Journal(given["journal"])
        self.chance = random.Random(f"{given['seed']} {given['slot']} {given['incarnation']}")
        self.ending = asyncio.Event()
        self.count = 0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.ending.set)
        role = {"source": self.source, "observer": self.observe}[self.given["role"]]
        try:
            await role()
        finally:
            # asyncio closes the pipe that signals are written to before it removes their handlers:
            # a SIGTERM between the two would be reported as an error of this worker.
            loop.remove_signal_handler(signal.SIGTERM)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    async def started(self, client: Any) -> Any:
        """Retry, because aiokafka gives up if the broker is down at the moment."""
        async with asyncio.timeout(START_S):
            while True:
                try:
                    await client.start()
                    self.journal("ready")
                    return client
                except KafkaError:
                    await asyncio.sleep(0.2)

    def security(self) -> dict[str, Any]:
        if "user" not in self.given:
            return {}
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": self.given["user"],
            "sasl_plain_password": self.given["password"],
            "ssl_context": ssl.create_default_context(cafile=self.given["ca"]),
        }

    async def source(self) -> None:
        settings: dict[str, Any] = {"enable_idempotence": True, "request_timeout_ms": 10_000}
        if self.exactly_once:
            settings["transactional_id"] = f"{self.given['group']}-{self.given['slot']}"
            settings["transaction_timeout_ms"] = self.given["transaction_timeout_ms"]
        settings |= self.security()
        producer = AIOKafkaProducer(bootstrap_servers=self.given["bootstrap"], **settings)
        await self.started(producer)
        while not self.ending.is_set():
            self.count += 1
            name = f"{self.given['slot']}.{self.given['incarnation']}.{self.count}"
            count = self.chance.randint(1, 6)
            names = [f"{name}.{number}.{count}" for number in range(count)]
            if self.exactly_once:
                await self.transaction(producer, name, names)
            else:
                await asyncio.gather(*(self.send(producer, record_id) for record_id in names))
            await asyncio.sleep(self.chance.uniform(0.005, 0.04))
        await producer.stop()

    async def transaction(self, producer: AIOKafkaProducer, name: str, names: list[str]) -> None:
        """A failure ends the process; its successor fences what is left of it."""
        async with asyncio.timeout(CALL_S):
            await producer.begin_transaction()
            await asyncio.gather(*(self.send(producer, record_id) for record_id in names))
            if self.chance.random() < ABORTED_SHARE:
                await producer.abort_transaction()
                self.journal("aborted", name)
            else:
                self.journal("committing", name)
                await producer.commit_transaction()
                self.journal("committed", name)

    async def send(self, producer: AIOKafkaProducer, name: str) -> None:
        self.journal("sent", name)
        partition = self.chance.randrange(self.given["partitions"])
        sent = await producer.send(
            self.given["input"], name.encode(), name.encode(), partition=partition
        )
        stored = await sent
        self.journal("acked", name, stored.topic, stored.partition, stored.offset)

    async def observe(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.given["bootstrap"],
            isolation_level="read_committed",
            auto_offset_reset="none",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            **self.security(),
        )
        await self.started(consumer)
        topics = (self.given["input"], self.given["output"])
        places = [TopicPartition(t, n) for t in topics for n in range(self.given["partitions"])]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        while not self.ending.is_set():
            try:
                found = await consumer.getmany(timeout_ms=200)
            except OffsetOutOfRangeError as error:
                self.journal("error", str(error))
                continue
            for place, records in found.items():
                for record in records:
                    where = place.topic, place.partition, record.offset
                    self.journal("read", *where, record.value.decode())
        await consumer.stop()


class Reason(logging.Handler):
    """The error that ended aiokafka's sender: the producer raises only an "unexpected error".

    Other lines of its log are dropped, because these tests take brokers down all the time.
    """

    error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "aiokafka.producer.sender" and record.exc_info:
            self.error = root_of(record.exc_info[1])


def root_of(error: BaseException | None) -> BaseException | None:
    """The first error of the chain: the sender wraps a connection that its broker closed while the
    coordinator was looked up into a plain KafkaError."""
    while type(error) is KafkaError and error.__cause__ is not None:
        error = error.__cause__
    return error


def main() -> None:
    worker = Worker(json.loads(sys.argv[1]))
    reason = Reason()
    logging.basicConfig(handlers=[reason])
    try:
        asyncio.run(worker.run())
    except (KafkaError, TimeoutError) as error:
        cause = reason.error or error
        worker.journal("error", f"{type(cause).__name__}: {error} {cause}")
        sys.exit(FATAL_EXIT)


if __name__ == "__main__":
    main()
