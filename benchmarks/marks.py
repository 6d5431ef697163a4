"""A mark in the environment of a process, and so of all that it starts.

Processes where tasks live have no parent: a process tree would leave them out. The mark finds them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.processes import cpu_seconds_of_one

NAME = "OTTLA_BENCH_MARK"
END_GRACE_S = 10.0
LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Mark:
    value: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def environment(self) -> dict[str, str]:
        return {NAME: self.value}

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all live processes with the mark, including their finished children."""
        return sum(cpu_seconds_of_one(pid) for pid in self.processes())

    def processes(self) -> Iterator[int]:
        words = f"{NAME}={self.value}".encode()
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if words in (path / "environ").read_bytes().split(b"\0"):
                    yield int(path.name)

    def runs(self, prefix: str) -> bool:
        """True if the name of a process with the mark begins so."""
        return any(_name(pid).startswith(prefix) for pid in self.processes())

    def end(self, *, grace_s: float = END_GRACE_S) -> None:
        """Waits until all have ended, so that none runs beside the next measurement."""
        deadline = time.monotonic() + grace_s
        while any(self.processes()) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
