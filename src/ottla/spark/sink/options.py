"""The options of `format("ottla")` for writing: those of Spark's own Kafka sink, and ours.

    kafka.bootstrap.servers   where; any other setting of a producer is kafka.<name>
    topic                     of all records; without it the column `topic` says it for each
    ottla.delivery            exactly_once (the default in streaming queries) or at_least_once
    ottla.sink.name           tells apart several writes of one foreachBatch
    ottla.query.id, ottla.batch.id   where Spark does not tell a task (foreachBatch over Connect)
    ottla.run.id              a streaming query that is `ottla.query.id` whatever its checkpoint:
                              its first batch counts as `ottla.batch.id`, and only this run, which
                              has taken over before (`Decisions.take_over`), may write
    ottla.batch.first         a streaming query that is `ottla.query.id` whatever its checkpoint:
                              its first batch counts as this; runs take over when they write
    ottla.topic.last          at_least_once: records of this topic are written after all others
    ottla.layout              rows are encoded by this layout (JSON)
    ottla.registry.<name>     settings of the client of the schema registry that layouts need
    ottla.layouts             a list of {"column", "topic", "layout"}: each column is a struct,
                              and a record of its topic where it is not null
    ottla.packed              true: the column `rows` has many rows in each cell (Arrow's stream)

Names are not case-sensitive.
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
TRANSACTION_TIMEOUT_MS: Final = 900_000  # the most that a broker allows by default
REFUSED: Final = {
    "key.serializer": "keys are strings or binary: convert the column 'key' in the query",
    "value.serializer": "values are strings or binary: convert the column 'value' in the query",
    "transactional.id": "the sink has transactional ids of its own: set ottla.sink.name instead",
}
# Settings of a producer that mean nothing here: Spark's batches are sent as they come.
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
    """An option, a column or a row that can't be written; the sentence says what to do."""


@dataclass(frozen=True, slots=True)
class Output:
    """One column of `ottla.layouts`."""

    column: str
    topic: str
    layout: str


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Plain data, which travels to wherever the work is done."""

    servers: str
    settings: Mapping[str, Setting] = field(repr=False)  # it may hold passwords
    topic: str = ""
    delivery: Delivery | None = None
    """None: as is usual where it runs."""
    name: str = ""
    query: str = ""
    batch: int | None = None
    run: str = ""
    first: int | None = None
    topic_last: str = ""
    layout: str = ""
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)  # with passwords
    outputs: tuple[Output, ...] = ()
    packed: bool = False
    acks: int = -1
    idempotent: bool = True
    compression: int = 0
    batch_bytes: int = BATCH_BYTES
    request_s: float = REQUEST_TIMEOUT_MS / 1000
    patience_s: float = DELIVERY_TIMEOUT_MS / 1000
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Read and check; SinkError says which option is wrong, and how it would be right."""
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
    numbers = [each for each in ("ottla.batch.id", "ottla.batch.first") if each in options]
    if len(numbers) != ("ottla.query.id" in options):
        raise SinkError(
            "ottla.query.id and ottla.batch.id (or ottla.batch.first) belong together: give both or"
            " neither"
        )
    if "ottla.run.id" in options and "ottla.batch.id" not in options:
        raise SinkError("ottla.run.id needs ottla.query.id and ottla.batch.id: give all three")


def _connection(kafka: Mapping[str, str]) -> dict[str, Setting]:
    """What is about reaching the brokers, by the names that our lines know."""
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
        f"ottla.delivery is exactly_once or at_least_once, not {word!r}: Spark runs a batch again"
        " that failed, so at_most_once can't be promised"
    )


def _name(text: str) -> str:
    if text and not _NAME.fullmatch(text):
        raise SinkError(f"{text!r} is no name: letters, digits, '.', '_' and '-', at most 100")
    return text


def _outputs(text: str) -> tuple[Output, ...]:
    if not text:
        return ()
    try:
        return tuple(
            Output(
                each["column"],
                each["topic"],
                each["layout"] if isinstance(each["layout"], str) else json.dumps(each["layout"]),
            )
            for each in json.loads(text)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SinkError(
            f'ottla.layouts is a JSON list of {{"column", "topic", "layout"}}: {error!r}'
        ) from None


def _one_of(name: str, value: str, words: Mapping[str, int]) -> int:
    if value.lower() not in words:
        raise SinkError(f"{name} is one of {', '.join(words)}, not {value!r}")
    return words[value.lower()]


def _number(values: Mapping[str, str], name: str, default: int = 0) -> int:
    text = values.get(name, str(default))
    if not text.isdigit():
        raise SinkError(f"{name} is a number, not {text!r}")
    return int(text)
