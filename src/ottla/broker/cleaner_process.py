"""The cleaner's own process: plans come in on a socket, answers go out on it.

    python -m ottla.broker.cleaner_process <descriptor>

Cleaning is all computing, and would hold up the broker's loop if a thread of the same interpreter
did it. The process ends when the other end of the socket is gone, even in the middle of a log: an
orphan must not write files beside those of the broker's next life.
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
from ottla.storage.cleaner_work import clean
from ottla.storage.files import DiskFiles

NICENESS = 5  # beside a busy broker, the broker goes first
ORPHANED = 3  # exit code
PAUSE_S_MIN = 0.01


class Throttle:
    """log.cleaner.io.max.bytes.per.second, on average; what was not used is not saved up."""

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


def serve(line: socket.socket) -> None:
    """Clean one log after the other, until the broker hangs up."""
    plans: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(line, plans), daemon=True).start()
    files = DiskFiles()
    while True:
        plan = read_plan(plans.get())
        throttle = Throttle(plan.bytes_per_second, time.monotonic, time.sleep)
        for answer in clean(files, plan, throttle, time.monotonic):
            line.sendall(answer.write())


def _listen(line: socket.socket, plans: queue.SimpleQueue[bytes]) -> None:
    with contextlib.suppress(OSError):
        for text in line.makefile("rb"):
            plans.put(text)
    os._exit(ORPHANED)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the broker says when to end
    os.nice(NICENESS)
    with socket.socket(fileno=int(sys.argv[1])) as line, contextlib.suppress(OSError):
        serve(line)


if __name__ == "__main__":
    main()
