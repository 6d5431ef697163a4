"""Progress of long work: a line for each step, and on a terminal a spinner while it runs."""

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
    """`with step("Spark starts"):` shows a spinner, and at the end a line with the time.

    Only the main thread draws, and only on a terminal: a background thread would draw over what
    the user types. A notebook shows two lines. Elsewhere the step is logged.
    """
    begin = time.monotonic()
    if shown and in_notebook():
        print(f"{what} ...", file=sys.stderr)
        yield
        print(f"{what}: done in {time.monotonic() - begin:.1f} s", file=sys.stderr)
        return
    if not (shown and shows_progress()):
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


def shows_progress() -> bool:
    return sys.stderr.isatty() and threading.current_thread() is threading.main_thread()


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows what is printed to stderr."""
    kernel = sys.modules.get("ipykernel.kernelapp")
    return kernel is not None and kernel.IPKernelApp.initialized()
