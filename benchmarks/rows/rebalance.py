"""How long a group of a hundred members takes until each has its partitions."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.bench import Bench, last_json, python_module
from benchmarks.brokers import Broker
from benchmarks.figures import Figure, Meter, cost
from benchmarks.processes import run_tool
from benchmarks.topics import topic_for

MEMBERS = 100
TIMEOUT_S = 300.0
NAMES = {"classic": "classic group", "consumer": "KIP-848 group"}


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Brokers wait for no further members of a new group: group.initial.rebalance.delay.ms is 0."""

    protocol: str

    @property
    def title(self) -> str:
        return f"{NAMES[self.protocol]} of {MEMBERS}"

    def measure(self, bench: Bench, broker: Broker) -> list[Figure]:
        with topic_for(broker, "rebalance", partitions=MEMBERS) as topic:
            command = python_module(
                "benchmarks.group_load",
                *("--port", str(broker.port), "--topic", topic),
                *("--members", str(MEMBERS), "--protocol", self.protocol),
            )
            with Meter(broker) as meter:
                result = last_json(run_tool(command, timeout_s=TIMEOUT_S).output)
        cpu_us = meter.us_per(3 * MEMBERS)
        return [
            cost(f"{self.title}, {MEMBERS - 1} start", "ms", result["start_ms"], cpu_us=cpu_us),
            cost(f"{self.title}, one joins {MEMBERS - 1}", "ms", result["join_ms"]),
            cost(f"{self.title}, one of {MEMBERS} leaves", "ms", result["leave_ms"]),
        ]
