"""The options of `format("ottla")` for reading: those of Spark's own Kafka source, checked.

    where    kafka.bootstrap.servers, and any other setting of a consumer as kafka.<name>
    what     one of subscribe (names), subscribePattern (a regular expression), assign (partitions)
    from     startingTimestamp, startingOffsetsByTimestamp, startingOffsets: the first that is given
    to       endingTimestamp, endingOffsetsByTimestamp, endingOffsets: batch queries only
    how much maxOffsetsPerTrigger, minOffsetsPerTrigger with maxTriggerDelay: streaming queries only
    how cut  minPartitions, maxRecordsPerPartition
    as what  ottla.layout (typed columns; ottla.registry.<name> configures the schema registry
             client of its formats), ottla.work (the output of a Python chunk processor:
             chunk_processor.py), ottla.work.ticks (which also gets wall-clock ticks),
             ottla.work.hosts (the number of host processes it calls, each for some partitions)

Names are case-insensitive. Errors are those of Spark's source, with a remedy.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client.delivery import Setting
from ottla.client.record import TopicPartition
from ottla.spark.limits import (
    EARLIEST,
    LATEST,
    OffsetRangeLimit,
    OptionError,
    limit_of,
    partitions_of,
)
from ottla.spelling import did_you_mean

log = logging.getLogger("ottla.spark")

POLL_TIMEOUT_MS: Final = 120_000
FETCH_BYTES_MAX: Final = 2 * 1024 * 1024  # fits CPU caches: a fifth less CPU than 8 MiB
MAX_TRIGGER_DELAY: Final = "15m"
UNITS_MS: Final = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
KAFKA: Final = "kafka."
REGISTRY: Final = "ottla.registry."
SERVERS: Final = "kafka.bootstrap.servers"
STRATEGIES: Final = ("assign", "subscribe", "subscribePattern")

KNOWN: Final = (
    *STRATEGIES,
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "startingOffsetsByTimestampStrategy",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "ottla.small.batches",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "ottla.layout",
    "ottla.processing.log",
    "ottla.work",
    "ottla.work.ticks",
    "ottla.work.hosts",
    "ottla.first.topics",
)

# Consumer settings that contradict what the source does itself, and what to do instead.
REFUSED: Final = {
    "auto.offset.reset": "Set the option 'startingOffsets' to 'earliest' or 'latest': Spark, and no"
    " consumer group, knows what has been read",
    "key.deserializer": "Keys are binary: use a cast or a function of Spark on the column 'key'",
    "value.deserializer": (
        "Values are binary: use a cast or a function of Spark on the column 'value'"
    ),
    "enable.auto.commit": "The source commits no offsets: the checkpoint has them",
    "interceptor.classes": "An interceptor could change records: do it in the query",
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Plain data, which is pickled for the workers."""

    servers: str
    settings: Mapping[str, Setting] = field(repr=False)  # it may hold passwords
    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()
    starting: OffsetRangeLimit = field(default_factory=lambda: OffsetRangeLimit(everywhere=LATEST))
    ending: OffsetRangeLimit = field(default_factory=lambda: OffsetRangeLimit(everywhere=LATEST))
    latest_if_no_time: bool = False
    records_max: int | None = None
    records_min: int | None = None
    delay_max_ms: int = 0
    small_batches_max: int = 1
    """How many batches below `records_min` may run in a row without delay."""
    partitions_min: int | None = None
    partition_records_max: int | None = None
    fail_on_data_loss: bool = True
    with_headers: bool = False
    read_committed: bool = False
    poll_timeout_ms: int = POLL_TIMEOUT_MS
    fetch_bytes_max: int = FETCH_BYTES_MAX
    layout: str = ""
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)  # with passwords
    processing_log: str = ""
    """The topic for records that the layout can't turn into rows."""
    work: str = ""
    ticks: bool = False
    hosts: int | None = None
    first_topics: frozenset[str] = frozenset()
    """Topics read before the others while their backlog exceeds a batch."""


