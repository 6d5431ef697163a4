"""A service on this machine: what runs it, where it listens, how it is known to be ready."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.cli.kafka.tool import ToolError

# -P: the folder that somebody stands in must not lend its modules to a service.
OTTLA: Final = (sys.executable, "-P", "-m", "ottla.cli")
HOST: Final = "127.0.0.1"
LOG_COLUMNS: Final = "160"  # a log's lines are not broken at the width of a terminal
BEGINS: Final = "--- starts at "
TAIL_LINES: Final = 15
TAIL_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class LocalService:
    """`probe` names a question of health.PROBES. Services of one `wave` start side by side."""

    name: str
    command: tuple[str, ...]
    port: int
    probe: str
    log: Path
    wave: int
    scheme: str = ""

    @property
    def address(self) -> str:
        return f"{self.scheme}{HOST}:{self.port}"


def launch(command: tuple[str, ...], log: Path) -> subprocess.Popen[bytes]:
    """In a session of its own: it hears no Ctrl-C, and goes on when the terminal is closed.

    A line in its log says where this run begins: what is before it, another run has written.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        output.write(time.strftime(f"{BEGINS}%Y-%m-%d %H:%M:%S\n").encode())
        output.flush()
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "COLUMNS": LOG_COLUMNS, "PYTHONUNBUFFERED": "1"},
        )


def check_port(service: LocalService, option: str) -> None:
    """Before anything starts: else a stranger who listens there would be taken for ours."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((HOST, service.port))
        except OSError as error:
            raise ToolError(
                f"{service.name} can't listen on {HOST}:{service.port}: {error.strerror}."
                f" {option} chooses another port."
            ) from None


def tail(log: Path) -> str:
    """The last lines of a log, of its last run."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    run = text.rpartition(BEGINS)[2] if BEGINS in text else f"\n{text}"
    return "\n".join(run.partition("\n")[2].rstrip().splitlines()[-TAIL_LINES:])
