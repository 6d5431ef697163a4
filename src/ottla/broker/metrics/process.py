"""The process, by the names that every Prometheus client has for it, and the loop in it."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from ottla.metrics import Family, counter, gauge

PROC = Path("/proc/self")  # on Linux; elsewhere its figures are left out
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def families() -> Iterator[Family]:
    """In the loop's thread, as it says what that one has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield counter(
        "process_cpu_seconds_total",
        "User and system time of the process.",
        used.ru_utime + used.ru_stime,
    )
    yield counter(
        "ottla_event_loop_cpu_seconds_total",
        "Time of the thread that does all the work: near 1 in a second it can do no more.",
        time.thread_time(),
    )
    yield from _from_proc()
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield gauge("process_max_fds", "Files and connections that may be open.", files_max)


def _from_proc() -> Iterator[Family]:
    try:
        pages = (PROC / "statm").read_text().split()
        open_files = len(os.listdir(PROC / "fd"))
        stat = (PROC / "stat").read_text()
        boot_s = _boot_time_s()
    except OSError:
        return
    yield gauge("process_virtual_memory_bytes", "Address space in use.", int(pages[0]) * PAGE_BYTES)
    yield gauge("process_resident_memory_bytes", "Memory in use (RSS).", int(pages[1]) * PAGE_BYTES)
    yield gauge("process_open_fds", "Files and connections that are open.", open_files)
    fields = stat[stat.rindex(")") + 2 :].split()  # a name may hold blanks and brackets
    yield gauge(
        "process_start_time_seconds",
        "When the process began, in seconds since 1970.",
        boot_s + int(fields[19]) / TICKS_PER_S,
    )


def _boot_time_s() -> int:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    raise OSError("no btime in /proc/stat")
