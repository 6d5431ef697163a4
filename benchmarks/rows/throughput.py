"""Produce, consume, and both at once, by Kafka's own performance tools."""

from __future__ import annotations

import itertools

from benchmarks import perf_tools
from benchmarks.bench import Bench
from benchmarks.brokers import Broker
from benchmarks.figures import Figure, Meter, cost, rate
from benchmarks.processes import peak_memory_bytes, reset_peak_memory
from benchmarks.settings import LARGE_BYTES, SMALL_BYTES
from benchmarks.topics import create_topic, delete_topic, first_timestamp_ms, topic_for

MB = 1_000_000
# Part of a run that the producer's own JVM is given to get warm.
WARM_UP_SHARE = 0.25

_groups = itertools.count(1)


def size_name(size: int) -> str:
    return {SMALL_BYTES: "100 B", LARGE_BYTES: "1 KB"}[size]


class Produce:
    def __init__(self, size: int) -> None:
        self.size = size
        self.title = f"produce {size_name(size)}, acks 1"

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]:
        count = bench.settings.count(self.size)
        warm_up_count = int(count * WARM_UP_SHARE)
        with topic_for(broker, "produce") as topic, Meter(broker) as meter:
            produced = perf_tools.produce(
                broker,
                topic,
                payloads=bench.payloads(self.size),
                count=count,
                warm_up_count=warm_up_count,
            )
        cpu_us = meter.us_per(count + warm_up_count)
        return [rate(self.title, "records/s", produced.rate, cpu_us=cpu_us)]


class Consume:
    """Reads the same records in every round, from the start, with a new group each time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.title = f"consume {size_name(size)}"
        self.topics: dict[str, str] = {}

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]:
        if broker.name not in self.topics:
            self.topics[broker.name] = self.fill(bench, broker)
        topic = self.topics[broker.name]
        group = f"bench-group-{next(_groups)}"
        with Meter(broker) as meter:
            consumed = self.consumed(bench, broker, topic, group)
        return [rate(self.title, "records/s", consumed.rate, cpu_us=meter.us_per(consumed.count))]

    def consumed(
        self, bench: Bench, broker: Broker, topic: str, group: str
    ) -> perf_tools.ConsumeResult:
        count = bench.settings.count(self.size)
        return perf_tools.consume(broker, topic, count=count, group=group)

    def fill(self, bench: Bench, broker: Broker) -> str:
        topic = create_topic(broker, "consume")
        bench.after_row.callback(delete_topic, broker, topic)
        bench.after_row.callback(self.topics.pop, broker.name, None)
        payloads, count = bench.payloads(self.size), bench.settings.count(self.size)
        perf_tools.produce(broker, topic, payloads=payloads, count=count)
        return topic


class ProduceAndConsume:
    """From the first record produced to the last one read, with both tools running throughout."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.title = f"produce + consume {size_name(size)} at once"

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]:
        count = bench.settings.count(self.size)
        reset_peak_memory(broker.pid)
        with topic_for(broker, "both") as topic:
            with Meter(broker) as meter:
                _, consumed = perf_tools.produce_and_consume(
                    broker, topic, payloads=bench.payloads(self.size), count=count
                )
            peak = peak_memory_bytes(broker.pid)
            elapsed_s = (consumed.ended_at_ms - first_timestamp_ms(broker, topic)) / 1000
        through = rate(self.title, "records/s", count / elapsed_s, cpu_us=meter.us_per(count))
        return [through, cost(f"memory under that load ({size_name(self.size)})", "MB", peak / MB)]
