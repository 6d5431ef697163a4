"""A thousand connections, idle or busy: what they cost in memory and in requests per second."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from benchmarks.bench import Bench, python_module
from benchmarks.brokers import Broker
from benchmarks.figures import Figure, cost, rate
from benchmarks.processes import (
    ToolError,
    memory,
    peak_memory_bytes,
    reset_peak_memory,
    started_tool,
)
from benchmarks.rows.requests import RawRequests

MB = 1_000_000
PARTITIONS = 8
BUSY_BESIDE_IDLE = 16


@dataclass(frozen=True, slots=True)
class IdleConnections:
    """Held open after one ApiVersions each, while sixteen others produce."""

    title: str = "idle connections"

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]:
        count = bench.settings.connections
        busy = RawRequests(self.title, connections=BUSY_BESIDE_IDLE, partitions=PARTITIONS)
        before = memory(broker.pid).rss_bytes
        command = python_module(
            "benchmarks.raw_load",
            *("idle", "--port", str(broker.port), "--connections", str(count)),
        )
        with started_tool(command, stdin=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            first = holder.stdout.readline()
            if '"connections"' not in first:
                raise ToolError(f"no {count} connections: {first}{holder.stdout.read()}")
            held = memory(broker.pid).rss_bytes
            result, cpu_us = busy.run(bench, broker)
        name = f"{count:,} {self.title}"
        return [
            cost(f"{name}, memory with them", "MB", held / MB),
            cost(f"{name}, memory they add", "MB", max(0, held - before) / MB),
            rate(
                f"{name}, requests of {BUSY_BESIDE_IDLE} others",
                "requests/s",
                result["acked"] / result["elapsed_s"],
                cpu_us=cpu_us,
            ),
        ]


@dataclass(frozen=True, slots=True)
class ActiveConnections:
    """Each sends its next one-record request as soon as the last is answered."""

    title: str = "active connections"

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]:
        count = bench.settings.connections
        load = RawRequests(self.title, connections=count, partitions=PARTITIONS)
        reset_peak_memory(broker.pid)
        result, cpu_us = load.run(bench, broker)
        peak = peak_memory_bytes(broker.pid)
        name = f"{count:,} {self.title}"
        value = result["acked"] / result["elapsed_s"]
        return [
            rate(f"{name}, one-record requests", "requests/s", value, cpu_us=cpu_us),
            cost(f"{name}, memory", "MB", peak / MB),
        ]
