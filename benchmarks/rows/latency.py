"""From the producer's call to the consumer."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import perf_tools
from benchmarks.bench import Bench, last_json, python_module
from benchmarks.brokers import Broker
from benchmarks.figures import Figure, Meter, cost
from benchmarks.processes import ToolError, finish_tool, run_tool, started_tool
from benchmarks.settings import LARGE_BYTES
from benchmarks.topics import topic_for

EXTRA_TIME_S = 60.0


@dataclass(frozen=True, slots=True)
class FixedRateLatency:
    """librdkafka at a fixed rate, producer and consumer in two processes."""

    title: str = "end to end"

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]:
        per_s = bench.settings.latency_rate
        # One second more than is counted: connections open and caches fill in it.
        count = int(per_s * (bench.settings.latency_seconds + 1))
        timeout_s = count / per_s + EXTRA_TIME_S
        with topic_for(broker, "latency") as topic:
            where = ("--port", str(broker.port), "--topic", topic, "--count", str(count))
            consume = python_module(
                "benchmarks.librdkafka_load", "consume-latency", *where, "--skip", str(per_s)
            )
            produce = python_module(
                "benchmarks.librdkafka_load",
                *("produce-rate", *where, "--rate", str(per_s), "--size", str(LARGE_BYTES)),
            )
            with started_tool(consume) as consumer:
                assert consumer.stdout is not None
                first = consumer.stdout.readline()
                if '"ready"' not in first:
                    raise ToolError(f"the consumer did not get ready: {first}")
                with Meter(broker) as meter:
                    run_tool(produce, timeout_s=timeout_s)
                    output = finish_tool(consumer, timeout_s=timeout_s).output
        result = last_json(output)
        name = f"{self.title}, {per_s:,}/s of 1 KB"
        return [
            cost(f"{name}, p50", "ms", result["p50_ms"], cpu_us=meter.us_per(count)),
            cost(f"{name}, p99", "ms", result["p99_ms"]),
            cost(f"{name}, p99.9", "ms", result["p999_ms"]),
        ]


@dataclass(frozen=True, slots=True)
class OneInFlightLatency:
    """Kafka's EndToEndLatency: a record is sent when the one before has arrived. The tool rounds
    its percentiles to whole milliseconds; its mean is exact."""

    title: str = "EndToEndLatency, one in flight"

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]:
        count = bench.settings.end_to_end_count
        with topic_for(broker, "end-to-end") as topic, Meter(broker) as meter:
            result = perf_tools.end_to_end(broker, topic, count=count, size=LARGE_BYTES)
        return [
            cost(f"{self.title}, mean", "ms", result.mean_ms, cpu_us=meter.us_per(count)),
            cost(f"{self.title}, p99 (whole ms)", "ms", result.p99_ms),
        ]
