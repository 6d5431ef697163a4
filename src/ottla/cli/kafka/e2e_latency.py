"""kafka-e2e-latency: the time from producer to consumer, for one record at a time."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options
from ottla.cli.kafka.tool import ToolError, read_properties, run
from ottla.client.admin import Admin
from ottla.client.consumer import Consumer
from ottla.client.delivery import Setting
from ottla.client.producer import Producer
from ottla.client.record import TopicPartition
from ottla.client.topics import TopicDescription
from ottla.errors import KafkaError

NAME: Final = "kafka-e2e-latency"
DESCRIPTION: Final = (
    "This tool measures end-to-end latency in Kafka by sending messages and timing their reception."
)
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("topic", "REQUIRED: The topic to use for the test.", "topic-name"),
    Option("num-records", "REQUIRED: The number of messages to send.", "count"),
    Option("producer-acks", "REQUIRED: '1' or 'all'.", "producer-acks"),
    Option("record-size", "REQUIRED: The size of each message payload in bytes.", "bytes"),
    Option("record-key-size", "The size of the key in bytes; none if 0.", "bytes", default="0"),
    Option("num-headers", "The number of headers of each message.", "count", default="0"),
    Option("record-header-key-size", "The size of a header's key.", "bytes", default="0"),
    Option("record-header-size", "The size of a header's value; -1: null.", "bytes", default="0"),
)
POSITIONS: Final = (
    "bootstrap-server",
    "topic",
    "num-records",
    "producer-acks",
    "record-size",
    "command-config",
)
POLL_S: Final = 60.0
REPORT_EVERY: Final = 1000


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if len(words) in (5, 6) and not any(word.startswith("--") for word in words):
        words = [f"--{name}={word}" for name, word in zip(POSITIONS, words, strict=False)]
    return run(NAME, DESCRIPTION, OPTIONS, work, words)


def work(options: Options) -> int:
    bootstrap, topic = options.require("bootstrap-server"), options.require("topic")
    count, size = _number(options, "num-records"), _number(options, "record-size")
    acks = options.require("producer-acks")
    if acks not in ("1", "all"):
        raise ToolError(
            "Latency testing requires synchronous acknowledgement. Please use 1 or all."
        )
    settings: dict[str, Setting] = {**read_properties(options.value("command-config"))}
    starts = _partitions(bootstrap, topic, settings)
    sending: dict[str, Setting] = {"linger.ms": 0, "acks": acks}
    sending["enable.idempotence"] = acks == "all"
    with (
        Consumer(bootstrap, settings=settings) as consumer,
        Producer(bootstrap, settings={**settings, **sending}) as producer,
    ):
        consumer.assign(starts)
        trip = RoundTrip(options, topic, size)
        latencies = [trip.take(number, producer, consumer) for number in range(count)]
    print_results(latencies)
    return 0


class RoundTrip:
    """One record: sent, acknowledged, read again."""

    def __init__(self, options: Options, topic: str, size: int) -> None:
        self._topic = topic
        self._size = size
        self._letters = random.Random(0)
        key = options.integer("record-key-size") or 0
        self._key = self._bytes(key) if key else None
        self._headers = self._headers_of(options)

    def take(
        self, number: int, producer: Producer[bytes, bytes], consumer: Consumer[bytes, bytes]
    ) -> float:
        """Milliseconds."""
        value = self._bytes(self._size)
        began = time.perf_counter()
        producer.send(self._topic, value, key=self._key, headers=self._headers).result()
        record = consumer.poll(POLL_S)
        latency_ms = (time.perf_counter() - began) * 1000
        if record is None:
            raise ToolError(f"poll() timed out before finding a result (timeout:[{POLL_S:.0f} s])")
        if record.value != value:
            raise ToolError(
                "The message value read is not the one sent: does somebody else write to this"
                " topic?"
            )
        if number % REPORT_EVERY == 0:
            print(f"{number}\t{latency_ms}", flush=True)
        return latency_ms

    def _bytes(self, size: int) -> bytes:
        return bytes([self._letters.randrange(26) + 65]) * size

    def _headers_of(self, options: Options) -> list[tuple[str, bytes | None]]:
        size = options.integer("record-header-size") or 0
        name = self._bytes(options.integer("record-header-key-size") or 0).decode()
        value = None if size < 0 else self._bytes(size)
        return [(name, value)] * (options.integer("num-headers") or 0)


def print_results(latencies: Sequence[float]) -> None:
    ordered = sorted(int(latency) for latency in latencies)
    print(f"Avg latency: {sum(latencies) / len(latencies):.4f} ms")
    p50, p99, p999 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.99, 0.999))
    print(f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}")


def _partitions(
    bootstrap: str, topic: str, settings: Mapping[str, Setting]
) -> dict[TopicPartition, int]:
    """The end of each partition; creates a missing topic."""
    with Admin(bootstrap, settings=settings) as admin:
        if topic not in admin.topics.names():
            print(
                f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and'
                " replication factor = 1"
            )
            admin.topics.create(topic, 1, replication_factor=1)
        described = admin.topics.describe(topic)[topic]
        if not isinstance(described, TopicDescription):
            raise described
        partitions = [
            TopicPartition(topic, described_partition.partition)
            for described_partition in described.partitions
        ]
        ends = admin.offsets.find(partitions)
    found = {}
    for partition, end in ends.items():
        if isinstance(end, KafkaError):
            raise end
        found[partition] = end.offset
    return found


def _number(options: Options, name: str) -> int:
    options.require(name)
    number = options.integer(name)
    if number is None or number <= 0:
        raise ToolError(f"Value for --{name} must be a positive integer.")
    return number


if __name__ == "__main__":
    sys.exit(main())
