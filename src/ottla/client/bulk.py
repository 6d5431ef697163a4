"""Producing and consuming for the count: no futures, no records, no serdes; as fast as it goes.

For load tests. Everything runs on the caller's thread, so that delivery reports do not fight with
it for the interpreter.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import confluent_kafka

from ottla.client.delivery import Setting
from ottla.client.failures import failure_of
from ottla.client.record import TopicPartition
from ottla.client.settings import LOG_LEVEL, ConnectionErrors, client_with, translate
from ottla.errors import ErrorCode, KafkaError

SILENCE_S_MAX: Final = 30.0  # without a record that was delivered; a producer gives up then
REPORTS_EVERY: Final = 256  # records between two looks at delivery reports
STATISTICS_MS: Final = 1000
FLUSH_SLICE_S: Final = 0.5
BATCH_RECORDS_MAX: Final = 5000

Metrics = dict[str, float | str]


class BulkProducer:
    """`send` as fast as the queue takes it; `on_delivery(latency_ms, size, failure)` for each."""

    def __init__(
        self,
        bootstrap_servers: str,
        on_delivery: Callable[[float, int, Exception | None], None],
        *,
        settings: Mapping[str, Setting] | None = None,
        silence_s_max: float = SILENCE_S_MAX,
    ) -> None:
        self._on_delivery = on_delivery
        self._since = 0
        self._silence_s_max = silence_s_max
        self._heard = time.monotonic()  # of the last record that was delivered
        self._errors = ConnectionErrors(settings or {})
        self._statistics: dict[str, Any] = {}
        wishes: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
            "statistics.interval.ms": STATISTICS_MS,
            **translate(settings or {}),
            "error_cb": self._errors.tell,
            "stats_cb": self._keep,
        }
        self.raw: confluent_kafka.Producer = client_with(confluent_kafka.Producer, wishes)

    def send(self, topic: str, value: bytes) -> None:
        self._since += 1
        if self._since >= REPORTS_EVERY:
            self._since = 0
            self.raw.poll(0)
        while True:
            try:
                self.raw.produce(topic, value, on_delivery=self._delivered)
                return
            except BufferError:
                self.raw.poll(0.01)
                self._check_heard()
            except confluent_kafka.KafkaException as error:
                raise failure_of(error) from None

    def wait(self, seconds: float) -> None:
        """Serve delivery reports for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.raw.poll(left)
        if len(self.raw):
            self._check_heard()
        else:
            self._heard = time.monotonic()

    def flush(self) -> None:
        while self.raw.flush(FLUSH_SLICE_S):
            self._check_heard()

    def give_up(self) -> None:
        """What is not delivered yet fails at once."""
        self.raw.purge()
        self.raw.flush(FLUSH_SLICE_S)

    def _check_heard(self) -> None:
        silence_s = time.monotonic() - self._heard
        if silence_s > self._silence_s_max:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"no record was delivered for {silence_s:.0f} s{self._errors.because()}",
            )

    def begin(self) -> None:
        self._call(self.raw.begin_transaction)

    def commit(self) -> None:
        self._call(self.raw.commit_transaction, self._silence_s_max)

    def start_transactions(self) -> None:
        self._call(self.raw.init_transactions, self._silence_s_max)

    def metrics(self) -> Metrics:
        """librdkafka's own counts; it gives them once a second."""
        deadline = time.monotonic() + 2 * STATISTICS_MS / 1000
        while not self._statistics and time.monotonic() < deadline:
            self.raw.poll(0.1)
        return _flat(self._statistics)

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        latency = message.latency()
        failure = None if error is None else failure_of(error)
        if failure is None:
            self._heard = time.monotonic()
        self._on_delivery(0.0 if latency is None else latency * 1000, len(message), failure)

    def _keep(self, text: str) -> None:
        self._statistics = json.loads(text)

    def _call(self, what: Callable[..., object], *arguments: object) -> None:
        try:
            what(*arguments)
        except confluent_kafka.KafkaException as error:
            raise failure_of(error) from None


class BulkConsumer:
    """`fetch` gives how many records came, and how many bytes they had."""

    def __init__(
        self,
        bootstrap_servers: str,
        topics: list[str],
        *,
        settings: Mapping[str, Setting],
        on_assigned: Callable[[list[TopicPartition]], None] = lambda partitions: None,
        on_revoked: Callable[[list[TopicPartition]], None] = lambda partitions: None,
    ) -> None:
        self._statistics: dict[str, Any] = {}
        wishes: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL,
            "statistics.interval.ms": STATISTICS_MS,
            **translate(settings),
            "error_cb": ConnectionErrors(settings or {}).tell,
            "stats_cb": self._keep,
        }
        self.raw: confluent_kafka.Consumer = client_with(confluent_kafka.Consumer, wishes)
        self.raw.subscribe(
            topics,
            on_assign=lambda _, found: on_assigned(_ours(found)),
            on_revoke=lambda _, found: on_revoked(_ours(found)),
        )

    def fetch(self, timeout_s: float) -> tuple[int, int]:
        """Waits for one; takes all that are here then."""
        try:
            first = self.raw.poll(timeout_s)
            if first is None:
                return 0, 0
            messages = [first, *self.raw.consume(BATCH_RECORDS_MAX, 0)]
        except confluent_kafka.KafkaException as error:
            raise failure_of(error) from None
        count = size = 0
        for message in messages:
            if message.error() is None:
                count += 1
                size += len(message) + len(message.key() or b"")
        return count, size

    def metrics(self) -> Metrics:
        """librdkafka's own counts; it gives them once a second."""
        deadline = time.monotonic() + 2 * STATISTICS_MS / 1000
        while not self._statistics and time.monotonic() < deadline:
            self.raw.poll(0.1)
        return _flat(self._statistics)

    def close(self) -> None:
        self.raw.close()

    def _keep(self, text: str) -> None:
        self._statistics = json.loads(text)


def _ours(partitions: list[confluent_kafka.TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.partition) for each in partitions]


def _flat(statistics: Mapping[str, Any]) -> Metrics:
    """librdkafka's totals; what it says of each broker and topic is left out."""
    return {
        name: value for name, value in statistics.items() if isinstance(value, (int, float, str))
    }
