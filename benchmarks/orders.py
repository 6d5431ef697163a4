"""The load of the row `streams`: orders into a job's topic, and a reader of its results."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.committed import CommittedCount
from benchmarks.processes import ToolError

TOPICS = ("orders", "customers", "payments", "results")
PARTITIONS = 2
KEYS = 1000
REPORTS_EVERY = 256
REQUEST_S_MAX = 30.0
FLUSH_S_MAX = 120.0
RESULT_S_MAX = 600.0


class Orders:
    """Topics on a broker, with a table of customers in one of them."""

    def __init__(
        self,
        bootstrap: str,
        *,
        count_of: Callable[[Message], int] | None = None,
        customers: int = KEYS,
        payments: bool = False,
    ) -> None:
        """`count_of`: a result is not that of one order; this reads how many its key has.

        `payments`: each order has a key of its own, and a payment with the same key, sent first.
        """
        self._count_of = count_of
        self._payments = payments
        self._numbers = itertools.count()
        self._totals: dict[bytes | None, int] = {}
        self._found = 0
        _create_topics(bootstrap)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "queue.buffering.max.messages": 500_000,
                "log_level": 3,
            }
        )
        for n in range(customers):
            self._send("customers", b"key-%d" % n, b'{"name":"c%d"}' % n)
        self._flush()
        self._results = CommittedCount(bootstrap, "results", partitions=PARTITIONS)

    def send(self, count: int) -> None:
        for n in itertools.islice(self._numbers, count):
            if n % REPORTS_EVERY == 0:
                self._producer.poll(0)
            key = b"key-%d" % (n if self._payments else n % KEYS)
            if self._payments:
                self._send("payments", key, b'{"paid":%d}' % n)
            self._send("orders", key, b'{"v":%d,"item":"something"}' % n)
        self._flush()

    def wait(self, count: int, alive: Callable[[], bool] = lambda: True) -> None:
        """Wait for the results of the last `count` orders, or counts that add up to it."""
        deadline = time.monotonic() + RESULT_S_MAX
        while self._found < count:
            if not alive():
                raise ToolError(f"the job has ended with {self._found} of {count} results")
            if time.monotonic() > deadline:
                raise ToolError(f"{self._found} of {count} results after {RESULT_S_MAX:.0f} s")
            taken = self._results.take()
            self._found += self._counted(taken) if self._count_of else len(taken)
        self._found -= count

    def close(self) -> None:
        self._results.close()
        self._producer.close()

    def _counted(self, taken: list[Message]) -> int:
        """How much the counts of keys or windows have grown."""
        assert self._count_of is not None
        found = 0
        for message in taken:
            total = self._count_of(message)
            key = message.key()
            found += total - self._totals.get(key, 0)
            self._totals[key] = total
        return found

    def _send(self, topic: str, key: bytes, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=_delivered)
                return
            except BufferError:
                self._producer.poll(0.01)

    def _flush(self) -> None:
        if left := self._producer.flush(FLUSH_S_MAX):
            raise ToolError(f"{left} orders are not delivered after {FLUSH_S_MAX:.0f} s")


def long_count(message: Message) -> int:
    """A count as Kafka's LongSerializer writes it."""
    return int.from_bytes(message.value() or b"", "big")


def _delivered(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        raise ToolError(f"an order was not delivered: {error}")


def _create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    made = admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in TOPICS])
    for item in made.values():
        item.result(REQUEST_S_MAX)
