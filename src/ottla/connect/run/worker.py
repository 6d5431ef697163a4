"""What a worker's properties say, as far as running connectors goes. Names are Kafka's."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.connect.providers import Providers

CLIENT_NAMES: Final = re.compile(r"(security|ssl|sasl)\..*|client\.id|client\.rack")
PRODUCER: Final = "producer."
CONSUMER: Final = "consumer."
ADMIN: Final = "admin."
OVERRIDE: Final = ".override."
OFFSETS_TOPIC: Final = "connect-offsets"
OFFSETS_PARTITIONS: Final = 25
EXACTLY_ONCE: Final = "exactly.once.source.support"


@dataclass(frozen=True, slots=True)
class Worker:
    """Plain data: the properties of a worker. `id` is what status shows, host:port."""

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
        """Of a standalone worker: it keeps source offsets in a file."""
        return self.properties.get("offset.storage.file.filename", "")

    @property
    def offsets_topic(self) -> str:
        return self.properties.get("offset.storage.topic", OFFSETS_TOPIC)

    @property
    def exactly_once(self) -> bool:
        """Of source connectors. A standalone worker has at least once, as in Kafka."""
        word = self.properties.get(EXACTLY_ONCE, "disabled").lower()
        return word == "enabled" and not self.standalone

    @property
    def topic_creation(self) -> bool:
        return self.properties.get("topic.creation.enable", "true").lower() != "false"

    def find_plugins(self) -> None:
        """Folders of `plugin.path` are where this process looks for modules, after all others."""
        for each in self.properties.get("plugin.path", "").split(","):
            if each.strip() and each.strip() not in sys.path:
                sys.path.append(each.strip())

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        """A connector's config with what its references stand for: to be used, never shown."""
        return Providers(self.properties).resolved(config)

    def client(self, prefix: str = "") -> dict[str, str]:
        """Settings of our own connections; `prefix` adds those of producers or consumers."""
        given = self.properties
        settings = {name: value for name, value in given.items() if CLIENT_NAMES.fullmatch(name)}
        if prefix:
            settings |= _under(given, prefix)
        return settings

    def producer(self, config: Mapping[str, str]) -> dict[str, str]:
        return self.client(PRODUCER) | _under(config, "producer" + OVERRIDE)

    def consumer(self, config: Mapping[str, str]) -> dict[str, str]:
        return self.client(CONSUMER) | _under(config, "consumer" + OVERRIDE)

    def admin(self, config: Mapping[str, str]) -> dict[str, str]:
        return self.client(ADMIN) | _under(config, "admin" + OVERRIDE)


def _under(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)
    }
