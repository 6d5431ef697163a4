"""One record per request: what small, unbatched producers cost the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.bench import Bench, last_json, python_module
from benchmarks.brokers import Broker
from benchmarks.figures import Figure, Meter, cost, rate
from benchmarks.processes import run_tool
from benchmarks.settings import SMALL_BYTES
from benchmarks.topics import topic_for

PIPELINE_DEPTH = 64
EXTRA_TIME_S = 60.0


@dataclass(frozen=True, slots=True)
class RawRequests:
    """Pre-built Produce frames on raw sockets."""

    title: str
    connections: int = 1
    depth: int = 1
    partitions: int = 1

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]:
        result, cpu_us = self.run(bench, broker)
        name = f"{self.title}, one-record requests"
        figures = [rate(name, "requests/s", result["acked"] / result["elapsed_s"], cpu_us=cpu_us)]
        if result["p99_us"]:
            figures.append(cost(f"{self.title}, reply time p50", "us", result["p50_us"]))
            figures.append(cost(f"{self.title}, reply time p99", "us", result["p99_us"]))
        return figures

    def run(self, bench: Bench, broker: Broker) -> tuple[dict[str, Any], float]:
        """The generator's result and the broker's CPU time for one request."""
        seconds = bench.settings.request_seconds
        with topic_for(broker, "requests", partitions=self.partitions) as topic:
            command = python_module(
                "benchmarks.raw_load",
                "requests",
                *("--port", str(broker.port), "--topic", topic, "--seconds", str(seconds)),
                *("--partitions", str(self.partitions), "--connections", str(self.connections)),
                *("--depth", str(self.depth), "--size", str(SMALL_BYTES)),
            )
            with Meter(broker) as meter:
                output = run_tool(command, timeout_s=seconds + EXTRA_TIME_S).output
        result = last_json(output)
        return result, meter.us_per(result["acked"])


@dataclass(frozen=True, slots=True)
class LibrdkafkaRequests:
    """A real client told to batch nothing and to wait for every reply."""

    title: str = "librdkafka, one in flight"

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]:
        seconds = bench.settings.request_seconds
        with topic_for(broker, "requests") as topic:
            command = python_module(
                "benchmarks.librdkafka_load",
                "requests",
                *("--port", str(broker.port), "--topic", topic, "--seconds", str(seconds)),
                *("--size", str(SMALL_BYTES)),
            )
            with Meter(broker) as meter:
                output = run_tool(command, timeout_s=seconds + EXTRA_TIME_S).output
        result = last_json(output)
        value = result["acked"] / result["elapsed_s"]
        name = f"{self.title}, one-record requests"
        return [rate(name, "requests/s", value, cpu_us=meter.us_per(result["acked"]))]
