"""From nothing to the first record, and what an idle broker holds."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.brokers import start_broker
from benchmarks.figures import Figure, cost
from benchmarks.processes import cpu_seconds, memory
from benchmarks.settings import Settings

MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Start:
    title: str = "start"

    def rounds(self, settings: Settings) -> tuple[int, int]:
        return settings.discarded_rounds, settings.rounds

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        broker = start_broker(name, bench.directory / f"start-{name}", bench.commands)
        try:
            cpu_at_start = cpu_seconds(broker.pid)
            time.sleep(bench.settings.idle_seconds)
            idle = memory(broker.pid)
            idle_cpu = (cpu_seconds(broker.pid) - cpu_at_start) / bench.settings.idle_seconds
        finally:
            broker.remove()
        return [
            cost("start to first produced record", "s", broker.start_s),
            cost("CPU spent on that start", "s", cpu_at_start),
            cost("memory idle (RSS)", "MB", idle.rss_bytes / MB),
            cost("memory idle (PSS)", "MB", idle.pss_bytes / MB),
            cost("CPU idle, just started", "% of a core", idle_cpu * 100),
        ]