def read_options(given: Mapping[str, str], *, streaming: bool | None) -> ReadOptions:
    """`streaming` is None while Spark has not said yet whether it is a batch or a stream."""
    options = {name.lower(): value for name, value in given.items()}
    _check_names(given)
    kafka = _kafka_settings(options)
    starting = limit_of(
        options, "starting", LATEST if streaming else EARLIEST, allow_latest=streaming is not False
    )
    if streaming:
        _refuse_ending(options)
    ending = limit_of(options, "ending", LATEST, allow_earliest=False)
    smallest, largest = _count(options, "minOffsetsPerTrigger"), _maximum(options, streaming)
    if smallest is not None and largest is not None and smallest > largest:
        raise OptionError(
            f"The value of minOffsetPerTrigger({smallest}) is higher than the"
            f" maxOffsetsPerTrigger({largest}). Give a smaller minOffsetsPerTrigger"
        )
    topics, pattern, partitions = _strategy(options)
    return ReadOptions(
        servers=kafka.pop("bootstrap.servers"),
        settings=kafka,
        topics=topics,
        pattern=pattern,
        partitions=partitions,
        starting=starting,
        ending=ending,
        latest_if_no_time=_without_time(options) == "latest",
        records_max=largest,
        records_min=smallest,
        delay_max_ms=_delay(options),
        small_batches_max=_count(options, "ottla.small.batches") or 1,
        partitions_min=_count(options, "minPartitions"),
        partition_records_max=_count(options, "maxRecordsPerPartition"),
        fail_on_data_loss=_truth(options, "failOnDataLoss", default=True),
        with_headers=_with_headers(options),
        read_committed=_read_committed(kafka),
        poll_timeout_ms=_count(options, "kafkaConsumer.pollTimeoutMs") or POLL_TIMEOUT_MS,
        fetch_bytes_max=_count(options, "kafka.max.partition.fetch.bytes") or FETCH_BYTES_MAX,
        layout=options.get("ottla.layout", ""),
        registry=registry_settings(options),
        processing_log=options.get("ottla.processing.log", ""),
        work=options.get("ottla.work", ""),
        ticks=_truth(options, "ottla.work.ticks", default=False),
        hosts=_count(options, "ottla.work.hosts"),
        first_topics=frozenset(filter(None, options.get("ottla.first.topics", "").split(","))),
    )


def _check_names(given: Mapping[str, str]) -> None:
    """Spark's source silently ignores unknown options; this one warns of misspellings."""
    known = {name.lower() for name in KNOWN}
    for name in given:
        lower = name.lower()
        if lower in known or lower.startswith((KAFKA, REGISTRY)):
            continue
        hint = did_you_mean(name, KNOWN)
        if lower.startswith("ottla."):
            raise OptionError(f"Option '{name}' is not known{hint or ', ottla.layout is'}")
        log.warning("Ignoring unknown option '%s'%s", name, hint)


def registry_settings(options: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(REGISTRY): value
        for name, value in options.items()
        if name.startswith(REGISTRY)
    }


def _kafka_settings(options: Mapping[str, str]) -> dict[str, str]:
    kafka = {
        name.removeprefix(KAFKA): value for name, value in options.items() if name.startswith(KAFKA)
    }
    for name, remedy in REFUSED.items():
        if name in kafka:
            raise OptionError(f"Kafka option '{name}' is not supported. {remedy}")
    if not kafka.get("bootstrap.servers", "").strip():
        raise OptionError(
            f"Option '{SERVERS}' must be specified for configuring Kafka consumer:"
            f' .option("{SERVERS}", "host:9092")'
        )
    return kafka


