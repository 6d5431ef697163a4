"""kafka-console-producer: a record for each line of standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from ottla.cli.kafka.exceptions import describe
from ottla.cli.kafka.options import BOOTSTRAP, Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, log_error, read_properties, run
from ottla.client.delivery import Setting
from ottla.client.producer import Producer, Sending
from ottla.errors import KafkaError

NAME: Final = "kafka-console-producer"
DESCRIPTION: Final = "This tool reads lines from standard input and sends each as a record."
LINE_READER: Final = "org.apache.kafka.tools.LineMessageReader"
SENDING_MAX: Final = 10_000
READER_HELP: Final = """How lines are read; may be given again. There are:
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
    Option("command-property", "A setting of the producer; may be given again.", "key=value"),
    Option("producer-property", "The old name of --command-property.", "key=value"),
    Option("command-config", "A file of settings of the producer.", "file"),
    Option("producer.config", "The old name of --command-config.", "file"),
    Option("sync", "Wait for each record before the next line is read."),
    Option(
        "compression-codec",
        "none, gzip, snappy, lz4 or zstd; gzip if no codec is named.",
        "codec",
        optional=True,
    ),
    Option("request-required-acks", "0, 1 or all.", "acks", default="-1"),
    Option("request-timeout-ms", "How long the broker may take.", "ms", default="1500"),
    Option("message-send-max-retries", "How often to try again.", "count", default="3"),
    Option("retry-backoff-ms", "How long to wait before that.", "ms", default="100"),
    Option("timeout", "How long records wait for others to travel with.", "ms", default="1000"),
    Option("batch-size", "How large a batch may grow.", "bytes", default="16384"),
    Option("max-partition-memory-bytes", "The old name of --batch-size.", "bytes"),
    Option("max-memory-bytes", "How much may wait to be sent.", "bytes", default="33554432"),
    Option("max-block-ms", "How long a full queue may block.", "ms", default="60000"),
    Option("metadata-expiry-ms", "How old metadata may get.", "ms", default="300000"),
    Option("socket-buffer-size", "The size of the TCP send buffer.", "bytes", default="102400"),
    Option("line-reader", "What reads lines.", "class", default=LINE_READER),
)


@dataclass(slots=True)
class Line:
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    if not options.has("topic"):
        raise UsageError('Missing required argument "[topic]"')
    bootstrap = options.value("bootstrap-server")
    if bootstrap is None:
        raise UsageError('Missing required argument "[bootstrap-server]"')
    if options.require("line-reader") != LINE_READER:
        raise ToolError(f"{options.require('line-reader')}: only {LINE_READER} is known here")
    topic = options.require("topic")
    reader = LineReader(reader_properties(options))
    block_s = (options.integer("max-block-ms") or 0) / 1000
    with Producer(bootstrap, settings=producer_settings(options), block_s_max=block_s) as producer:
        sendings = Sendings(topic)
        try:
            for line in reader.lines(sys.stdin.buffer):
                if not sendings.is_reachable(producer, block_s):
                    continue
                sending = producer.send(topic, line.value, key=line.key, headers=line.headers)
                sendings.add(sending, line)
                if options.has("sync"):
                    sendings.settle()
        except KeyboardInterrupt:
            pass
        finally:
            sendings.settle()
    return 0


