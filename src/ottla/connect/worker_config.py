"""The worker's config: its REST server, its group, its internal topics. Names are Kafka's.

Some settings that Kafka requires have defaults here: `group.id`, the three topics,
`bootstrap.servers`. The default replication factor is the broker's.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.connect.errors import ConfigException
from ottla.connect.override_policy import override_policy_of
from ottla.connect.validators import one_of_any_case
from ottla.rest.listening_socket import first_listener

DEFAULT_PORT: Final = 8083
EVERYWHERE: Final = ("", "0.0.0.0", "::")

DEFAULTS: Final[Mapping[str, str]] = {
    "listeners": f"http://127.0.0.1:{DEFAULT_PORT}",  # Kafka's default is every address
    "group.id": "connect-cluster",
    "config.storage.topic": "connect-configs",
    "status.storage.topic": "connect-status",
    "status.storage.partitions": "5",
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "1000",
    "rebalance.timeout.ms": "60000",
    "topic.tracking.enable": "true",
    "topic.tracking.allow.reset": "true",
    "ottla.connect.spark.master": "local[*]",
    "ottla.connect.spark.remote": "",
    "ottla.connect.spark.heap": "1g",
}


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    properties: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> str:
        return self.properties.get(name, DEFAULTS.get(name, ""))

    def check(self) -> None:
        """Raises ConfigException for values that would otherwise be mistaken for a default."""
        override_policy_of(self.properties)
        name = "exactly.once.source.support"
        if name in self.properties:
            one_of_any_case("PREPARING", "DISABLED", "ENABLED")(name, self.properties[name])

    def number(self, name: str) -> int:
        text = self.get(name).strip()
        if not text.lstrip("-").isdigit():
            raise ConfigException.of(name, text, "Not a number of type INT")
        return int(text)

    def seconds(self, name: str) -> float:
        return self.number(name) / 1000

    def flag(self, name: str) -> bool:
        return self.get(name).strip().lower() == "true"

    def replication_factor(self, kind: str) -> int | None:
        name = f"{kind}.storage.replication.factor"
        found = self.number(name) if name in self.properties else -1
        return None if found == -1 else found

    def topic_configs(self, kind: str) -> dict[str, str]:
        """`config.storage.min.insync.replicas` and the like."""
        prefix = f"{kind}.storage."
        own = ("topic", "replication.factor", "partitions")
        return {
            name.removeprefix(prefix): value
            for name, value in self.properties.items()
            if name.startswith(prefix) and name.removeprefix(prefix) not in own
        }

    @property
    def listener(self) -> tuple[str, int]:
        """Host and port of the first listener: `http://:8083`, `https://127.0.0.1:0`."""
        parts = first_listener(self.get("listeners"))
        return parts.hostname or "0.0.0.0", DEFAULT_PORT if parts.port is None else parts.port

    @property
    def scheme(self) -> str:
        """http or https: the scheme of the first listener, and of the advertised URL."""
        parts = first_listener(self.get("listeners"))
        if parts.scheme not in ("http", "https"):
            raise ConfigException.of("listeners", parts.geturl(), "http or https, and no other")
        return parts.scheme

    def advertised(self, host: str, port: int) -> str:
        """host:port under which other workers reach this one."""
        shown = self.get("rest.advertised.host.name")
        if not shown:
            shown = socket.gethostname() if host in EVERYWHERE else host
        at = self.get("rest.advertised.port") or str(port)
        return f"[{shown}]:{at}" if ":" in shown else f"{shown}:{at}"

    @property
    def admin(self) -> bool:
        """An empty `admin.listeners` disables /admin; separate admin listeners do not exist."""
        return self.properties.get("admin.listeners", "on").strip() != ""

    @property
    def spark(self) -> dict[str, str]:
        return {name: value for name, value in self.properties.items() if name.startswith("spark.")}
