"""Settings of the SQL server, and properties that a statement can override.

The names are ksqlDB's, so that its properties files and the settings of its clients work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.rest.listening_socket import first_listener
from ottla.rows.errors import SqlError
from ottla.sql.catalog import did_you_mean
from ottla.sql.definitions import (
    DEFAULT_KEY_FORMAT,
    DEFAULT_VALUE_FORMAT,
    TOPIC_PREFIX,
    WRAP_SINGLE_VALUES,
    known_format,
)
from ottla.sql.functions import MODULES
from ottla.sql.functions.aggregates import LIST_LIMIT, SET_LIMIT
from ottla.sql.plan.stages import CACHE_BYTES, cache_bytes
from ottla.sql.user_folder import user_folder

SERVICE_ID: Final = "ksql.service.id"
BOOTSTRAP_SERVERS: Final = "bootstrap.servers"
PROCESSING_LOG: Final = "ksql.logging.processing.topic.name"
STATE_DIR: Final = "ksql.streams.state.dir"
SPARK_REMOTE: Final = "ottla.sql.spark.remote"
STATE_MOVED: Final = "ottla.sql.state.moved"
HEADLESS_STATE_DIR: Final = "./sql-state"
LISTENERS: Final = "listeners"
QUERIES_FILE: Final = "ksql.queries.file"
AUTO_OFFSET_RESET: Final = "auto.offset.reset"
COMMAND_TIMEOUT_MS: Final = "ksql.server.command.response.timeout.ms"
TABLE_SCANS: Final = "ksql.query.pull.table.scan.enabled"
RANGE_SCANS: Final = "ksql.query.pull.range.scan.enabled"
PUSH_V2: Final = "ksql.query.push.v2.enabled"
PUSH_QUERIES_MAX: Final = "ksql.max.push.queries"
STREAMS_PREFIX: Final = "ksql.streams."
REGISTRY_PREFIX: Final = "ksql.schema.registry."
REGISTRY_URL: Final = f"{REGISTRY_PREFIX}url"
ASSERT_SCHEMA_TIMEOUT_MS: Final = "ksql.assert.schema.default.timeout.ms"
CONNECT_PREFIX: Final = "ksql.connect."
CONNECT_URL: Final = f"{CONNECT_PREFIX}url"
CONNECT_WORKER: Final = f"{CONNECT_PREFIX}worker.config"
CONNECT_TIMEOUT_MS: Final = f"{CONNECT_PREFIX}request.timeout.ms"
CONNECT_LOGIN: Final = f"{CONNECT_PREFIX}basic.auth.credentials.source"
CONNECT_LOGIN_FILE: Final = f"{CONNECT_PREFIX}basic.auth.credentials.file"

DEFAULT_PORT: Final = 8088
CLIENT_NAMES: Final = ("security.", "sasl.", "ssl.", "client.")
_PREFIXES: Final = re.compile(r"(ksql\.streams\.)?((main\.)?consumer\.|producer\.|admin\.)?")
_CLIENT_AUTH: Final = {"true": "required", "false": "none", "": "none"}


@dataclass(frozen=True, slots=True)
class Property:
    """A known property. `editable`: SET and the properties of a request may override it."""

    name: str
    default: str
    editable: bool
    check: Callable[[str], None] = lambda _: None


def _one_of(*words: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        if value.lower() not in words:
            raise SqlError(
                f"Invalid value {value}: String must be one of: {', '.join(words)}",
                remedy=f"Use one of {', '.join(words)}.",
            )

    return check


def _number(value: str) -> None:
    if not value.lstrip("-").isdigit():
        raise SqlError(
            f"Invalid value {value}: Not a number of type LONG", remedy="Give a whole number."
        )


def _format(value: str) -> None:
    known_format(value)


_BOOLEAN: Final = _one_of("true", "false")

PROPERTIES: Final = {
    property_.name: property_
    for property_ in (
        Property(BOOTSTRAP_SERVERS, "localhost:9092", editable=False),
        Property(LISTENERS, f"http://127.0.0.1:{DEFAULT_PORT}", editable=False),
        Property(SERVICE_ID, "default_", editable=False),
        Property(PROCESSING_LOG, "", editable=False),
        Property(STATE_DIR, "", editable=False),
        Property(STATE_MOVED, "false", False, _BOOLEAN),
        Property(QUERIES_FILE, "", editable=False),
        Property(COMMAND_TIMEOUT_MS, "5000", editable=False, check=_number),
        Property(PUSH_QUERIES_MAX, "100", editable=False, check=_number),
        Property(REGISTRY_URL, "", editable=False),
        Property(ASSERT_SCHEMA_TIMEOUT_MS, "1000", editable=False, check=_number),
        Property(CONNECT_URL, "http://localhost:8083", editable=False),
        Property(CONNECT_WORKER, "", editable=False),
        Property(CONNECT_TIMEOUT_MS, "5000", editable=False, check=_number),
        Property(CONNECT_LOGIN, "NONE", editable=False, check=_one_of("none", "file")),
        Property(CONNECT_LOGIN_FILE, "", editable=False),
        Property(MODULES, "", editable=False),
        Property("ottla.sql.spark.master", "local[*]", editable=False),
        Property(SPARK_REMOTE, "", editable=False),
        Property("ottla.sql.spark.heap", "1g", editable=False),
        Property(AUTO_OFFSET_RESET, "latest", True, _one_of("earliest", "latest", "none")),
        Property(DEFAULT_KEY_FORMAT, "KAFKA", True, _format),
        Property(DEFAULT_VALUE_FORMAT, "", True, _format),
        Property(WRAP_SINGLE_VALUES, "true", True, _BOOLEAN),
        Property(TABLE_SCANS, "true", True, _BOOLEAN),
        Property(RANGE_SCANS, "true", True, _BOOLEAN),
        Property(PUSH_V2, "false", True, _BOOLEAN),
        Property("ksql.query.pull.stream.enabled", "true", True, _one_of("true")),
        Property("ksql.query.pull.limit.clause.enabled", "true", True, _one_of("true")),
        Property("ksql.create.or.replace.enabled", "true", True, _one_of("true")),
        Property(TOPIC_PREFIX, "", editable=True),
        Property(LIST_LIMIT, "", editable=True, check=_number),
        Property(SET_LIMIT, "", editable=True, check=_number),
        Property("ksql.functions.substring.legacy.args", "false", True, _one_of("false")),
        Property("ksql.fail.on.deserialization.error", "false", True, _BOOLEAN),
        Property("ksql.query.error.max.queue.size", "10", editable=True, check=_number),
        Property("ksql.windowed.session.key.legacy", "false", True, _BOOLEAN),
    )
}


@dataclass(frozen=True, slots=True)
class KsqlConfig:
    """The server's settings. `properties`: those of its file, with overrides applied."""

    properties: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> str:
        return self.properties.get(name, PROPERTIES[name].default)

    @property
    def bootstrap_servers(self) -> str:
        return self.get(BOOTSTRAP_SERVERS)

    @property
    def service_id(self) -> str:
        return self.get(SERVICE_ID)

    @property
    def processing_log(self) -> str:
        """The topic of the processing log."""
        return self.get(PROCESSING_LOG) or f"{self.service_id}ksql_processing_log"

    @property
    def state_root(self) -> Path:
        """The default root of state directories. A server and a shell of the same user share it, so
        that each continues the queries of the other."""
        if self.get(STATE_DIR):
            return Path(self.get(STATE_DIR)).absolute()
        if self.get(QUERIES_FILE):
            return Path(HEADLESS_STATE_DIR).absolute()
        return user_folder() / "sql"

    def state_dir(self, cluster_id: str) -> Path:
        """The state directory of this service in this cluster. The cluster id is part of the path
        because query ids start again in a new cluster, which must not find old state."""
        if self.get(STATE_DIR) or self.get(QUERIES_FILE):
            return self.state_root / self.service_id
        return self.state_root / (cluster_id or "cluster") / self.service_id

    @property
    def command_timeout_s(self) -> float:
        return int(self.get(COMMAND_TIMEOUT_MS)) / 1000

    @property
    def session(self) -> dict[str, str]:
        """The server's settings of editable properties: the defaults of statements."""
        return {
            plain_name(name): value for name, value in self.properties.items() if is_editable(name)
        }

    @property
    def client(self) -> dict[str, str]:
        """Settings of Kafka clients: bootstrap servers and security."""
        return {
            plain: value
            for name, value in sorted(self.properties.items(), key=_streams_last)
            if (plain := _plain_security(name)).startswith(CLIENT_NAMES)
        }

    @property
    def registry(self) -> dict[str, str]:
        """Settings of the schema registry client: `ksql.schema.registry.*` without the prefix;
        empty without a URL."""
        if not self.get(REGISTRY_URL):
            return {}
        found: dict[str, str] = {}
        for name, value in self.properties.items():
            rest = name.removeprefix(REGISTRY_PREFIX)
            if rest != name:
                own = rest == "url" or rest.startswith("ssl.")
                found[f"schema.registry.{rest}" if own else rest] = value
        return found

    @property
    def listener_tls(self) -> dict[str, str] | None:
        """`ssl.*` of the listener; None for plain HTTP. As in ksqlDB these settings apply to the
        clients as well, unless there are `ksql.streams.ssl.*`."""
        if first_listener(self.get(LISTENERS)).scheme != "https":
            return None
        found = {name: value for name, value in self.properties.items() if name.startswith("ssl.")}
        value = found.pop("ssl.client.authentication", "") or found.get("ssl.client.auth", "")
        found["ssl.client.auth"] = _CLIENT_AUTH.get(value.strip().lower(), value)
        return found


