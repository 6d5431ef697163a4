"""`ottla up` and `ottla cluster up` as processes, which tests end in every way."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.testing.ports import reserve_port

OTTLA = (sys.executable, "-m", "ottla.cli")
WAIT_S_MAX = 60.0


@contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """Ports reserved for services of this test, which come and go."""
    held: list[socket.socket] = [reserve_port() for _ in range(count)]
    try:
        yield [entry.getsockname()[1] for entry in held]
    finally:
        for entry in held:
            entry.close()


class Foreground:
    """A command that runs until it is stopped; its output goes to a file."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._path = folder / "output"
        with self._path.open("wb") as output:
            self.process = subprocess.Popen(
                [*OTTLA, *words],
                stdout=output,
                stderr=output,
                cwd=folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    @property
    def output(self) -> str:
        return self._path.read_text()

    def wait_for(self, words: str, timeout_s: float = WAIT_S_MAX) -> str:
        until(lambda: words in self.output or self.process.poll() is not None, timeout_s)
        assert words in self.output, self.output
        return self.output

    def end(self, number: signal.Signals = signal.SIGTERM, timeout_s: float = WAIT_S_MAX) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout_s)


@contextmanager
def foreground(folder: Path, *words: str) -> Iterator[Foreground]:
    """Stopped cleanly if the test has not done so."""
    command = Foreground(folder, *words)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            command.end()


def ran(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command that exits by itself."""
    return subprocess.run(
        [*OTTLA, *words], capture_output=True, text=True, cwd=folder, timeout=2 * WAIT_S_MAX
    )


def status_of(folder: Path, *verb: str) -> dict[str, dict[str, Any]]:
    """`ottla status --json`, by service."""
    done = ran(folder, *verb, "status", "--json")
    return {entry["service"]: entry for entry in json.loads(done.stdout)["services"]}


def until(condition: Callable[[], bool], timeout_s: float = WAIT_S_MAX) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.02)
