"""Standard input and output of a task: those of its worker, as in Kafka, where tasks are threads.

A task lives in a process of its own. Where that is on the worker's machine it takes the worker's
streams for its own, by /proc; elsewhere it has none, and says so.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Final, TextIO

from ottla.connect.errors import ConnectException

INPUT: Final = 0
OUTPUT: Final = 1
_MODES: Final = {INPUT: os.O_RDONLY, OUTPUT: os.O_WRONLY | os.O_APPEND}
_missing: set[int] = set()


def attach(process: int) -> None:
    """In the process of a task; 0: the worker is on another machine."""
    for number, mode in _MODES.items():
        _missing.add(number)
        with suppress(OSError):
            # Without waiting for the other end of a pipe, nor taking somebody's terminal.
            path = f"/proc/{process}/fd/{number}"
            opened = os.open(path, mode | os.O_NONBLOCK | os.O_NOCTTY)
            os.set_blocking(opened, True)
            os.dup2(opened, number)
            os.close(opened)
            _missing.discard(number)


def output() -> TextIO:
    if OUTPUT in _missing:
        raise ConnectException(_told("writes to the standard output"))
    return sys.stdout


def input_descriptor() -> int:
    if INPUT in _missing:
        raise ConnectException(_told("reads the standard input"))
    return INPUT


def _told(does: str) -> str:
    return (
        f"Without a `file` this connector {does} of the worker, which a task on another machine,"
        " or on a system without /proc, does not have. Name a file."
    )