class Sendings:
    """Records under way. One that fails is told of, and the others go on, as in Kafka."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._waiting: list[tuple[Sending, Line]] = []
        self._reached = False

    def is_reachable(self, producer: Producer, timeout_s: float) -> bool:
        """Before the first record: no broker in `max-block-ms` costs the line, as in Kafka."""
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

    def add(self, sending: Sending, line: Line) -> None:
        if len(self._waiting) >= SENDING_MAX:
            self.settle()
        self._waiting.append((sending, line))

    def settle(self) -> None:
        for sending, line in self._waiting:
            try:
                sending.result()
            except KafkaError as error:
                key = "null" if line.key is None else f"{len(line.key)} bytes"
                value = "null" if line.value is None else f"{len(line.value)} bytes"
                log_error(
                    NAME,
                    f"Error when sending message to topic {self._topic} with key: {key}, value:"
                    f" {value} with error: {describe(error)}",
                )
        self._waiting.clear()


class LineReader:
    """Cuts lines into headers, key and value."""

    def __init__(self, properties: dict[str, str]) -> None:
        self._parse_key = _truth(properties, "parse.key")
        self._parse_headers = _truth(properties, "parse.headers")
        self._ignore_error = _truth(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._headers_delimiter = properties.get("headers.delimiter", "\t")
        self._headers_separator = properties.get("headers.separator", ",")
        self._header_key_separator = properties.get("headers.key.separator", ":")
        self._null_marker = properties.get("null.marker")
        self._number = 0
        same = "must not be equal to each other"
        if self._parse_headers and self._headers_delimiter == self._headers_separator:
            raise ToolError(f"headers.delimiter and headers.separator {same}")
        if self._parse_headers and self._headers_separator == self._header_key_separator:
            raise ToolError(f"headers.separator and headers.key.separator {same}")

    def lines(self, source: BinaryIO) -> Iterator[Line]:
        prompt = sys.stdin.isatty() and sys.stdout.isatty()
        while True:
            if prompt:
                print(">", end="", flush=True)
            raw = source.readline()
            if not raw:
                return
            self._number += 1
            yield self.cut(raw.rstrip(b"\n").removesuffix(b"\r").decode(errors="surrogateescape"))

    def cut(self, text: str) -> Line:
        headers: list[tuple[str, bytes | None]] = []
        if self._parse_headers:
            part, text = self._split(text, self._headers_delimiter, "No header delimiter found")
            headers = self._headers(part)
        key: bytes | None = None
        if self._parse_key:
            part, text = self._split(text, self._key_separator, "No key separator found")
            key = None if part is None else self._bytes(part)
        return Line(key, self._bytes(text), headers)

    def _split(self, text: str, separator: str, complaint: str) -> tuple[str | None, str]:
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self._ignore_error:
            return None, text
        raise ToolError(
            f"org.apache.kafka.common.KafkaException: {complaint} on line number"
            f" {self._number}: '{text}'"
        )

    def _headers(self, text: str | None) -> list[tuple[str, bytes | None]]:
        if text is None or not text or text == self._null_marker:
            return []
        headers: list[tuple[str, bytes | None]] = []
        for pair in text.split(self._headers_separator):
            name, found, value = pair.partition(self._header_key_separator)
            if found:
                headers.append((name, self._bytes(value)))
            elif self._ignore_error:
                headers.append((pair, None))
            else:
                raise ToolError(
                    "org.apache.kafka.common.KafkaException: No header key separator found in"
                    f" pair '{pair}' on line number {self._number}"
                )
        return headers

    def _bytes(self, text: str) -> bytes | None:
        return None if text == self._null_marker else text.encode(errors="surrogateescape")


def reader_properties(options: Options) -> dict[str, str]:
    together(options, "reader-property", "property")
    given = {**options.properties("property"), **options.properties("reader-property")}
    return {**read_properties(options.value("reader-config")), **given}


def producer_settings(options: Options) -> dict[str, Setting]:
    """The file's, then the options', then --command-property's: the later ones win."""
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


# Given as an option these win over the file; else librdkafka's defaults, which suit idempotence.
_SETTINGS: Final = {
    "request-required-acks": "acks",
    "request-timeout-ms": "request.timeout.ms",
    "message-send-max-retries": "retries",
}


def together(options: Options, new: str, old: str) -> None:
    """An option and its old name can't both be given; the old one alone is warned of."""
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


def _truth(properties: dict[str, str], name: str) -> bool:
    return properties.get(name, "false").strip().lower() == "true"


if __name__ == "__main__":
    sys.exit(main())
