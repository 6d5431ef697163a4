"""Metrics of the process, with the names of Prometheus's client libraries, and of its loop."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from ottla.metrics import MetricFamily, counter, gauge

PROC = Path("/proc/self")  # on Linux; elsewhere these metrics are left out
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def process_families() -> Iterator[MetricFamily]:
    """Call this on the loop's thread, whose CPU time it reports."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield counter(
        "process_cpu_seconds_total",
        "User and system time of the process.",
        used.ru_utime + used.ru_stime,
    )
    yield counter(
        "ottla_event_loop_cpu_seconds_total",
        "CPU time of the event loop's thread: near 1 per second the broker is at its limit.",
        time.thread_time(),
    )
    yield from _from_proc()
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield gauge("process_max_fds", "Limit of open files and connections.", files_max)


def _from_proc() -> Iterator[MetricFamily]:
    try:
        pages = (PROC / "statm").read_text().split()
        open_files = len(os.listdir(PROC / "fd"))
        stat = (PROC / "stat").read_text()
        boot_s = _boot_time_s()
    except OSError:
        return
    yield gauge("process_virtual_memory_bytes", "Address space in use.", int(pages[0]) * PAGE_BYTES)
    yield gauge("process_resident_memory_bytes", "Memory in use (RSS).", int(pages[1]) * PAGE_BYTES)
    yield gauge("process_open_fds", "Open files and connections.", open_files)
    fields = stat[stat.rindex(")") + 2 :].split()  # a name may hold blanks and brackets
    yield gauge(
        "process_start_time_seconds",
        "Start time of the process, in seconds since 1970.",
        boot_s + int(fields[19]) / TICKS_PER_S,
    )


def _boot_time_s() -> int:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    raise OSError("no btime in /proc/stat")
