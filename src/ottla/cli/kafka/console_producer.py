"""kafka-console-producer: a record for each line of standard input."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Final

from ottla.cli.extras import require_extra
from ottla.cli.kafka.exceptions import describe
from ottla.cli.kafka.line_reader import InputLine, LineReader
from ottla.cli.kafka.options import BOOTSTRAP, Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, log_error, read_properties, run
from ottla.client.delivery import Setting
from ottla.client.producer import FutureRecordMetadata, Producer
from ottla.errors import KafkaError

NAME: Final = "kafka-console-producer"
DESCRIPTION: Final = "This tool reads lines from standard input and sends each as a record."
CONFLUENT: Final = "io.confluent.kafka.formatter."  # Confluent's tools, which have --property
LINE_READER: Final = "org.apache.kafka.tools.LineMessageReader"
SENDING_MAX: Final = 10_000
INTERRUPTED_S_MAX: Final = 2.0  # how long Ctrl-C waits for records in flight
READER_HELP: Final = """How lines are read; repeatable. There are:
 parse.key=false
 parse.headers=false
 ignore.error=false
 key.separator=\\t
 headers.delimiter=\\t
 headers.separator=,
 headers.key.separator=:
 null.marker= (a key, value or header that equals it is null)
With headers and key a line is "h1:v1,h2:v2<TAB>key<TAB>value"."""

OPTIONS: Final = (
    BOOTSTRAP,
    Option("topic", "REQUIRED: The topic to send to.", "topic"),
    Option("reader-property", READER_HELP, "key=value"),
    Option("property", "The old name of --reader-property.", "key=value"),
    Option("reader-config", "A file of reader properties.", "file"),
    Option("command-property", "A setting of the producer; repeatable.", "key=value"),
    Option("producer-property", "The old name of --command-property.", "key=value"),
    Option("command-config", "A file of producer settings.", "file"),
    Option("producer.config", "The old name of --command-config.", "file"),
    Option("sync", "Wait for each record before the next line is read."),
    Option(
        "compression-codec",
        "none, gzip, snappy, lz4 or zstd; gzip if no codec is named.",
        "codec",
        optional=True,
    ),
    Option("request-required-acks", "0, 1 or all.", "acks", default="-1"),
    Option("request-timeout-ms", "The broker's time limit.", "ms", default="1500"),
    Option("message-send-max-retries", "The number of retries.", "count", default="3"),
    Option("retry-backoff-ms", "The pause before a retry.", "ms", default="100"),
    Option("timeout", "How long records wait to be batched.", "ms", default="1000"),
    Option("batch-size", "The maximum size of a batch.", "bytes", default="16384"),
    Option("max-partition-memory-bytes", "The old name of --batch-size.", "bytes"),
    Option("max-memory-bytes", "The maximum size of the queue.", "bytes", default="33554432"),
    Option("max-block-ms", "How long a full queue may block.", "ms", default="60000"),
    Option("metadata-expiry-ms", "The maximum age of metadata.", "ms", default="300000"),
    Option("socket-buffer-size", "The size of the TCP send buffer.", "bytes", default="102400"),
    Option("line-reader", "The class that reads lines.", "class", default=LINE_READER),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    if not options.has("topic"):
        raise UsageError('Missing required argument "[topic]"')
    bootstrap = options.value("bootstrap-server")
    if bootstrap is None:
        raise UsageError('Missing required argument "[bootstrap-server]"')
    topic = options.require("topic")
    reader = line_reader(options.require("line-reader"), reader_properties(options), topic)
    block_s = (options.integer("max-block-ms") or 0) / 1000
    settings = producer_settings(options)
    with (
        closing(reader),
        Producer(bootstrap, settings=settings, block_s_max=block_s) as producer,
    ):
        sendings = InFlightRecords(topic)
        try:
            for line in reader.lines(sys.stdin.buffer):
                if not sendings.is_reachable(producer, block_s):
                    continue
                sending = producer.send(topic, line.value, key=line.key, headers=line.headers)
                sendings.add(sending, line)
                if options.has("sync"):
                    sendings.settle()
        except KeyboardInterrupt:
            sendings.settle(time.monotonic() + INTERRUPTED_S_MAX)
            with suppress(KafkaError):  # each record's failure has been printed
                producer.close(0)
        sendings.settle()
    return 0


class InFlightRecords:
    """Records in flight. If one fails, its error is printed and the others go on, as in Kafka."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._waiting: list[tuple[FutureRecordMetadata, InputLine]] = []
        self._reached = False

    def is_reachable(self, producer: Producer, timeout_s: float) -> bool:
        """Called before the first record: as in Kafka, the line is lost after `max-block-ms`."""
        if not self._reached:
            self._reached = producer.reach(timeout_s)
            if not self._reached:
                waited_ms = int(timeout_s * 1000)
                log_error(
                    NAME,
                    f"Error when sending message to topic {self._topic}: no metadata of it in"
                    f" {waited_ms} ms",
                )
        return self._reached

    def add(self, sending: FutureRecordMetadata, line: InputLine) -> None:
        if len(self._waiting) >= SENDING_MAX:
            self.settle()
        self._waiting.append((sending, line))

    def settle(self, deadline: float | None = None) -> None:
        for sending, line in self._waiting:
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                sending.result(left_s)
            except TimeoutError as error:
                log_error(NAME, f"Error when sending message to topic {self._topic}: {error}")
            except KafkaError as error:
                key = "null" if line.key is None else f"{len(line.key)} bytes"
                value = "null" if line.value is None else f"{len(line.value)} bytes"
                log_error(
                    NAME,
                    f"Error when sending message to topic {self._topic} with key: {key}, value:"
                    f" {value} with error: {describe(error)}",
                )
        self._waiting.clear()


