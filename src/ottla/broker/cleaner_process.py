"""The process of the log cleaner: it reads plans from a socket, and writes results to it.

    python -m ottla.broker.cleaner_process <descriptor>

Cleaning is pure computation, so a thread of the broker's interpreter would hold up its loop. The
process ends when the other end of the socket closes, even in the middle of a log: an orphan must
not write files while a restarted broker uses the same directory.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

from ottla.storage.cleaner_plan import read_plan
from ottla.storage.files import DiskFiles
from ottla.storage.segment_cleaner import clean

NICENESS = 5  # beside a busy broker, the broker goes first
ORPHANED = 3  # exit code
PAUSE_S_MIN = 0.01


class Throttler:
    """Limits I/O to log.cleaner.io.max.bytes.per.second; unused bandwidth is not saved up."""

    def __init__(
        self,
        bytes_per_second: float | None,
        now: Callable[[], float],
        sleep: Callable[[float], object],
    ) -> None:
        self._rate = bytes_per_second
        self._now = now
        self._sleep = sleep
        self._due = now()

    def __call__(self, size: int) -> None:
        if self._rate is None:
            return
        now = self._now()
        self._due = max(self._due, now) + size / self._rate
        if self._due - now >= PAUSE_S_MIN:
            self._sleep(self._due - now)


def run_cleaner_process(line: socket.socket) -> None:
    """Clean one log after the other, until the broker closes the socket."""
    plans: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(line, plans), daemon=True).start()
    files = DiskFiles()
    while True:
        plan = read_plan(plans.get())
        throttle = Throttler(plan.bytes_per_second, time.monotonic, time.sleep)
        for answer in clean(files, plan, throttle, time.monotonic):
            line.sendall(answer.write())


def _listen(line: socket.socket, plans: queue.SimpleQueue[bytes]) -> None:
    with contextlib.suppress(OSError):
        for text in line.makefile("rb"):
            plans.put(text)
    os._exit(ORPHANED)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of Ctrl-C: the broker ends this process
    os.nice(NICENESS)
    with socket.socket(fileno=int(sys.argv[1])) as line, contextlib.suppress(OSError):
        run_cleaner_process(line)


if __name__ == "__main__":
    main()
