"""The schema registry of a run, a separate process in front of the run's brokers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.brokers import HOST, free_port
from benchmarks.processes import SpawnedServer, spawn

from suites.ports import PortTaken, is_free, wait_for_port


@dataclass(frozen=True, slots=True)
class RegistryNeed:
    """What a suite of registry tests assumes."""

    port: int | None = None
    """A fixed address at which the suite expects the registry."""


@dataclass(frozen=True, slots=True)
class RunningRegistry:
    url: str
    log: Path
    server: SpawnedServer


@contextmanager
def running_registry(need: RegistryNeed, bootstrap: str, folder: Path) -> Iterator[RunningRegistry]:
    if need.port is not None and not is_free(need.port):
        raise PortTaken(f"port {need.port}, where it looks for a registry, is taken")
    port = need.port or free_port()
    log = folder / "registry.log"
    command = [sys.executable, "-P", "-m", "ottla.cli", "registry", "-b", bootstrap]
    server = spawn([*command, "--host", HOST, "--port", str(port)], log=log)
    try:
        wait_for_port(port)
        yield RunningRegistry(f"http://{HOST}:{port}", log, server)
    finally:
        server.stop()
