"""What `ottla up` starts: a broker, and around it registry, SQL server and Connect worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.cli.local.local_service import HOST, OTTLA, LocalService

BROKER, REGISTRY, SQL, CONNECT = NAMES = ("broker", "registry", "sql", "connect")
EXTRA_OF: Final[Mapping[str, str]] = {REGISTRY: "registry", SQL: "spark", CONNECT: "spark"}
PORT_OPTIONS: Final[Mapping[str, str]] = {
    BROKER: "--port",
    REGISTRY: "--registry-port",
    SQL: "--sql-port",
    CONNECT: "--connect-port",
}


@dataclass(frozen=True, slots=True)
class UpWish:
    """`bootstrap_servers` counts where no broker is asked for."""

    names: Sequence[str]
    ports: Mapping[str, int]
    data: Path
    overrides: Sequence[str]
    bootstrap_servers: str


def up_services(wish: UpWish) -> list[LocalService]:
    commands = {
        BROKER: _broker(wish),
        REGISTRY: _registry(wish),
        SQL: _sql(wish),
        CONNECT: _connect(wish),
    }
    return [
        LocalService(
            name=name,
            command=(*OTTLA, *commands[name]),
            port=wish.ports[name],
            probe=name,
            log=wish.data / f"{name}.log",
            wave=0 if name == BROKER else 1,
            scheme="" if name == BROKER else "http://",
        )
        for name in NAMES
        if name in wish.names
    ]


def _broker(wish: UpWish) -> list[str]:
    listeners = f"listeners=PLAINTEXT://{HOST}:{wish.ports[BROKER]}"
    properties = [*wish.overrides, listeners, f"log.dirs={wish.data / 'broker'}"]
    return ["serve", *_overrides(properties)]


def _registry(wish: UpWish) -> list[str]:
    return ["registry", *_client(wish, REGISTRY)]


def _sql(wish: UpWish) -> list[str]:
    """It knows the registry and the Connect worker that are started beside it."""
    properties = []
    if REGISTRY in wish.names:
        properties.append(f"ksql.schema.registry.url=http://{HOST}:{wish.ports[REGISTRY]}")
    if CONNECT in wish.names:
        properties.append(f"ksql.connect.url=http://{HOST}:{wish.ports[CONNECT]}")
    state = ["--state-dir", str(wish.data / "sql")]
    return ["sql-server", *_client(wish, SQL), *state, *_overrides(properties)]


def _connect(wish: UpWish) -> list[str]:
    return ["connect", "worker", *_client(wish, CONNECT)]


def _client(wish: UpWish, name: str) -> list[str]:
    servers = wish.bootstrap_servers
    if BROKER in wish.names:
        servers = f"{HOST}:{wish.ports[BROKER]}"
    return ["-b", servers, "--host", HOST, "--port", str(wish.ports[name])]


def _overrides(properties: Sequence[str]) -> list[str]:
    return [word for each in properties for word in ("--override", each)]