def line_reader(name: str, properties: dict[str, str], topic: str) -> LineReader:
    if name == LINE_READER:
        return LineReader(properties)
    if not name.startswith(CONFLUENT):
        raise ToolError(f"unknown line reader {name}; there is {LINE_READER}, and Confluent's")
    require_extra(name, "registry")
    from ottla.cli.kafka.schema_line_reader import READERS, SchemaLineReader

    if name not in READERS:
        known = ", ".join((LINE_READER, *READERS))
        raise ToolError(f"unknown line reader {name}; choose from {known}")
    return SchemaLineReader(properties, topic, READERS[name])


def reader_properties(options: Options) -> dict[str, str]:
    if not options.require("line-reader").startswith(CONFLUENT):
        together(options, "reader-property", "property")
    given = {**options.properties("property"), **options.properties("reader-property")}
    return {**read_properties(options.value("reader-config")), **given}


def producer_settings(options: Options) -> dict[str, Setting]:
    """The file, then the options, then --command-property: later ones win."""
    together(options, "command-property", "producer-property")
    together(options, "command-config", "producer.config")
    path = options.value("command-config") or options.value("producer.config")
    settings: dict[str, Setting] = {
        "client.id": NAME.removeprefix("kafka-"),
        "linger.ms": options.require("timeout"),
        "batch.size": options.value("max-partition-memory-bytes") or options.require("batch-size"),
        "socket.send.buffer.bytes": options.require("socket-buffer-size"),
        "metadata.max.age.ms": options.require("metadata-expiry-ms"),
        "retry.backoff.ms": options.require("retry-backoff-ms"),
        "queue.buffering.max.kbytes": (options.integer("max-memory-bytes") or 1024) // 1024,
        **read_properties(path),
    }
    for option, name in _SETTINGS.items():
        if options.has(option):
            settings[name] = options.require(option)
    if options.has("compression-codec"):
        settings["compression.type"] = options.value("compression-codec") or "gzip"
    settings.update(options.properties("producer-property"))
    settings.update(options.properties("command-property"))
    _check(settings, "acks", ("all", "-1", "0", "1"))
    _check(settings, "compression.type", ("none", "gzip", "snappy", "lz4", "zstd"))
    if str(settings.get("acks", "all")) not in ("all", "-1"):
        settings.setdefault("enable.idempotence", False)
    return settings


# As options these win over the file; otherwise librdkafka's defaults, which suit idempotence.
_SETTINGS: Final = {
    "request-required-acks": "acks",
    "request-timeout-ms": "request.timeout.ms",
    "message-send-max-retries": "retries",
}


def together(options: Options, new: str, old: str) -> None:
    """An option and its old name exclude each other; the old one alone causes a warning."""
    if options.has(new) and options.has(old):
        raise UsageError(f"Options --{new} and --{old} cannot be specified together.")
    if options.has(old):
        print(
            f"Option --{old} is deprecated and will be removed in a future version."
            f" Use --{new} instead."
        )


def _check(settings: dict[str, Setting], name: str, words: tuple[str, ...]) -> None:
    if name in settings and settings[name] not in words:
        raise ToolError(
            f"Invalid value {settings[name]} for configuration {name}: String must be one of:"
            f" {', '.join(words)}"
        )


if __name__ == "__main__":
    sys.exit(main())
