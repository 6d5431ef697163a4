"""The services of `ottla up`: a broker, and around it registry, SQL server and Connect worker."""

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
class StackSpec:
    """`bootstrap_servers` is for stacks without a broker."""

    names: Sequence[str]
    ports: Mapping[str, int]
    data: Path
    overrides: Sequence[str]
    bootstrap_servers: str


def up_services(spec: StackSpec) -> list[LocalService]:
    commands = {
        BROKER: _broker(spec),
        REGISTRY: _registry(spec),
        SQL: _sql(spec),
        CONNECT: _connect(spec),
    }
    return [
        LocalService(
            name=name,
            command=(*OTTLA, *commands[name]),
            port=spec.ports[name],
            probe=name,
            log=spec.data / f"{name}.log",
            wave=0 if name == BROKER else 1,
            scheme="" if name == BROKER else "http://",
        )
        for name in NAMES
        if name in spec.names
    ]


def _broker(spec: StackSpec) -> list[str]:
    listeners = f"listeners=PLAINTEXT://{HOST}:{spec.ports[BROKER]}"
    properties = [*spec.overrides, listeners, f"log.dirs={spec.data / 'broker'}"]
    return ["serve", *_overrides(properties)]


def _registry(spec: StackSpec) -> list[str]:
    return ["registry", *_client(spec, REGISTRY)]


def _sql(spec: StackSpec) -> list[str]:
    """It uses the registry and the Connect worker of the same stack."""
    properties = []
    if REGISTRY in spec.names:
        properties.append(f"ksql.schema.registry.url=http://{HOST}:{spec.ports[REGISTRY]}")
    if CONNECT in spec.names:
        properties.append(f"ksql.connect.url=http://{HOST}:{spec.ports[CONNECT]}")
    state = ["--state-dir", str(spec.data / "sql")]
    return ["sql-server", *_client(spec, SQL), *state, *_overrides(properties)]


def _connect(spec: StackSpec) -> list[str]:
    return ["connect", "worker", *_client(spec, CONNECT)]


def _client(spec: StackSpec, name: str) -> list[str]:
    servers = spec.bootstrap_servers
    if BROKER in spec.names:
        servers = f"{HOST}:{spec.ports[BROKER]}"
    return ["-b", servers, "--host", HOST, "--port", str(spec.ports[name])]


def _overrides(properties: Sequence[str]) -> list[str]:
    return [word for property_ in properties for word in ("--override", property_)]
