"""What a reader must know to judge the numbers."""

from __future__ import annotations

import os
import platform
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import confluent_kafka

from benchmarks import apache_kafka
from benchmarks.brokers import OVERRIDES
from benchmarks.settings import Settings


def conditions(settings: Settings, *, mode: str) -> dict[str, str]:
    overrides = ", ".join(f"{name}={value}" for name, value in OVERRIDES.items())
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {mode} run",
        "machine": f"{os.cpu_count()} CPUs ({_cpu_model()}), {_memory_gib():.0f} GiB, "
        f"Linux {platform.release()}; brokers and load share it",
        "versions": f"Ottla {metadata.version('ottla')} on Python {platform.python_version()}; "
        f"Apache Kafka {apache_kafka.KAFKA_VERSION}, one KRaft node, heap 1 GiB, "
        f"{apache_kafka.java_version()}; librdkafka {confluent_kafka.libversion()[0]}",
        "settings": f"defaults of each broker, apart from {overrides} on both; "
        "one partition (8 where many connections produce), acks 1, nothing compressed; "
        "data on the same disk",
        "rounds": f"in turn; {settings.discarded_rounds} discarded, median of {settings.rounds}, "
        "± is half the range; both brokers up, the other one idle",
        "ratio": "how many times better Ottla is (above 1 is better; within 3 % counts as equal); "
        "CPU is the broker's own time for one record or request",
    }


def busy_share(seconds: float) -> float:
    """How much of all CPUs is in use now, by whomever, time stolen from a guest included."""
    before = _cpu_ticks()
    time.sleep(seconds)
    after = _cpu_ticks()
    total = sum(after) - sum(before)
    idle = sum(after[3:5]) - sum(before[3:5])  # idle and waiting for the disk
    return (total - idle) / total if total else 0.0


def _cpu_ticks() -> list[int]:
    first, _, _ = Path("/proc/stat").read_text().partition("\n")
    return [int(word) for word in first.split()[1:9]]


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
