"""Long work, told on a terminal: a line for each step, and a sign of life while it goes on."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger("ottla.progress")


@contextmanager
def step(what: str, *, shown: bool = True) -> Iterator[None]:
    """`with step("Spark starts"):` a spinner with the words, and a line with the time at the end.

    Only the main thread draws, and only on a terminal: a thread in the background would draw over
    what the user types. All others log.
    """
    begin = time.monotonic()
    if not (shown and draws()):
        log.info("%s", what)
        yield
        log.info("%s: done in %.1f s", what, time.monotonic() - begin)
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, highlight=False, emoji=False)
    with console.status(f"{escape(what)} ...", spinner="dots"):
        yield
    console.print(f"[dim]{escape(what)}: done in {time.monotonic() - begin:.1f} s[/]")


def draws() -> bool:
    return sys.stderr.isatty() and threading.current_thread() is threading.main_thread()
