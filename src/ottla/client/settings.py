"""Settings by the names that Kafka's own clients know, as librdkafka wants them.

Most names are the same. Some differ, some mean nothing without a JVM, and librdkafka refuses what
it does not know where Kafka warns: `client_with` drops such a setting with a warning.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import confluent_kafka

from ottla.client.delivery import Setting
from ottla.client.failures import failure_of
from ottla.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.client")

LOG_LEVEL: Final = (
    0  # librdkafka would write to stderr by itself; its errors come to `error_callback`
)

REPEAT_S: Final = 30.0
TROUBLES_MAX: Final = 100

_Client = TypeVar("_Client")

_RENAMED: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
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
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.trustmanager.algorithm",
        "ssl.keymanager.algorithm",
        "ssl.truststore.type",
        "ssl.keystore.type",
        "ssl.truststore.password",
        "ssl.client.auth",
    )
)

_ASSIGNORS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}

_JAAS: Final = re.compile(r"""(username|password)\s*=\s*["']?([^"';\s]+)""")
_UNKNOWN: Final = re.compile(r'No such configuration property: "([^"]+)"')


def translate(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Java's settings as librdkafka's. What librdkafka calls by its own name passes unchanged."""
    translated: dict[str, Setting] = {}
    for name, value in settings.items():
        if name in _WITHOUT_MEANING:
            continue
        if name == "partition.assignment.strategy":
            translated[name] = ",".join(_assignor(each) for each in str(value).split(","))
        elif name == "sasl.jaas.config":
            for key, secret in _JAAS.findall(str(value)):
                translated[f"sasl.{key}"] = secret
        elif name == "ssl.keystore.location" and _is_pem(settings):
            translated |= {"ssl.certificate.location": value, "ssl.key.location": value}
        elif name == "max.request.size":
            translated["message.max.bytes"] = value
        else:
            translated[_RENAMED.get(name, name)] = value
    return translated


def _is_pem(settings: Mapping[str, Setting]) -> bool:
    """KIP-651: key and certificate in one file."""
    path = str(settings["ssl.keystore.location"])
    kind = settings.get("ssl.keystore.type", "PEM" if path.endswith(".pem") else "")
    return str(kind).upper() == "PEM"


def _assignor(name: str) -> str:
    """`org.apache.kafka.clients.consumer.RangeAssignor` is `range`."""
    last = name.strip().rpartition(".")[2]
    return _ASSIGNORS.get(last, last)


def client_with(make: Callable[[dict[str, Any]], _Client], settings: Mapping[str, Any]) -> _Client:
    """`make(settings)`, without the settings that librdkafka does not know."""
    kept = dict(settings)
    while True:
        try:
            return make(kept)
        except confluent_kafka.KafkaException as error:
            failure = failure_of(error)
            unknown = _UNKNOWN.search(str(failure))
            if unknown is None or unknown[1] not in kept:
                raise KafkaError(ErrorCode.INVALID_CONFIG, str(failure)) from None
            log.warning("the setting %s is not known and not used", unknown[1])
            del kept[unknown[1]]


class _Troubles:
    """Troubles of connections, which librdkafka retries by itself: each is told of once a while."""

    def __init__(self) -> None:
        self._told_at: dict[str, float] = {}

    def tell(self, error: confluent_kafka.KafkaError) -> None:
        trouble = error.str().partition(" (after ")[0]
        now = time.monotonic()
        if now - self._told_at.get(trouble, -REPEAT_S) >= REPEAT_S:
            self._told_at = {trouble: now, **dict(list(self._told_at.items())[:TROUBLES_MAX])}
            self._told_at[trouble] = now
            log.warning("%s", trouble)


def error_callback() -> Callable[[confluent_kafka.KafkaError], None]:
    """What a client calls with the errors of its connections."""
    return _Troubles().tell
