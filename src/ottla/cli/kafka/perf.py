"""The statistics of both performance tests, and their output."""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping
from typing import Final

MIB: Final = 1024 * 1024
SAMPLES_MAX: Final = 500_000


class PerfStats:
    """Counts, sizes and latencies of delivered records: in all, and since the last report."""

    def __init__(self, record_count: int, interval_ms: int) -> None:
        self._started = self._window_started = time.perf_counter()
        self._interval_s = interval_ms / 1000
        self._every = record_count // min(record_count, SAMPLES_MAX)
        self._samples = array("d")
        self._count = self._size = 0
        self._latency_sum_ms = self._latency_max_ms = 0.0
        self._start_window(self._started)

    def _start_window(self, now: float) -> None:
        self._window_started = now
        self._window_count = self._window_size = 0
        self._window_sum_ms = self._window_max_ms = 0.0

    def add(self, latency_ms: float, size: int, *, quiet: bool = False) -> None:
        """HOT: called for each record. Prints the interval when it is over, unless `quiet`."""
        if self._count % self._every == 0:
            self._samples.append(latency_ms)
        self._count += 1
        self._size += size
        self._latency_sum_ms += latency_ms
        self._window_count += 1
        self._window_size += size
        self._window_sum_ms += latency_ms
        if latency_ms > self._window_max_ms:
            self._window_max_ms = latency_ms
            if latency_ms > self._latency_max_ms:
                self._latency_max_ms = latency_ms
        if self._window_count & 0xFF == 0:
            now = time.perf_counter()
            if now - self._window_started >= self._interval_s:
                if not quiet:
                    print(self.window(now))
                self._start_window(now)

    def window(self, now: float) -> str:
        elapsed_s = now - self._window_started
        count = self._window_count
        return (
            f"{count} records sent, {count / elapsed_s:.1f} records/sec"
            f" ({self._window_size / elapsed_s / MIB:.2f} MB/sec),"
            f" {self._window_sum_ms / count:.1f} ms avg latency,"
            f" {self._window_max_ms:.1f} ms max latency."
        )

    def total(self, what: str = "records") -> str:
        elapsed_s = time.perf_counter() - self._started
        count = self._count
        p50, p95, p99, p999 = (self.percentile(share) for share in (0.5, 0.95, 0.99, 0.999))
        return (
            f"{count} {what} sent, {count / elapsed_s:f} records/sec"
            f" ({self._size / elapsed_s / MIB:.2f} MB/sec),"
            f" {self._latency_sum_ms / max(1, count):.2f} ms avg latency,"
            f" {self._latency_max_ms:.2f} ms max latency,"
            f" {p50:.0f} ms 50th, {p95:.0f} ms 95th, {p99:.0f} ms 99th, {p999:.0f} ms 99.9th."
        )

    def percentile(self, share: float) -> float:
        if not self._samples:
            return 0.0
        ordered = sorted(self._samples)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def print_metrics(group: str, metrics: Mapping[str, float | str]) -> None:
    """Kafka's table; the names are librdkafka's."""
    client = metrics.get("client_id", "")
    names = {
        f"{group}:{name}:{{client-id={client}}}": value for name, value in sorted(metrics.items())
    }
    width = max([11, *map(len, names)])
    print(f"\n{'Metric Name'.ljust(width)}   Value")
    for name, value in names.items():
        shown = value if isinstance(value, str) else f"{value:.3f}"
        print(f"{name.ljust(width)} : {shown}")
