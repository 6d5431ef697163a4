"""A process by pid and start time: its pid alone may belong to another process by now."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
BOOT_ID: Final = PROC / "sys/kernel/random/boot_id"
STATE_FIELD: Final = 0  # after the name in parentheses, which may contain anything
START_FIELD: Final = 19
ENDED: Final = ("Z", "X")  # a zombie has ended; its parent has not reaped it yet
PS_S_MAX: Final = 10.0


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """`start` is unique for a pid: the boot id and the clock tick of the start."""

    pid: int
    start: str

    @property
    def is_alive(self) -> bool:
        return identity_of(self.pid) == self

    def send(self, number: signal.Signals) -> bool:
        """False if the process has ended. Another process with its pid never gets the signal.

        The descriptor is opened first and stays with that process: if its start time matches, the
        signal can't reach another one.
        """
        if not hasattr(os, "pidfd_open"):  # not Linux
            return self._send_by_pid(number)
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        except OSError:  # an old kernel, or a seccomp rule
            return self._send_by_pid(number)
        try:
            if not self.is_alive:
                return False
            signal.pidfd_send_signal(descriptor, number)
            return True
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)

    def _send_by_pid(self, number: signal.Signals) -> bool:
        if not self.is_alive:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def identity_of(pid: int) -> ProcessIdentity | None:
    """None if no process has this pid, or if it has ended."""
    start = _start_on_linux(pid) if BOOT_ID.exists() else _start_by_ps(pid)
    return None if start is None else ProcessIdentity(pid, start)


def own_identity() -> ProcessIdentity:
    found = identity_of(os.getpid())
    assert found is not None, "this process runs"
    return found


def _start_on_linux(pid: int) -> str | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    if fields[STATE_FIELD] in ENDED:
        return None
    return f"{BOOT_ID.read_text().strip()} {fields[START_FIELD]}"


def _start_by_ps(pid: int) -> str | None:
    """Elsewhere by `ps`, with a resolution of a second."""
    words = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PS_S_MAX)
    state, _, start = done.stdout.strip().partition(" ")
    return None if not start or state.startswith(ENDED) else start.strip()
