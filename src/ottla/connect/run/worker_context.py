"""The worker's properties, as running connectors and tasks need them. Names are Kafka's."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.connect.config_providers import ConfigProviders

CLIENT_NAMES: Final = re.compile(r"(security|ssl|sasl)\..*|client\.id|client\.rack")
PRODUCER: Final = "producer."
CONSUMER: Final = "consumer."
ADMIN: Final = "admin."
OVERRIDE: Final = ".override."
OFFSETS_TOPIC: Final = "connect-offsets"
OFFSETS_PARTITIONS: Final = 25
EXACTLY_ONCE: Final = "exactly.once.source.support"


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Plain data, sent to tasks as well. `id` is the worker_id of statuses: host:port."""

    properties: Mapping[str, str] = field(default_factory=dict)
    id: str = "localhost:8083"

    @property
    def bootstrap_servers(self) -> str:
        return self.properties.get("bootstrap.servers", "localhost:9092")

    @property
    def standalone(self) -> bool:
        return bool(self.offsets_file)

    @property
    def offsets_file(self) -> str:
        """Where a standalone worker keeps source offsets; empty for a distributed one."""
        return self.properties.get("offset.storage.file.filename", "")

    @property
    def offsets_topic(self) -> str:
        return self.properties.get("offset.storage.topic", OFFSETS_TOPIC)

    @property
    def exactly_once(self) -> bool:
        """Source connectors write in transactions. A standalone worker never does, as in Kafka."""
        word = self.properties.get(EXACTLY_ONCE, "disabled").lower()
        return word == "enabled" and not self.standalone

    @property
    def topic_creation(self) -> bool:
        return self.properties.get("topic.creation.enable", "true").lower() != "false"

    def find_plugins(self) -> None:
        """Appends the folders of `plugin.path` to this process's module search path."""
        for folder in self.properties.get("plugin.path", "").split(","):
            if folder.strip() and folder.strip() not in sys.path:
                sys.path.append(folder.strip())

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        """A connector's config with references resolved. For use only: it may hold secrets."""
        return ConfigProviders(self.properties).resolved(config)

    def client(self, prefix: str = "") -> dict[str, str]:
        """The worker's client settings; `prefix` adds those of producers, consumers or admins."""
        properties = self.properties
        settings = {
            name: value for name, value in properties.items() if CLIENT_NAMES.fullmatch(name)
        }
        if prefix:
            settings |= _under(properties, prefix)
        return settings

    def producer(self, config: Mapping[str, str]) -> dict[str, str]:
        return self.client(PRODUCER) | _under(config, "producer" + OVERRIDE)

    def consumer(self, config: Mapping[str, str]) -> dict[str, str]:
        return self.client(CONSUMER) | _under(config, "consumer" + OVERRIDE)

    def admin(self, config: Mapping[str, str]) -> dict[str, str]:
        return self.client(ADMIN) | _under(config, "admin" + OVERRIDE)


def _under(settings: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in settings.items()
        if name.startswith(prefix)
    }
