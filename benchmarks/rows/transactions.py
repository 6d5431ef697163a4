"""Records in transactions: how many per second, and how long a commit takes."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.bench import Bench, last_json, python_module
from benchmarks.brokers import Broker
from benchmarks.figures import Figure, Meter, cost, rate
from benchmarks.processes import run_tool
from benchmarks.settings import LARGE_BYTES
from benchmarks.topics import topic_for

MB = 1_000_000
EXTRA_TIME_S = 60.0


@dataclass(frozen=True, slots=True)
class TransactionalProduce:
    """One producer of librdkafka, one transaction after another."""

    records: int
    partitions: int = 1
    title: str = "transactional produce"

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]:
        seconds = bench.settings.request_seconds
        with topic_for(broker, "transactions", partitions=self.partitions) as topic:
            command = python_module(
                "benchmarks.transaction_load",
                *("--port", str(broker.port), "--topic", topic, "--seconds", str(seconds)),
                *("--records", str(self.records), "--partitions", str(self.partitions)),
                *("--size", str(LARGE_BYTES)),
            )
            with Meter(broker) as meter:
                output = run_tool(command, timeout_s=seconds + EXTRA_TIME_S).output
        result = last_json(output)
        count = result["transactions"]
        per_s = count / result["elapsed_s"]
        where = f", {self.partitions} partitions" if self.partitions > 1 else ""
        name = f"{self.title}, {self.records} x 1 KB{where}"
        return [
            rate(name, "transactions/s", per_s, cpu_us=meter.us_per(count)),
            rate(f"{name}, values", "MB/s", per_s * self.records * LARGE_BYTES / MB),
            cost(f"{name}, commit p50", "ms", result["commit_p50_ms"]),
            cost(f"{name}, commit p99", "ms", result["commit_p99_ms"]),
        ]
