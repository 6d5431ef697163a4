"""A local service: its command, its address, its readiness probe."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.cli.kafka.tool import ToolError

# -P: a service must not import modules from the current directory.
OTTLA: Final = (sys.executable, "-P", "-m", "ottla.cli")
HOST: Final = "127.0.0.1"
LOG_COLUMNS: Final = "160"  # log lines are not wrapped at the terminal's width
BEGINS: Final = "--- starts at "
PORT_MAX: Final = 65_535
TAIL_LINES: Final = 15
TAIL_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class LocalService:
    """`probe` is a name in health.PROBES. Services of one `wave` start side by side."""

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
    """Start in a new session: Ctrl-C and a closed terminal do not reach the process.

    A line in the log marks the start of this run; what is above it is from earlier runs.
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


def check_ports(services: Sequence[LocalService], option_of: Callable[[LocalService], str]) -> None:
    """Check before anything starts, or another program on a port would be taken for ours."""
    by_port: dict[int, LocalService] = {}
    for service in services:
        other = by_port.setdefault(service.port, service)
        if other is not service:
            raise ToolError(
                f"{other.name} and {service.name} can't both listen on {HOST}:{service.port}."
                f" {option_of(service)} chooses another port."
            )
        _check_port(service, option_of(service))


def _check_port(service: LocalService, option: str) -> None:
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
    """The last lines of the log's last run."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    run = text.rpartition(BEGINS)[2] if BEGINS in text else f"\n{text}"
    return "\n".join(run.partition("\n")[2].rstrip().splitlines()[-TAIL_LINES:])
