"""Standard input and output of a task: the worker's, as in Kafka, where tasks are threads.

A task lives in its own process. On the worker's machine it opens the worker's streams through
/proc; on another machine it has none, and using them raises.
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


def attach_standard_streams(process: int) -> None:
    """Called in the task's process; `process` is 0 if the worker is on another machine."""
    for number, mode in _MODES.items():
        _missing.add(number)
        with suppress(OSError):
            # Neither block on the other end of a pipe, nor acquire a controlling terminal.
            path = f"/proc/{process}/fd/{number}"
            opened = os.open(path, mode | os.O_NONBLOCK | os.O_NOCTTY)
            os.set_blocking(opened, True)
            os.dup2(opened, number)
            os.close(opened)
            _missing.discard(number)


def standard_output() -> TextIO:
    if OUTPUT in _missing:
        raise ConnectException(_without_file("writes to the standard output"))
    return sys.stdout


def standard_input() -> int:
    if INPUT in _missing:
        raise ConnectException(_without_file("reads the standard input"))
    return INPUT


def _without_file(does: str) -> str:
    return (
        f"Without a `file` this connector {does} of the worker, which a task on another machine,"
        " or on a system without /proc, does not have. Name a file."
    )
