"""kafka-consumer-perf-test: how fast records are consumed."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from ottla.cli.kafka.console_producer import together
from ottla.cli.kafka.options import BOOTSTRAP, Option, Options, UsageError
from ottla.cli.kafka.perf import MIB, print_metrics
from ottla.cli.kafka.tool import ToolError, read_properties, run
from ottla.client.bulk import BulkConsumer, Metrics
from ottla.client.consumer import posix_pattern
from ottla.client.delivery import Setting
from ottla.client.protocol.probe import probe
from ottla.client.record import TopicPartition

NAME: Final = "kafka-consumer-perf-test"
DESCRIPTION: Final = "This tool consumes records as fast as possible and prints the rate."
POLL_S: Final = 0.1
DATE_FORMAT: Final = "yyyy-MM-dd HH:mm:ss:SSS"
COLUMNS: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms,"
    " fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)

OPTIONS: Final = (
    BOOTSTRAP,
    Option("topic", "The topic to read.", "topic"),
    Option("include", "A regular expression: read all topics that it matches.", "regex"),
    Option("num-records", "REQUIRED: The number of records to read.", "count"),
    Option("messages", "The old name of --num-records.", "count"),
    Option("group", "The consumer group.", "group"),
    Option("fetch-size", "The fetch size for a partition.", "bytes", default="1048576"),
    Option("from-latest", "Begin at the end, if the group has no offset yet."),
    Option("socket-buffer-size", "The size of the TCP receive buffer.", "bytes", default="2097152"),
    Option("command-property", "A setting of the consumer; repeatable.", "key=value"),
    Option("command-config", "A file of consumer settings.", "file"),
    Option("consumer.config", "The old name of --command-config.", "file"),
    Option("print-metrics", "Print the consumer's metrics."),
    Option("show-detailed-stats", "Print a line for each --reporting-interval."),
    Option("reporting-interval", "How often to print progress.", "ms", default="5000"),
    Option("timeout", "Stop if no record arrives for this time.", "ms", default="10000"),
    Option(
        "date-format", "The format of times, as a pattern of Java's.", "form", default=DATE_FORMAT
    ),
    Option("hide-header", "Print no header."),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    wanted = check(options)
    detailed = options.has("show-detailed-stats")
    if not options.has("hide-header"):
        print(f"time, threadId, {COLUMNS}" if detailed else f"start.time, end.time, {COLUMNS}")
    reading = ConsumerPerformance(options, wanted)
    settings = consumer_settings(options)
    probe(options.require("bootstrap-server"), settings)
    started = time.time()
    consumer = BulkConsumer(
        options.require("bootstrap-server"),
        [topics(options)],
        settings=settings,
        on_assigned=reading.assigned,
        on_revoked=reading.revoked,
    )
    metrics: Metrics = {}
    try:
        reading.run(consumer)
        ended = time.time()
        if options.has("print-metrics"):
            metrics = consumer.metrics()
    finally:
        consumer.close()
    if not detailed:
        shown = [stamp(started, options), stamp(ended, options)]
        elapsed_ms = (ended - started) * 1000
        print(", ".join([*shown, reading.columns(reading.size, reading.count, elapsed_ms)]))
    if options.has("print-metrics"):
        print_metrics("consumer-metrics", metrics)
    return 0


class ConsumerPerformance:
    """Counts records, and the time spent without an assignment."""

    def __init__(self, options: Options, wanted: int) -> None:
        self._options = options
        self._wanted = wanted
        self._timeout_ms = options.integer("timeout") or 0
        self._interval_s = (options.integer("reporting-interval") or 0) / 1000
        self.count = self.size = 0
        self._joining_since: float | None = time.monotonic()
        self._joining_s = 0.0

    def assigned(self, partitions: list[TopicPartition]) -> None:
        if self._joining_since is not None:
            self._joining_s += time.monotonic() - self._joining_since
            self._joining_since = None

    def revoked(self, partitions: list[TopicPartition]) -> None:
        self._joining_since = time.monotonic()

    def run(self, consumer: BulkConsumer) -> None:
        last = reported = time.monotonic()
        before_count = before_size = 0
        while self.count < self._wanted:
            count, size = consumer.fetch(POLL_S)
            now = time.monotonic()
            if count:
                last = now
                self.count += count
                self.size += size
            elif (now - last) * 1000 >= self._timeout_ms:
                print(
                    "WARNING: Exiting before consuming the expected number of records: timeout"
                    f" ({self._timeout_ms} ms) exceeded. You can use the --timeout option to"
                    " increase the timeout."
                )
                return
            if self._options.has("show-detailed-stats") and now - reported >= self._interval_s:
                elapsed_ms = (now - reported) * 1000
                of_window = (self.size - before_size, self.count - before_count)
                columns = self.columns(*of_window, elapsed_ms, totals=True)
                print(f"{stamp(time.time(), self._options)}, 0, {columns}")
                reported, before_count, before_size = now, self.count, self.size
                self._joining_s = 0.0

    def columns(self, size: int, count: int, elapsed_ms: float, *, totals: bool = False) -> str:
        """Rates are for the interval; amounts are for the interval, or for the whole run."""
        elapsed_ms = max(elapsed_ms, 1.0)
        joining_ms = min(int(self._joining_s * 1000), int(elapsed_ms))
        fetching_ms = max(1, int(elapsed_ms) - joining_ms)
        mib = size / MIB
        shown_mib, shown_count = (self.size / MIB, self.count) if totals else (mib, count)
        return (
            f"{shown_mib:.4f}, {mib * 1000 / elapsed_ms:.4f}, {shown_count},"
            f" {count * 1000 / elapsed_ms:.4f}, {joining_ms}, {fetching_ms},"
            f" {mib * 1000 / fetching_ms:.4f}, {count * 1000 / fetching_ms:.4f}"
        )


def check(options: Options) -> int:
    """The number of records to read."""
    options.require("bootstrap-server")
    if options.has("topic") == options.has("include"):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if options.has("messages") == options.has("num-records"):
        raise UsageError(
            "Exactly one of the following arguments is required: [messages], [num-records]"
        )
    if options.has("messages"):
        print("Warning: --messages is deprecated. Use --num-records instead.")
    wanted = options.integer("num-records" if options.has("num-records") else "messages")
    assert wanted is not None
    return wanted


def topics(options: Options) -> str:
    include = options.value("include")
    return options.require("topic") if include is None else posix_pattern(include)


def consumer_settings(options: Options) -> dict[str, Setting]:
    together(options, "command-config", "consumer.config")
    path = options.value("command-config") or options.value("consumer.config")
    return {
        "client.id": "perf-consumer-client",
        **read_properties(path),
        **options.properties("command-property"),
        "group.id": options.value("group") or f"perf-consumer-{random.randrange(100_000)}",
        "auto.offset.reset": "latest" if options.has("from-latest") else "earliest",
        "socket.receive.buffer.bytes": options.require("socket-buffer-size"),
        "max.partition.fetch.bytes": options.require("fetch-size"),
        "check.crcs": False,
    }


_LETTERS: Final = {
    "yyyy": "%Y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%f",
}


def stamp(when: float, options: Options) -> str:
    """A time in the given pattern of Java's, as far as its letters are known here."""
    moment = datetime.fromtimestamp(when)

    def of(found: re.Match[str]) -> str:
        if found[0] not in _LETTERS:
            raise ToolError(f"--date-format: {found[0]} is not known")
        text = moment.strftime(_LETTERS[found[0]])
        return text[:3] if found[0] == "SSS" else text

    return re.sub(r"([a-zA-Z])\1*", of, options.require("date-format"))


if __name__ == "__main__":
    sys.exit(main())
