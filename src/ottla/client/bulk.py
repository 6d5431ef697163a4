"""Produce and consume for load tests: no futures, no records, no serdes, as fast as it goes.

Everything runs on the caller's thread, so that delivery reports do not compete with it for the
interpreter.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import confluent_kafka

from ottla.client.delivery import Setting
from ottla.client.kafka_errors import kafka_error_of
from ottla.client.record import TopicPartition
from ottla.client.settings import LOG_LEVEL, ConnectionErrors, client_with, librdkafka_settings
from ottla.client.share_consumer import COMMIT_S_MAX, share_consumer_class
from ottla.errors import ErrorCode, KafkaError

SILENCE_S_MAX: Final = 30.0  # a producer gives up after this time without a delivered record
REPORTS_EVERY: Final = 256  # records between two polls for delivery reports
STATISTICS_MS: Final = 1000
FLUSH_SLICE_S: Final = 0.5
BATCH_RECORDS_MAX: Final = 5000

Metrics = dict[str, float | str]


class BulkProducer:
    """Sends as fast as the queue takes records; calls `on_delivery(latency_ms, size, failure)`."""

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
        self._last_delivery = time.monotonic()  # when the last record was delivered
        self._errors = ConnectionErrors(settings or {})
        self._statistics: dict[str, Any] = {}
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
            "statistics.interval.ms": STATISTICS_MS,
            **librdkafka_settings(settings or {}),
            "error_cb": self._errors.on_error,
            "stats_cb": self._keep,
        }
        self.raw: confluent_kafka.Producer = client_with(confluent_kafka.Producer, config)

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
                self._check_progress()
            except confluent_kafka.KafkaException as error:
                raise kafka_error_of(error) from None

    def wait(self, seconds: float) -> None:
        """Serve delivery reports for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.raw.poll(left)
        if len(self.raw):
            self._check_progress()
        else:
            self._last_delivery = time.monotonic()

    def flush(self) -> None:
        while self.raw.flush(FLUSH_SLICE_S):
            self._check_progress()

    def give_up(self) -> None:
        """Fail everything that is not delivered yet."""
        self.raw.purge()
        self.raw.flush(FLUSH_SLICE_S)

    def _check_progress(self) -> None:
        silence_s = time.monotonic() - self._last_delivery
        if silence_s > self._silence_s_max:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"no record was delivered for {silence_s:.0f} s{self._errors.reason()}",
            )

    def begin(self) -> None:
        self._call(self.raw.begin_transaction)

    def commit(self) -> None:
        self._call(self.raw.commit_transaction, self._silence_s_max)

    def start_transactions(self) -> None:
        self._call(self.raw.init_transactions, self._silence_s_max)

    def metrics(self) -> Metrics:
        """librdkafka's own counters, which it reports once a second."""
        deadline = time.monotonic() + 2 * STATISTICS_MS / 1000
        while not self._statistics and time.monotonic() < deadline:
            self.raw.poll(0.1)
        return _flat(self._statistics)

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        latency = message.latency()
        failure = None if error is None else kafka_error_of(error)
        if failure is None:
            self._last_delivery = time.monotonic()
        self._on_delivery(0.0 if latency is None else latency * 1000, len(message), failure)

    def _keep(self, text: str) -> None:
        self._statistics = json.loads(text)

    def _call(self, what: Callable[..., object], *arguments: object) -> None:
        try:
            what(*arguments)
        except confluent_kafka.KafkaException as error:
            raise kafka_error_of(error) from None


class BulkConsumer:
    """`fetch` returns the number of records and their bytes."""

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
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL,
            "statistics.interval.ms": STATISTICS_MS,
            **librdkafka_settings(settings),
            "error_cb": ConnectionErrors(settings or {}).on_error,
            "stats_cb": self._keep,
        }
        self.raw: confluent_kafka.Consumer = client_with(confluent_kafka.Consumer, config)
        self.raw.subscribe(
            topics,
            on_assign=lambda _, found: on_assigned(_topic_partitions(found)),
            on_revoke=lambda _, found: on_revoked(_topic_partitions(found)),
        )

    def fetch(self, timeout_s: float) -> tuple[int, int]:
        """Wait for one record, then take all that have arrived."""
        try:
            first = self.raw.poll(timeout_s)
            if first is None:
                return 0, 0
            messages = [first, *self.raw.consume(BATCH_RECORDS_MAX, 0)]
        except confluent_kafka.KafkaException as error:
            raise kafka_error_of(error) from None
        count = size = 0
        for message in messages:
            if message.error() is None:
                count += 1
                size += len(message) + len(message.key() or b"")
        return count, size

    def metrics(self) -> Metrics:
        """librdkafka's own counters, which it reports once a second."""
        deadline = time.monotonic() + 2 * STATISTICS_MS / 1000
        while not self._statistics and time.monotonic() < deadline:
            self.raw.poll(0.1)
        return _flat(self._statistics)

    def close(self) -> None:
        self.raw.close()

    def _keep(self, text: str) -> None:
        self._statistics = json.loads(text)


class BulkShareConsumer:
    """`fetch` accepts what the one before has returned."""

    def __init__(
        self, bootstrap_servers: str, topics: list[str], *, settings: Mapping[str, Setting]
    ) -> None:
        self._statistics: dict[str, Any] = {}
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL,
            "statistics.interval.ms": STATISTICS_MS,
            **librdkafka_settings(settings),
            "error_cb": ConnectionErrors(settings).on_error,
            "stats_cb": self._keep,
        }
        self.raw: Any = client_with(share_consumer_class(), config)
        self.raw.subscribe(topics)

    def fetch(self, timeout_s: float) -> tuple[int, int]:
        """The number of records that have arrived, and their bytes."""
        count = size = 0
        for message in self._call(self.raw.poll, timeout_s):
            if message.error() is None:
                count += 1
                size += len(message) + len(message.key() or b"")
        return count, size

    def commit(self) -> None:
        """Accept what was fetched last, and wait for the broker's answer."""
        for error in self._call(self.raw.commit_sync, COMMIT_S_MAX).values():
            if error is not None:
                raise kafka_error_of(error)

    def metrics(self) -> Metrics:
        """librdkafka's own counters, which it reports once a second."""
        return _flat(self._statistics)

    def close(self) -> None:
        self._call(self.raw.close)

    def _keep(self, text: str) -> None:
        self._statistics = json.loads(text)

    def _call(self, what: Callable[..., Any], *arguments: object) -> Any:
        try:
            return what(*arguments)
        except confluent_kafka.KafkaException as error:
            raise kafka_error_of(error) from None


def _topic_partitions(partitions: list[confluent_kafka.TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(partition.topic, partition.partition) for partition in partitions]


def _flat(statistics: Mapping[str, Any]) -> Metrics:
    """librdkafka's totals, without those of single brokers and topics."""
    return {
        name: value for name, value in statistics.items() if isinstance(value, (int, float, str))
    }
