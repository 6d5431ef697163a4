"""The options of `format("ottla")` for writing: those of Spark's Kafka sink, and Ottla's own.

    kafka.bootstrap.servers   the cluster; kafka.<name> is any other producer setting
    topic                     of all records; without it, the column `topic` of each row
    ottla.delivery            exactly_once (the default in streaming queries) or at_least_once
    ottla.sink.name           distinguishes several writes of one foreachBatch
    ottla.query.id, ottla.batch.id   where Spark passes neither to a task (foreachBatch, Connect)
    ottla.run.id              a streaming query with the fixed name `ottla.query.id`, whatever its
                              checkpoint: its first batch has the number `ottla.batch.id`, and only
                              this run, which took over before (`take_over`), may write
    ottla.batch.first         a streaming query with the fixed name `ottla.query.id`: its first
                              batch has this number; runs take over when they write
    ottla.topic.last          at_least_once: records of this topic are written after all others
    ottla.layout              encode rows by this layout (JSON)
    ottla.registry.<name>     settings of the schema registry client for layouts
    ottla.layouts             a list of {"column", "topic", "layout"}: each struct column is a
                              record of its topic where it is not null
    ottla.packed              true: each cell of the column `rows` has many rows (Arrow stream)

Names are case-insensitive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client.delivery import Delivery, Setting
from ottla.records.compression import CODEC_NAMES
from ottla.spark.options import REGISTRY, registry_settings

KAFKA: Final = "kafka."
OURS: Final = "ottla."
SERVERS: Final = "bootstrap.servers"
KNOWN: Final = frozenset(
    {
        "ottla.delivery",
        "ottla.sink.name",
        "ottla.query.id",
        "ottla.batch.first",
        "ottla.batch.id",
        "ottla.run.id",
        "ottla.topic.last",
        "ottla.layout",
        "ottla.layouts",
        "ottla.packed",
    }
)
CODECS: Final = {name: number for number, name in enumerate(CODEC_NAMES)}
ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}
BATCH_BYTES: Final = 512 * 1024
BATCH_BYTES_MIN: Final = 16 * 1024  # Java's default: less would only cost time
DELIVERY_TIMEOUT_MS: Final = 120_000
REQUEST_TIMEOUT_MS: Final = 30_000
TRANSACTION_TIMEOUT_MS: Final = 900_000  # the broker's default transaction.max.timeout.ms
REFUSED: Final = {
    "key.serializer": "keys are strings or binary: convert the column 'key' in the query",
    "value.serializer": "values are strings or binary: convert the column 'value' in the query",
    "transactional.id": "the sink chooses its transactional ids: set ottla.sink.name instead",
}
# Producer settings that connections do not take.
PRODUCER_ONLY: Final = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.type",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "partitioner.class",
        "partitioner.ignore.keys",
        "request.timeout.ms",
        "retries",
        "retry.backoff.ms",
        "transaction.timeout.ms",
    }
)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


class SinkError(Exception):
    """An invalid option, column or row; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class SinkOutput:
    """One column of `ottla.layouts`."""

    column: str
    topic: str
    layout: str


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Plain data, which is pickled for the workers."""

    servers: str
    settings: Mapping[str, Setting] = field(repr=False)  # it may hold passwords
    topic: str = ""
    delivery: Delivery | None = None
    """None: the default of the kind of query."""
    name: str = ""
    query: str = ""
    batch: int | None = None
    run: str = ""
    first: int | None = None
    topic_last: str = ""
    layout: str = ""
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)  # with passwords
    outputs: tuple[SinkOutput, ...] = ()
    packed: bool = False
    acks: int = -1
    idempotent: bool = True
    compression: int = 0
    batch_bytes: int = BATCH_BYTES
    request_s: float = REQUEST_TIMEOUT_MS / 1000
    patience_s: float = DELIVERY_TIMEOUT_MS / 1000
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Reads and checks the options; SinkError names the wrong one and the remedy."""
    options = {name.lower(): value for name, value in given.items()}
    kafka = {
        name.removeprefix(KAFKA): value for name, value in options.items() if name.startswith(KAFKA)
    }
    _refuse(options, kafka)
    if not kafka.get(SERVERS):
        raise SinkError(
            "Option 'kafka.bootstrap.servers' must be specified for configuring the sink:"
            " .option('kafka.bootstrap.servers', 'host:port')"
        )
    delivery = _delivery(options.get("ottla.delivery"))
    acks = _one_of("kafka.acks", kafka.get("acks", "all"), ACKS)
    if delivery is Delivery.EXACTLY_ONCE and acks != ACKS["all"]:
        raise SinkError("exactly_once needs kafka.acks=all: leave kafka.acks out")
    idempotent = kafka.get("enable.idempotence", "true").lower() != "false"
    return WriteOptions(
        servers=kafka[SERVERS],
        settings=_connection(kafka),
        topic=options.get("topic", ""),
        delivery=delivery,
        name=_name(options.get("ottla.sink.name", "")),
        query=_name(options.get("ottla.query.id", "")),
        batch=_number(options, "ottla.batch.id") if "ottla.batch.id" in options else None,
        run=_name(options.get("ottla.run.id", "")),
        first=_number(options, "ottla.batch.first") if "ottla.batch.first" in options else None,
        topic_last=options.get("ottla.topic.last", ""),
        layout=options.get("ottla.layout", ""),
        registry=registry_settings(options),
        outputs=_outputs(options.get("ottla.layouts", "")),
        packed=options.get("ottla.packed", "").lower() == "true",
        acks=acks,
        idempotent=idempotent and acks == ACKS["all"],
        compression=_one_of(
            "kafka.compression.type", kafka.get("compression.type", "none"), CODECS
        ),
        batch_bytes=max(BATCH_BYTES_MIN, _number(kafka, "batch.size", BATCH_BYTES)),
        request_s=_number(kafka, "request.timeout.ms", REQUEST_TIMEOUT_MS) / 1000,
        patience_s=_number(kafka, "delivery.timeout.ms", DELIVERY_TIMEOUT_MS) / 1000,
        transaction_timeout_ms=_number(kafka, "transaction.timeout.ms", TRANSACTION_TIMEOUT_MS),
    )


