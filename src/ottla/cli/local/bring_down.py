"""Stops a stack from another terminal."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Final

from ottla.cli.console import console
from ottla.cli.local.run_records import RunRecord
from ottla.cli.local.stack import STOP_S_MAX, WATCH_EVERY_S, Stack

ENDS_S_MAX: Final = 2 * STOP_S_MAX


def bring_down(stack: Stack) -> None:
    """The stack's supervisor stops it, if it runs; this stops what is left."""
    out = console()
    began = time.monotonic()

    def show(record: RunRecord) -> None:
        out.print(f"{record.name} stopped [dim]after {time.monotonic() - began:.1f} s[/]")

    supervisor = stack.supervisor
    if supervisor is not None:
        running = [service for service in stack.services if service.is_alive]
        supervisor.process.send(signal.SIGTERM)
        _wait(supervisor, running, show)
    stack.end(show)
    out.print("all stopped")


def _wait(
    supervisor: RunRecord, running: list[RunRecord], show: Callable[[RunRecord], None]
) -> None:
    """Wait until the supervisor has stopped the stack and has ended."""
    deadline = time.monotonic() + ENDS_S_MAX
    while time.monotonic() < deadline:
        over = not supervisor.is_alive
        for record in list(running):
            if not record.is_alive:
                running.remove(record)
                show(record)
        if over:
            return
        time.sleep(WATCH_EVERY_S)
