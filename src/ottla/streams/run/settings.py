"""The configuration of an application, by Kafka Streams' names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.client.security import is_security
from ottla.client.serdes.serde_settings import is_serde_setting, serde_settings
from ottla.engine.failures import (
    ExceptionHandler,
    FailureKind,
    dead_letters,
    fail,
    log_and_continue,
)
from ottla.engine.task_plan import MEMORY_BYTES_MAX
from ottla.queries.application_settings import BATCH_RECORDS_MAX, ApplicationSettings
from ottla.spelling import did_you_mean

EXACTLY_ONCE: Final = "exactly_once_v2"
AT_LEAST_ONCE: Final = "at_least_once"
HANDLERS: Final = {
    "fail": fail,
    "continue": log_and_continue,
    "logandfailexceptionhandler": fail,
    "logandcontinueexceptionhandler": log_and_continue,
    "logandfailprocessingexceptionhandler": fail,
    "logandcontinueprocessingexceptionhandler": log_and_continue,
    "defaultproductionexceptionhandler": fail,
}
KINDS: Final = {
    # Kafka's deprecated names come first, so that the current ones win.
    "default.deserialization.exception.handler": FailureKind.DESERIALIZATION,
    "default.production.exception.handler": FailureKind.PRODUCTION,
    "deserialization.exception.handler": FailureKind.DESERIALIZATION,
    "processing.exception.handler": FailureKind.PROCESSING,
    "production.exception.handler": FailureKind.PRODUCTION,
}
SPARK: Final = "spark."
CLIENTS: Final = re.compile(r"((main|restore|global)\.)?(producer|consumer|admin)\.")
DEAD_LETTERS: Final = "errors.dead.letter.queue.topic.name"
KNOWN: Final = (
    *KINDS,
    DEAD_LETTERS,
    "application.id",
    "auto.offset.reset",
    "bootstrap.servers",
    "cache.max.bytes.buffering",
    "commit.interval.ms",
    "max.poll.records",
    "processing.guarantee",
    "replication.factor",
    "state.dir",
    "statestore.cache.max.bytes",
    "statestore.local.dir",
    "statestore.memory.max.bytes",
)
# Settings of Kafka Streams for what Spark does here, or what does not exist here.
ELSEWHERE: Final = frozenset(
    {
        "application.server",
        "client.id",
        "default.key.serde",
        "default.value.serde",
        "max.task.idle.ms",
        "max.warmup.replicas",
        "metrics.recording.level",
        "num.standby.replicas",
        "num.stream.threads",
        "poll.ms",
        "probing.rebalance.interval.ms",
        "repartition.purge.interval.ms",
        "state.cleanup.delay.ms",
        "topology.optimization",
        "upgrade.from",
    }
)


class StreamsConfigError(ValueError):
    """An invalid setting; the message names it and its valid values."""


def settings_of(config: Mapping[str, Any]) -> ApplicationSettings:
    """Reads Kafka's names; client settings apply to producers and consumers alike."""
    spark = {name: str(value) for name, value in config.items() if name.startswith(SPARK)}
    client = {
        _of_clients(name): value
        for name, value in sorted(config.items(), key=lambda item: _of_clients(item[0]) != item[0])
        if name not in KNOWN
        and name not in ELSEWHERE
        and name not in spark
        and not is_serde_setting(name)
    }
    _check_names(client)
    replicas = int(config.get("replication.factor", -1))
    cache = config.get("statestore.cache.max.bytes", config.get("cache.max.bytes.buffering", 1))
    memory = _number(config, "statestore.memory.max.bytes")
    return ApplicationSettings(
        earliest=_one_of(config, "auto.offset.reset", ("earliest", "latest")) == "earliest",
        exactly_once=_one_of(config, "processing.guarantee", (EXACTLY_ONCE, AT_LEAST_ONCE))
        == EXACTLY_ONCE,
        caching=int(cache) > 0,
        memory_bytes_max=MEMORY_BYTES_MAX if memory is None else memory,
        local_folder=str(config.get("statestore.local.dir", "")),
        state_folder=str(config.get("state.dir", "")),
        interval_ms=_number(config, "commit.interval.ms"),
        batch_records_max=_number(config, "max.poll.records") or BATCH_RECORDS_MAX,
        replicas=replicas if replicas > 0 else None,
        on_failure=_handlers(config),
        client=client,
        spark=spark,
        serdes=serde_settings(config),
    )


def _of_clients(name: str) -> str:
    """`producer.sasl.mechanism` -> `sasl.mechanism`: all connections share the security settings. A
    prefixed setting wins."""
    plain = CLIENTS.sub("", name)
    return plain if is_security(plain) else name


def _check_names(client: Mapping[str, Any]) -> None:
    """Raises StreamsConfigError for a likely misspelling of a Streams setting."""
    for name in client:
        hint = did_you_mean(name, KNOWN, alike=0.88)
        if hint:
            raise StreamsConfigError(f"there is no setting {name}{hint}")


def _handlers(config: Mapping[str, Any]) -> dict[FailureKind, ExceptionHandler]:
    """With a dead letter queue, records that a handler would log and skip also go there."""
    found = {kind: _handler(config, name) for name, kind in KINDS.items() if name in config}
    topic = config.get(DEAD_LETTERS)
    if topic:
        letters = dead_letters(str(topic))
        found = {
            kind: letters if handler is log_and_continue else handler
            for kind, handler in found.items()
        }
    return {kind: handler for kind, handler in found.items() if handler is not fail}


def _handler(config: Mapping[str, Any], name: str) -> ExceptionHandler:
    wanted = config[name]
    if callable(wanted):
        handler: ExceptionHandler = wanted
        return handler
    word = str(wanted).rpartition(".")[2].lower()
    if word not in HANDLERS:
        raise StreamsConfigError(f"{name} must be a function, 'fail' or 'continue', not {wanted!r}")
    return HANDLERS[word]


def _one_of(config: Mapping[str, Any], name: str, words: tuple[str, ...]) -> str:
    word = str(config.get(name, words[0])).lower()
    if word not in words:
        raise StreamsConfigError(f"{name} must be one of {', '.join(words)}, not {word!r}")
    return word


def _number(config: Mapping[str, Any], name: str) -> int | None:
    if name not in config:
        return None
    text = str(config[name])
    if not text.isdigit():
        raise StreamsConfigError(f"{name} must be a number, not {text!r}")
    return int(text)
