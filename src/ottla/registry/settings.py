"""A registry's settings, by Confluent's names.

listeners                    http://host:port; the first one is used
kafkastore.bootstrap.servers kafkastore.topic    schema.registry.group.id
schema.compatibility.level   the default level
kafkastore.<name>            <name> for the Kafka client: kafkastore.security.protocol, ...
authorizer.class.name        authorization of subjects, with the broker's settings: super.users,
                             allow.everyone.if.no.acl.found
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ottla.client.tls import http_context, wrong
from ottla.registry.authorizer_settings import AuthorizerSettings, authorizer_of
from ottla.registry.kafka_schema_registry import GROUP, KafkaSchemaRegistry
from ottla.registry.rest.access import REALM
from ottla.registry.server import RegistryServer
from ottla.registry.state import DEFAULT_LEVEL
from ottla.registry.subject_access import SUFFIX, SubjectAccess, acl_log
from ottla.registry.topic import TOPIC
from ottla.rest.settings import AccessSettings, access_of, warn_if_open
from ottla.schemas.compatibility.incompatibilities import LEVELS

PORT: Final = 8081
HOST: Final = "127.0.0.1"
STORE: Final = "kafkastore."
OPEN: Final = AccessSettings(REALM)
OWN: Final = ("bootstrap.servers", "topic", "topic.replication.factor", "group.id")


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """`client`: a Kafka client's settings besides the servers."""

    bootstrap_servers: str
    client: Mapping[str, str]
    host: str = HOST
    port: int = PORT
    topic: str = TOPIC
    group_id: str = GROUP
    default_level: str = DEFAULT_LEVEL
    tls: ssl.SSLContext | None = None
    access: AccessSettings = OPEN
    authorizer: AuthorizerSettings | None = None

    def server(self) -> RegistryServer:
        """A server that is bound to its port, and not started."""
        registry = KafkaSchemaRegistry(
            self.bootstrap_servers,
            settings=self.client,
            topic=self.topic,
            group_id=self.group_id,
            default_level=self.default_level,
            access=self._subject_access(),
        )
        mutual = self.tls is not None and self.tls.verify_mode == ssl.CERT_REQUIRED
        warn_if_open("THE SCHEMA REGISTRY", self.host, self.port, self.access, mutual_tls=mutual)
        return RegistryServer(registry, self.host, self.port, tls=self.tls, access=self.access)

    def _subject_access(self) -> SubjectAccess | None:
        if self.authorizer is None:
            return None
        log = acl_log(
            self.bootstrap_servers,
            self.client,
            topic=self.authorizer.topic or self.topic + SUFFIX,
            group_id=self.group_id,
        )
        return SubjectAccess(log, self.authorizer.authorizer())


def settings_of(properties: Mapping[str, str], client: Mapping[str, str]) -> RegistrySettings:
    """KafkaError(INVALID_CONFIG) for invalid settings. `client` wins over kafkastore.*."""
    level = properties.get("schema.compatibility.level", DEFAULT_LEVEL).upper()
    if level not in LEVELS:
        raise wrong(f"schema.compatibility.level is one of {', '.join(LEVELS)}, not {level}")
    scheme, host, port = _listener(properties.get("listeners", ""))
    store = {
        name.removeprefix(STORE): value
        for name, value in properties.items()
        if name.startswith(STORE)
    }
    servers = store.get("bootstrap.servers", "localhost:9092")
    access = access_of(properties, realm=REALM)
    return RegistrySettings(
        ",".join(server.rpartition("://")[2] for server in servers.split(",")),
        {**{name: value for name, value in store.items() if name not in OWN}, **client},
        host,
        port,
        store.get("topic", TOPIC),
        properties.get("schema.registry.group.id", GROUP),
        level,
        _tls(properties) if scheme == "https" else None,
        access,
        authorizer_of(properties, access),
    )


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    context = http_context(properties)
    context.set_alpn_protocols(["http/1.1"])  # uvicorn has no HTTP/2
    return context


def _listener(text: str) -> tuple[str, str, int]:
    if not text:
        return "http", HOST, PORT
    found = urlsplit(text.split(",")[0].strip())
    try:
        port = PORT if found.port is None else found.port
    except ValueError:
        port = -1
    if found.scheme not in ("http", "https") or not found.hostname or port < 0:
        raise wrong(f"listeners is http://host:port or https://host:port, not {text}")
    return found.scheme, found.hostname, port
