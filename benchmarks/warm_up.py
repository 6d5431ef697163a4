"""Before anything is measured: the machine touches its memory, the brokers run hot.

A virtual machine pays for the first touch of a page, so the first writer would look slow. And a
JVM runs interpreted code at first; it gets the same load as Ottla, long enough to compile it.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks import perf_tools
from benchmarks.bench import Bench
from benchmarks.brokers import Broker
from benchmarks.rows.requests import RawRequests
from benchmarks.settings import GIB, LARGE_BYTES, SMALL_BYTES
from benchmarks.topics import topic_for

CHUNK_BYTES = 8 << 20
WARM_UP_COUNT_MAX = 4_000_000


def warm_machine(directory: Path, gib: int) -> None:
    """Writes, reads and deletes that much on the disk that is measured."""
    path = directory / "warm-up"
    chunk = os.urandom(CHUNK_BYTES)
    try:
        with path.open("wb", buffering=0) as out:
            for _ in range(gib * GIB // CHUNK_BYTES):
                out.write(chunk)
        with path.open("rb", buffering=0) as back:
            while back.read(CHUNK_BYTES):
                pass
    finally:
        path.unlink(missing_ok=True)
        os.sync()


def warm_broker(bench: Bench, broker: Broker) -> None:
    """Every path that will be measured: batches in and out, many small requests."""
    for size in (SMALL_BYTES, LARGE_BYTES):
        with topic_for(broker, "warm-up") as topic:
            count = min(WARM_UP_COUNT_MAX, bench.settings.count(size))
            perf_tools.produce(broker, topic, payloads=bench.payloads(size), count=count)
            perf_tools.consume(broker, topic, count=count, group=f"warm-up-{size}")
    RawRequests("warm-up", connections=16, partitions=8).run(bench, broker)
    RawRequests("warm-up", depth=64).run(bench, broker)