def _refuse(options: Mapping[str, str], kafka: Mapping[str, str]) -> None:
    for name, remedy in REFUSED.items():
        if name in kafka:
            raise SinkError(f"Kafka option '{name}' is not supported: {remedy}")
    for name in options:
        if name.startswith(OURS) and name not in KNOWN and not name.startswith(REGISTRY):
            raise SinkError(f"there is no option {name}: the sink knows {', '.join(sorted(KNOWN))}")
    if "ottla.layout" in options and "ottla.layouts" in options:
        raise SinkError(
            "ottla.layout is for one topic, ottla.layouts for several: give one of them"
        )
    if "ottla.layout" in options and not options.get("topic"):
        raise SinkError("ottla.layout needs the option topic: .option('topic', 'name')")
    numbers = [name for name in ("ottla.batch.id", "ottla.batch.first") if name in options]
    if len(numbers) != ("ottla.query.id" in options):
        raise SinkError(
            "ottla.query.id and ottla.batch.id (or ottla.batch.first) belong together: give both or"
            " neither"
        )
    if "ottla.run.id" in options and "ottla.batch.id" not in options:
        raise SinkError("ottla.run.id needs ottla.query.id and ottla.batch.id: give all three")


def _connection(kafka: Mapping[str, str]) -> dict[str, Setting]:
    """The settings for connections to brokers, by the client's names."""
    return {
        name: value
        for name, value in kafka.items()
        if name != SERVERS and name not in PRODUCER_ONLY
    }


def _delivery(word: str | None) -> Delivery | None:
    if word is None:
        return None
    if word.lower() in (Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE):
        return Delivery(word.lower())
    raise SinkError(
        f"ottla.delivery must be exactly_once or at_least_once, not {word!r}: Spark reruns failed"
        " batches, so at_most_once is not possible"
    )


def _name(text: str) -> str:
    if text and not _NAME.fullmatch(text):
        raise SinkError(
            f"{text!r} is not a valid name: letters, digits, '.', '_', '-', at most 100"
        )
    return text


def _outputs(text: str) -> tuple[SinkOutput, ...]:
    if not text:
        return ()
    try:
        return tuple(
            SinkOutput(
                output["column"],
                output["topic"],
                output["layout"]
                if isinstance(output["layout"], str)
                else json.dumps(output["layout"]),
            )
            for output in json.loads(text)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SinkError(
            f'ottla.layouts is a JSON list of {{"column", "topic", "layout"}}: {error!r}'
        ) from None


def _one_of(name: str, value: str, words: Mapping[str, int]) -> int:
    if value.lower() not in words:
        raise SinkError(f"{name} must be one of {', '.join(words)}, not {value!r}")
    return words[value.lower()]


def _number(values: Mapping[str, str], name: str, default: int = 0) -> int:
    text = values.get(name, str(default))
    if not text.isdigit():
        raise SinkError(f"{name} must be a number, not {text!r}")
    return int(text)