def check_spark(settings: KsqlConfig) -> None:
    """Fail before anything starts if the queries can't run on this Spark."""
    remote = settings.get(SPARK_REMOTE)
    if remote:
        raise SqlError(
            f"SQL does not run on a Spark Connect server ({remote}): rows of push queries and"
            " updates of tables go through the Spark driver, which runs in the Connect server"
            " then, and queries end when their session is idle.",
            remedy="Use --master spark://host:7077: executors in a cluster, the driver here.",
        )


def check_no_worker(settings: KsqlConfig) -> None:
    """The server in a shell's process ends with the shell, but connectors should keep running."""
    if settings.get(CONNECT_WORKER):
        raise SqlError(
            f"{CONNECT_WORKER}: a shell does not start a Connect worker.",
            remedy="`ottla sql-server` does. Or start one with `ottla connect worker`, and set"
            f" {CONNECT_URL}.",
        )


def listener(settings: KsqlConfig) -> tuple[str, int]:
    """Host and port of the first listener: `http://0.0.0.0:8088`."""
    parts = first_listener(settings.get(LISTENERS))
    if parts.scheme not in ("http", "https"):
        raise SqlError(
            f"listeners={parts.geturl()}: only http and https are supported.",
            remedy="listeners=http://127.0.0.1:8088, for example.",
        )
    return parts.hostname or "127.0.0.1", DEFAULT_PORT if parts.port is None else parts.port