def _strategy(
    options: Mapping[str, str],
) -> tuple[tuple[str, ...], str, tuple[TopicPartition, ...]]:
    given = [option for option in STRATEGIES if option.lower() in options]
    listed = ", ".join(STRATEGIES)
    if not given:
        raise OptionError(
            f"One of the following options must be specified for Kafka source: {listed}"
        )
    if len(given) > 1:
        raise OptionError(
            f"Only one of the following options can be specified for Kafka source: {listed}."
            f" Leave out {' or '.join(given)}"
        )
    name = given[0]
    value = options[name.lower()].strip()
    if name == "assign":
        if not value.startswith("{"):
            raise OptionError(
                "No topicpartitions to assign as specified value for option 'assign' is"
                f" '{value}'. Give them as {{\"topic\":[0,1]}}"
            )
        return (), "", partitions_of(value)
    if name == "subscribe":
        topics = sorted({topic.strip() for topic in value.split(",")} - {""})
        if not topics:
            raise OptionError(
                "No topics to subscribe to as specified value for option 'subscribe' is"
                f" '{value}'. Give names with commas between them"
            )
        return tuple(topics), "", ()
    return (), _pattern(value), ()


def _pattern(value: str) -> str:
    if not value:
        raise OptionError(
            "Pattern to subscribe is empty as specified value for option 'subscribePattern' is"
            f" '{value}'. Give a regular expression that whole names match"
        )
    try:
        re.compile(value)
    except re.error as error:
        raise OptionError(f"subscribePattern '{value}' is not a valid pattern: {error}") from None
    return value


def _refuse_ending(options: Mapping[str, str]) -> None:
    if "endingoffsets" in options:
        raise OptionError(
            "ending offset not valid in streaming queries. Leave out endingOffsets, or read with"
            " spark.read; Trigger.AvailableNow stops at what is there now"
        )
    for name in ("endingOffsetsByTimestamp", "endingTimestamp"):
        if name.lower() in options:
            raise OptionError(
                f"ending timestamp not valid in streaming queries. Leave out {name}, or read with"
                " spark.read"
            )


def _maximum(options: Mapping[str, str], streaming: bool | None) -> int | None:
    if streaming is False and "maxoffsetspertrigger" in options:
        log.warning("maxOffsetsPerTrigger is ignored in batch queries")
    return _count(options, "maxOffsetsPerTrigger")


def _count(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name.lower())
    if value is None:
        return None
    if not value.strip().isascii() or not value.strip().isdigit() or int(value) < 1:
        raise OptionError(f"{name} must be positive, a whole number: '{value}'")
    return int(value)


def _delay(options: Mapping[str, str]) -> int:
    value = options.get("maxtriggerdelay", MAX_TRIGGER_DELAY)
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", value.lower())
    if match is None or match[2] not in UNITS_MS:
        raise OptionError(f"maxTriggerDelay '{value}' is not a duration such as '15m' or '30s'")
    return int(int(match[1]) * UNITS_MS[match[2]])


def _truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = options.get(name.lower(), str(default)).strip().lower()
    if value not in ("true", "false"):
        raise OptionError(f"{name} must be true or false, not '{value}'")
    return value == "true"


def _with_headers(options: Mapping[str, str]) -> bool:
    """A layout itself says whether it needs headers."""
    layout = options.get("ottla.layout", "")
    if not layout:
        return _truth(options, "includeHeaders", default=False)
    from ottla.rows.schema import Layout

    try:
        return Layout.from_json(layout).reads_headers
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise OptionError(f"ottla.layout is invalid ({error!r}): use Layout.to_json()") from None


def _without_time(options: Mapping[str, str]) -> str:
    value = options.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if value not in ("error", "latest"):
        raise OptionError(
            "startingOffsetsByTimestampStrategy can be either of 'error' or 'latest', not"
            f" '{value}'"
        )
    return value


def _read_committed(kafka: Mapping[str, str]) -> bool:
    level = kafka.get("isolation.level", "read_uncommitted").strip().lower()
    if level not in ("read_uncommitted", "read_committed"):
        raise OptionError(
            f"kafka.isolation.level can be read_uncommitted or read_committed, not '{level}'"
        )
    return level == "read_committed"
