"""The log cleaner: how fast a dirty log becomes a clean one, and what producers feel of it.

A compacted topic is filled while its min.cleanable.dirty.ratio of 1 keeps the cleaner away. Then
the ratio becomes 0.01, and the clock runs until the closed segments have reached the size at which
they stay. Both brokers look for work every 100 ms (log.cleaner.backoff.ms): a part of the time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from benchmarks.bench import Bench, last_json, python_module
from benchmarks.brokers import Broker, start_broker
from benchmarks.figures import Figure, Meter, cost, rate
from benchmarks.processes import ToolError, finish_tool, run_tool, started_tool
from benchmarks.settings import LARGE_BYTES, Settings
from benchmarks.topics import REQUEST_TIMEOUT_S, admin, create_topic, delete_topic

MB = 1_000_000
OVERRIDES = {"log.cleaner.backoff.ms": "100"}
TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(8 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "1",
}
RATIO = "min.cleanable.dirty.ratio"
VALUE_BYTES = 100
RECORDS_PER_KEY = 20
STABLE_S = 2.0
LOOK_S = 0.02
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Compaction:
    title: str = "compaction"

    def rounds(self, settings: Settings) -> tuple[int, int]:
        return settings.discarded_rounds, settings.rounds

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        directory = bench.directory / f"compaction-{name}"
        broker = start_broker(name, directory, bench.commands, overrides=OVERRIDES)
        try:
            return [*self._speed(bench, broker), *self._latency(bench, broker)]
        finally:
            broker.remove()

    def _speed(self, bench: Bench, broker: Broker) -> list[Figure]:
        count = bench.settings.compaction_count
        topic = filled(broker, count)
        with Meter(broker) as meter:
            dirty, clean, seconds = compacted(broker, topic)
        delete_topic(broker, topic)
        return [
            rate("compaction of 100 B records", "MB/s", dirty / MB / seconds,
                 cpu_us=meter.us_per(count)),
            cost("what compaction leaves", "% of the log", clean / dirty * 100),
        ]  # fmt: skip

    def _latency(self, bench: Bench, broker: Broker) -> list[Figure]:
        """1,000 records of 1 KB per second, as in the latency row, while a log is cleaned."""
        per_s = bench.settings.latency_rate
        count = int(per_s * (bench.settings.latency_seconds + 1))
        timeout_s = count / per_s + TIMEOUT_S
        topic = filled(broker, bench.settings.compaction_count)
        other = create_topic(broker, "beside")
        where = ("--port", str(broker.port), "--topic", other, "--count", str(count))
        load = "benchmarks.librdkafka_load"
        consume = python_module(load, "consume-latency", *where, "--skip", str(per_s))
        produce = python_module(
            load, "produce-rate", *where, "--rate", str(per_s), "--size", str(LARGE_BYTES)
        )
        with started_tool(consume) as consumer:
            assert consumer.stdout is not None
            first = consumer.stdout.readline()
            if '"ready"' not in first:
                raise ToolError(f"the consumer did not get ready: {first}")
            with started_tool(produce) as producer:
                time.sleep(1.5)  # the first second is not counted
                compacted(broker, topic)
                finish_tool(producer, timeout_s=timeout_s)
            result = last_json(finish_tool(consumer, timeout_s=timeout_s).output)
        delete_topic(broker, topic)
        delete_topic(broker, other)
        name = f"end to end beside a cleaning, {per_s:,}/s of 1 KB"
        return [
            cost(f"{name}, p50", "ms", result["p50_ms"]),
            cost(f"{name}, p99", "ms", result["p99_ms"]),
        ]


def filled(broker: Broker, count: int) -> str:
    """A topic of `count` records, each key some twenty times, in random order."""
    topic = create_topic(broker, "compaction", config=TOPIC_CONFIG)
    where = ("--port", str(broker.port), "--topic", topic, "--count", str(count))
    keys = ("--keys", str(count // RECORDS_PER_KEY), "--size", str(VALUE_BYTES))
    run_tool(
        python_module("benchmarks.librdkafka_load", "fill-keys", *where, *keys),
        timeout_s=TIMEOUT_S,
    )
    return topic


def compacted(broker: Broker, topic: str) -> tuple[int, int, float]:
    """Bytes of the closed segments before and after, and the seconds in between."""
    directory = broker.directory / "data" / f"{topic}-0"
    active = max(directory.glob("*.log")).name
    dirty = size = closed_size(directory, active)
    client = admin(broker)
    entry = ConfigEntry(RATIO, "0.01", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client.incremental_alter_configs([resource])[resource].result(REQUEST_TIMEOUT_S)
    began = changed = time.monotonic()
    while size == dirty or time.monotonic() - changed < STABLE_S:
        if time.monotonic() - began > TIMEOUT_S:
            raise ToolError(f"{topic} still has {size} of {dirty} bytes")
        time.sleep(LOOK_S)
        now = closed_size(directory, active)
        if now != size:
            size, changed = now, time.monotonic()
    return dirty, size, changed - began


def closed_size(directory: Path, active: str) -> int:
    size = 0
    for file in directory.glob("*.log"):
        try:
            size += file.stat().st_size if file.name != active else 0
        except FileNotFoundError:  # swapped between the two calls
            continue
    return size