def _plain_security(name: str) -> str:
    """The name without the prefix of Kafka Streams or of one of its clients."""
    return _PREFIXES.sub("", name)


def _streams_last(item: tuple[str, str]) -> bool:
    """Sort key: a setting for the clients overrides one for clients and listener."""
    return item[0].startswith(STREAMS_PREFIX)


def plain_name(name: str) -> str:
    """`ksql.streams.auto.offset.reset` is `auto.offset.reset`."""
    return name.removeprefix(STREAMS_PREFIX) if name != STATE_DIR else name


def is_editable(name: str) -> bool:
    known = PROPERTIES.get(plain_name(name))
    return known.editable if known else _is_of_clients(name)


def _is_of_clients(name: str) -> bool:
    """True for properties of Kafka Streams, consumers and producers; as in ksqlDB they are
    accepted.

    Security settings are the operator's alone: a statement that could override them would make the
    server read files and connect to hosts for its sender (CVE-2023-25194).
    """
    plain = plain_name(name)
    if _plain_security(name).startswith((*CLIENT_NAMES[:3], BOOTSTRAP_SERVERS)):
        return False
    return (
        name.startswith(STREAMS_PREFIX)
        or plain.startswith(("consumer.", "producer.", "main.consumer.", "topic."))
        or plain in _STREAMS
    )


_STREAMS: Final = frozenset(
    {
        *CACHE_BYTES,
        "commit.interval.ms",
        "max.task.idle.ms",
        "num.standby.replicas",
        "num.stream.threads",
        "processing.guarantee",
        "replication.factor",
        "enable.auto.commit",
        "max.poll.records",
        "fetch.min.bytes",
        "default.deserialization.exception.handler",
        "default.timestamp.extractor",
    }
)


def check_property(name: str, value: str | None = None) -> str:
    """The canonical name; SqlError if the property is unknown or can't be overridden."""
    plain = plain_name(name)
    known = PROPERTIES.get(plain) or PROPERTIES.get(name)
    if known is None and not _is_of_clients(name):
        raise SqlError(
            f"Not recognizable as ksql, streams, consumer, or producer property: '{name}'",
            remedy=did_you_mean(plain, PROPERTIES, "property", "SHOW PROPERTIES;"),
        )
    if known is not None and not known.editable:
        raise SqlError(
            f"Cannot override property '{name}'",
            remedy="Set it in the server's properties file.",
        )
    if known is not None and value is not None:
        try:
            known.check(value)
        except SqlError as error:
            raise SqlError(f"{name}: {error.message}", remedy=error.remedy) from None
    if plain in CACHE_BYTES and value is not None and cache_bytes(value) is None:
        raise SqlError(
            f"{name}: Invalid value {value}: Not a number of type LONG of at least 0",
            remedy="Give a number of bytes; 0 emits every update.",
        )
    return plain


def checked(properties: Mapping[str, object]) -> dict[str, str]:
    """The validated properties of a request, by canonical name."""
    return {check_property(name, _text(value)): _text(value) for name, value in properties.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
