"""The two brokers, started alike: fresh directory, free port, defaults otherwise."""

from __future__ import annotations

import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks import apache_kafka, frames
from benchmarks.processes import SpawnedServer, spawn
from benchmarks.raw_load import call, connect

OTTLA = "ottla"
KAFKA = "kafka"
NAMES = (OTTLA, KAFKA)
HOST = "127.0.0.1"
START_TIMEOUT_S = 120.0
RETRY_S = 0.002
FIRST_TOPIC = "first-record"
# What is not a default, the same for both. A deleted file stays for a minute by default; bytes of
# one measurement must not be written back to the disk during the next one. And a new group waits
# for 3 s by Kafka's default, for nothing by ours: that would be a comparison of two defaults.
OVERRIDES = {"log.segment.delete.delay.ms": "500", "group.initial.rebalance.delay.ms": "0"}


class Target(Protocol):
    """The target of a load: one broker or a cluster."""

    @property
    def name(self) -> str: ...

    @property
    def bootstrap(self) -> str: ...

    @property
    def pids(self) -> list[int]: ...


class StartError(Exception):
    """The broker did not come up; the message carries the end of its log."""


@dataclass(slots=True)
class Broker:
    name: str
    port: int
    directory: Path
    server: SpawnedServer
    start_s: float
    """From the start of the process to the first acknowledged record."""
    listeners: Mapping[str, int] = field(default_factory=dict)
    """Beside PLAINTEXT: protocol -> port."""

    @property
    def pid(self) -> int:
        return self.server.pid

    @property
    def pids(self) -> list[int]:
        return [self.pid]

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def stop(self) -> None:
        self.server.stop()

    def remove(self) -> None:
        """Stops the broker and deletes its data."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def restart(self, commands: Commands) -> None:
        """Stops the broker cleanly and starts it on the same data."""
        self.stop()
        self.server, self.start_s = _spawn_and_wait(
            commands[self.name](self.directory, self.port), self.directory, self.port
        )


Commands = dict[str, Callable[[Path, int], list[str]]]


def default_commands(ottla: Sequence[str] | None = None) -> Commands:
    """How each broker is started on a directory and a port; `ottla` replaces the command."""
    program = list(ottla) if ottla else [str(Path(sys.executable).parent / "ottla")]
    return {
        OTTLA: lambda directory, port: [
            *program,
            "serve",
            "--override",
            f"listeners=PLAINTEXT://127.0.0.1:{port}",
            "--override",
            f"log.dirs={directory / 'data'}",
            *(word for item in OVERRIDES.items() for word in ("--override", "=".join(item))),
        ],
        KAFKA: lambda directory, _: apache_kafka.server_command(directory),
    }


def start_broker(
    name: str,
    directory: Path,
    commands: Commands,
    *,
    overrides: Mapping[str, str] | None = None,
    protocols: Sequence[str] = (),
) -> Broker:
    """Starts a broker in a new directory and waits for its first acknowledged record.

    Kafka's storage is formatted before the clock runs: that is a separate step there. `overrides`
    are what one row changes in the defaults of both; `protocols` have a listener each, too.
    """
    directory.mkdir(parents=True)
    port = free_port()
    listeners = {protocol: free_port() for protocol in protocols}
    changes = {**OVERRIDES, **(overrides or {})}
    if name == KAFKA:
        quorum = apache_kafka.new_quorum({1: free_port()})
        apache_kafka.format_storage(
            directory, port=port, quorum=quorum, overrides=changes, listeners=listeners
        )
    command = commands[name](directory, port)
    if name == OTTLA:
        places = {"PLAINTEXT": port, **listeners}
        named = ",".join(f"{protocol}://{HOST}:{place}" for protocol, place in places.items())
        for item in {**changes, "listeners": named}.items():
            command += ["--override", "=".join(item)]
    server, start_s = _spawn_and_wait(command, directory, port)
    return Broker(name, port, directory, server, start_s, listeners)


def _spawn_and_wait(command: list[str], directory: Path, port: int) -> tuple[SpawnedServer, float]:
    start = time.perf_counter()
    try:
        server = spawn(command, log=directory / "server.log")
    except OSError as error:
        raise StartError(f"cannot run {command[0]}: {error}") from None
    try:
        wait_for_first_record(server, port)
    except BaseException:
        server.stop(grace_s=1.0)
        raise
    return server, time.perf_counter() - start


def wait_for_first_record(server: SpawnedServer, port: int) -> None:
    """Connects, lets the topic be created, and produces, until all of that succeeds."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if not server.alive():
            raise StartError(f"the broker ended while starting:\n{server.log_tail()}")
        try:
            if _produce_one(port, deadline):
                return
        except OSError:
            pass
        time.sleep(RETRY_S)
    raise StartError(f"no record accepted in {START_TIMEOUT_S:.0f} s:\n{server.log_tail()}")


def _produce_one(port: int, deadline: float) -> bool:
    metadata = frames.metadata_frame(FIRST_TOPIC)
    produce = frames.produce_frame(FIRST_TOPIC, 0, value=b"x")
    with connect(port) as sock:
        while time.monotonic() < deadline:
            call(sock, metadata)
            reply = call(sock, produce)
            if frames.produce_error(FIRST_TOPIC, reply) == 0:
                return True
            time.sleep(RETRY_S)
    return False


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
