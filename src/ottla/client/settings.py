"""Translates settings with the names of Kafka's own clients for librdkafka.

Most names are the same. Some differ, some have no meaning without a JVM. librdkafka refuses unknown
settings where Kafka warns: `client_with` drops them with a warning.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import confluent_kafka

from ottla.client.bootstrap_servers import parse_bootstrap_servers
from ottla.client.delivery import Setting
from ottla.client.kafka_errors import kafka_error_of
from ottla.client.security import for_librdkafka, is_security, login_of, refused_login
from ottla.client.serdes.serde_settings import is_serde_setting
from ottla.client.setting_names import KAFKA_SETTINGS
from ottla.errors import ErrorCode, KafkaError
from ottla.spelling import did_you_mean

log = logging.getLogger("ottla.client")

LOG_LEVEL: Final = (
    0  # librdkafka would write to stderr by itself; its errors come to `ConnectionErrors`
)

REPEAT_S: Final = 30.0
RECENT_S: Final = 60.0  # how long an error may explain a later timeout
TRIED_AGAIN: Final = "; is the broker running there? It is tried again."
TROUBLES_MAX: Final = 100
BOOTSTRAP: Final = "bootstrap"  # librdkafka's node id of a bootstrap server

_Client = TypeVar("_Client")

_RENAMED: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms",
}

# librdkafka names these in its errors whatever the caller has set.
_OWN_NAMES: Final = {
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "compression.codec": "compression.type",
    "metadata.broker.list": "bootstrap.servers",
}

_WITHOUT_MEANING: Final = frozenset(
    (
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "max.block.ms",
        "buffer.memory",
        "default.api.timeout.ms",
        "max.poll.records",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "interceptor.classes",
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "exclude.internal.topics",
        "enable.metrics.push",
        "partitioner.ignore.keys",
        "partitioner.adaptive.partitioning.enable",
        "throw.on.fetch.stable.offset.unsupported",
    )
)

_ASSIGNORS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}

WITHOUT_KERBEROS: Final = (
    "this librdkafka was built without Kerberos, as the wheels of confluent-kafka are: producers,"
    " consumers and admin commands for topics, users and offsets need a confluent-kafka that was"
    " built from source; what does not use librdkafka logs in by GSSAPI"
)

_UNKNOWN: Final = re.compile(r'No such configuration property: "([^"]+)"')
_NAMED: Final = re.compile(r'(?<=onfiguration property ")[^"]+')


def librdkafka_settings(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Java's settings as librdkafka's. librdkafka's own names pass unchanged."""
    translated: dict[str, Any] = {}
    for name, value in settings.items():
        if name in _WITHOUT_MEANING or is_security(name) or is_serde_setting(name):
            continue
        if name == "partition.assignment.strategy":
            translated[name] = ",".join(_assignor(assignor) for assignor in str(value).split(","))
        elif name == "max.request.size":
            translated["message.max.bytes"] = value
        else:
            translated[_RENAMED.get(name, name)] = value
    return translated | for_librdkafka(settings)


def _assignor(name: str) -> str:
    """`org.apache.kafka.clients.consumer.RangeAssignor` is `range`."""
    last = name.strip().rpartition(".")[2]
    return _ASSIGNORS.get(last, last)


def client_with(make: Callable[[dict[str, Any]], _Client], settings: Mapping[str, Any]) -> _Client:
    """`make(settings)`, without the settings that librdkafka does not know."""
    remaining = dict(settings)
    if "bootstrap.servers" in remaining:  # checked, because librdkafka adds port 9092 silently
        parse_bootstrap_servers(str(remaining["bootstrap.servers"]))
    if "oauth_cb" in remaining:
        # librdkafka waits ten seconds for the first token, and then does not say why there is none.
        remaining["oauth_cb"]("")
    while True:
        try:
            return make(remaining)
        except confluent_kafka.KafkaException as error:
            failure = kafka_error_of(error)
            if "No provider for SASL mechanism GSSAPI" in str(failure):
                raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, WITHOUT_KERBEROS) from None
            unknown = _UNKNOWN.search(str(failure))
            if unknown is None or unknown[1] not in remaining:
                text = _NAMED.sub(lambda name: _kafkas_name(name[0], settings), str(failure))
                raise KafkaError(ErrorCode.INVALID_CONFIG, text.strip()) from None
            hint = did_you_mean(unknown[1], KAFKA_SETTINGS)
            log.warning("Ignoring unknown setting %s%s", unknown[1], hint)
            del remaining[unknown[1]]


def _kafkas_name(name: str, settings: Mapping[str, Any]) -> str:
    return name if name in settings else _OWN_NAMES.get(name, name)


_UNREACHABLE: Final = re.compile(
    r"(?:\w+://)?(\S+?)/(\w+): (?:Connect to \S+ failed: (.+)|Failed to resolve '\S+': (.+))"
)


class ConnectionErrors:
    """Connection errors, which librdkafka retries by itself: each is logged once in a while.

    A login that a broker refuses is raised to the next caller that polls or sends (`check`), as in
    Kafka's own clients. A retry may succeed, if the operator repairs something.
    """

    def __init__(self, settings: Mapping[str, Setting]) -> None:
        self._settings = settings
        self._logged_at: dict[str, float] = {}
        self._refused: KafkaError | None = None
        self._last, self._last_at = "", 0.0
        self._last_is_bootstrap = False
        self.all_down = False
        """True if no broker can be reached, as far as is known."""

    def on_error(self, error: confluent_kafka.KafkaError) -> None:
        trouble = error.str().partition(" (after ")[0]
        all_down = error.code() == confluent_kafka.KafkaError._ALL_BROKERS_DOWN
        self.all_down = self.all_down or all_down
        if all_down and self._last:
            return  # each broker has had its own warning
        unreachable = _UNREACHABLE.match(trouble)
        if unreachable is not None:
            address, why = unreachable[1], (unreachable[3] or unreachable[4]).rstrip(": ")
            trouble = f"cannot reach {address}: {why}{TRIED_AGAIN}"
        if error.code() == confluent_kafka.KafkaError._AUTHENTICATION:
            self._refused = self._in_words(trouble)
            trouble = str(self._refused)
        now = time.monotonic()
        self._last, self._last_at = trouble, now
        self._last_is_bootstrap = unreachable is not None and unreachable[2] == BOOTSTRAP
        if now - self._logged_at.get(trouble, -REPEAT_S) >= REPEAT_S:
            self._logged_at = {trouble: now, **dict(list(self._logged_at.items())[:TROUBLES_MAX])}
            self._logged_at[trouble] = now
            log.warning("%s", trouble)

    def reason(self) -> str:
        """`: cannot reach localhost:9092 ...`: the last error, as the reason of a timeout. A
        bootstrap server that is down is no reason while another one answers."""
        recent = self._last and time.monotonic() - self._last_at < RECENT_S
        if not recent or (self._last_is_bootstrap and not self.all_down):
            return ""
        return f": {self._last.removesuffix(TRIED_AGAIN)}"

    def check(self) -> None:
        """Raise a refused login, once."""
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    def _in_words(self, trouble: str) -> KafkaError:
        """`sasl_ssl://host:9093/1: SASL authentication error: ...` in our connections' words."""
        broker, _, why = trouble.partition(": SASL authentication error: ")
        address = broker.partition("://")[2].partition("/")[0]
        login = login_of(self._settings) if address and why else None
        if login is None:
            return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, trouble)
        return refused_login(login, address, why)
