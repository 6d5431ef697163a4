"""Does it stay as fast when much is stored? Produces until the topic holds 20 GiB."""

from __future__ import annotations

import os
import shutil
import statistics
from dataclasses import dataclass

from benchmarks import perf_tools
from benchmarks.bench import Bench
from benchmarks.brokers import Broker, start_broker
from benchmarks.figures import Figure, Meter, cost, rate
from benchmarks.settings import GIB, LARGE_BYTES, Settings
from benchmarks.topics import create_topic, topic_for

MB = 1_000_000
FREE_MARGIN_GIB = 5
# Room for offsets, varints and batch headers beside the values.
STORED_PER_VALUE = 1.03
RETENTION_OFF = {"retention.ms": "-1", "retention.bytes": "-1"}
WARM_UP_COUNT = 400_000


class NoRoomError(Exception):
    """The disk has not enough free space for this row."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Equal steps, the disk at rest before each, so that each step starts from the same state but
    for what is stored. The broker is new, and warmed up first."""

    title: str = "growing data"

    def rounds(self, settings: Settings) -> tuple[int, int]:
        return 0, 1

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        gib = bench.settings.growth_gib
        _refuse_without_room(bench, gib)
        broker = start_broker(name, bench.directory / f"growth-{name}", bench.commands)
        try:
            warm_up(bench, broker)
            steps, cpu_us = fill(bench, broker)
            broker.restart(bench.commands)
        finally:
            broker.remove()
            os.sync()
        edge = max(1, len(steps) // 5)
        first, last = statistics.mean(steps[:edge]), statistics.mean(steps[-edge:])
        return [
            rate("produce 1 KB, nothing stored", "MB/s", first),
            rate(f"produce 1 KB, {gib} GiB stored", "MB/s", last, cpu_us=cpu_us),
            rate(f"kept of it at {gib} GiB (flat = 100)", "%", last / first * 100),
            rate("slowest step against the first", "%", min(steps) / first * 100),
            cost(f"restart on {gib} GiB to first record", "s", broker.start_s),
        ]


def warm_up(bench: Bench, broker: Broker) -> None:
    with topic_for(broker, "warm-up") as topic:
        payloads = bench.payloads(LARGE_BYTES)
        perf_tools.produce(broker, topic, payloads=payloads, count=WARM_UP_COUNT)


def fill(bench: Bench, broker: Broker) -> tuple[list[float], float]:
    """MB of values per second for each step, and the broker's CPU time for a record in the last."""
    topic = create_topic(broker, "growth", config=RETENTION_OFF)
    step_bytes = bench.settings.growth_gib * GIB / bench.settings.growth_steps
    count = int(step_bytes / (LARGE_BYTES * STORED_PER_VALUE))
    steps, cpu_us = [], 0.0
    for _ in range(bench.settings.growth_steps):
        os.sync()
        with Meter(broker) as meter:
            produced = perf_tools.produce(
                broker,
                topic,
                payloads=bench.payloads(LARGE_BYTES),
                count=int(count * 0.9),
                warm_up_count=int(count * 0.1),
            )
        steps.append(produced.rate * LARGE_BYTES / MB)
        cpu_us = meter.us_per(count)
    return steps, cpu_us


def _refuse_without_room(bench: Bench, gib: int) -> None:
    free_gib = shutil.disk_usage(bench.directory).free / GIB
    if free_gib < gib + FREE_MARGIN_GIB:
        raise NoRoomError(
            f"{free_gib:.1f} GiB free, {gib + FREE_MARGIN_GIB} GiB needed: "
            "make room or give a smaller --size-gib"
        )
