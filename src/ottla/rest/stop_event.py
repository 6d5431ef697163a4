"""stop_event: an event that SIGTERM and SIGINT set, for servers that run in the foreground."""

from __future__ import annotations

import signal
import threading


def stop_event() -> threading.Event:
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    return stopping
