"""kafka-share-consumer-perf-test: how fast the members of a share group consume records."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Final

from ottla.cli.kafka.console_producer import together
from ottla.cli.kafka.consumer_perf_test import DATE_FORMAT, stamp
from ottla.cli.kafka.options import BOOTSTRAP, Option, Options, UsageError
from ottla.cli.kafka.perf import MIB, print_metrics
from ottla.cli.kafka.tool import read_properties, run
from ottla.client.bulk import BulkShareConsumer
from ottla.client.delivery import Setting
from ottla.client.protocol.probe import probe

NAME: Final = "kafka-share-consumer-perf-test"
DESCRIPTION: Final = "This tool consumes records by a share group and prints the rate."
POLL_S: Final = 0.1
COLUMNS: Final = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg,"
    " fetch.time.ms"
)

OPTIONS: Final = (
    BOOTSTRAP,
    Option("topic", "REQUIRED: The topic to read.", "topic"),
    Option("group", "The share group.", "gid", default="perf-share-consumer"),
    Option("num-records", "REQUIRED: The number of records to read.", "count"),
    Option("messages", "The old name of --num-records.", "count"),
    Option("threads", "The number of share consumers.", "count", default="1"),
    Option("fetch-size", "The size of a fetch.", "size", default="1048576"),
    Option("socket-buffer-size", "The size of the TCP receive buffer.", "size", default="2097152"),
    Option("command-property", "A setting of the share consumers; repeatable.", "prop1=val1"),
    Option("command-config", "A file of consumer settings.", "config file"),
    Option("consumer.config", "The old name of --command-config.", "config file"),
    Option("print-metrics", "Print the consumers' metrics."),
    Option("show-detailed-stats", "Print a line for each --reporting-interval."),
    Option("show-consumer-stats", "Print a line for each share consumer at the end."),
    Option("reporting-interval", "How often to print progress.", "interval_ms", default="5000"),
    Option("timeout", "Stop if no record arrives for this time.", "milliseconds", default="10000"),
    Option(
        "date-format",
        "The format of times, as a pattern of Java's.",
        "date format",
        default=DATE_FORMAT,
    ),
    Option("hide-header", "Print no header."),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    wanted, threads = check(options)
    settings = consumer_settings(options)
    probe(options.require("bootstrap-server"), settings)
    if not options.has("hide-header"):
        print(COLUMNS)
    bootstrap, topics = options.require("bootstrap-server"), [options.require("topic")]
    with ExitStack() as stack:
        consumers = [
            stack.enter_context(closing(BulkShareConsumer(bootstrap, topics, settings=settings)))
            for _ in range(threads)
        ]
        test = ShareConsumerPerformance(options, wanted, consumers)
        started = time.time()
        test.run()
        ended = time.time()
        metrics = [consumer.metrics() for consumer in consumers]
        for consumer in consumers:
            consumer.commit()
    if options.has("show-consumer-stats"):
        for number, (count, size) in enumerate(test.read, 1):
            line = columns(count, size, started, ended, options)
            print(f"Share consumer {number} consumption metrics- {line}")
    if test.count < wanted:
        print(
            "WARNING: Exiting before consuming the expected number of records: timeout"
            f" ({options.integer('timeout')} ms) exceeded. You can use the --timeout option to"
            " increase the timeout."
        )
    print(columns(test.count, sum(size for _, size in test.read), started, ended, options))
    if options.has("print-metrics"):
        for found in metrics:
            print_metrics("consumer-share-metrics", found)
    return 0


class ShareConsumerPerformance:
    """Share consumers that read in a thread each until all of them have read enough."""

    def __init__(
        self, options: Options, wanted: int, consumers: Sequence[BulkShareConsumer]
    ) -> None:
        self._options = options
        self._wanted = wanted
        self._consumers = consumers
        self._timeout_s = (options.integer("timeout") or 0) / 1000
        self._interval_s = (options.integer("reporting-interval") or 0) / 1000
        self._stopped = threading.Event()
        self.read = [(0, 0)] * len(consumers)  # records and bytes of each

    @property
    def count(self) -> int:
        return sum(count for count, _ in self.read)

    def run(self) -> None:
        with ThreadPoolExecutor(len(self._consumers)) as threads:
            try:
                for _ in threads.map(self._consume, range(len(self._consumers))):
                    pass
            finally:  # Ctrl-C, or an error of one of them, stops the others
                self._stopped.set()

    def _consume(self, index: int) -> None:
        consumer = self._consumers[index]
        last = reported = time.time()
        before = count, size = 0, 0
        while self.count < self._wanted and not self._stopped.is_set():
            new_count, new_size = consumer.fetch(POLL_S)
            now = time.time()
            if new_count:
                last = now
                count, size = self.read[index] = count + new_count, size + new_size
            elif now - last > self._timeout_s:
                return
            if new_count and now - reported >= self._interval_s:
                if self._options.has("show-detailed-stats"):
                    line = columns(count, size, reported, now, self._options, before=before)
                    print(f"{line} for share consumer {index + 1}")
                reported, before = now, (count, size)


def columns(
    count: int,
    size: int,
    started: float,
    ended: float,
    options: Options,
    *,
    before: tuple[int, int] = (0, 0),
) -> str:
    """Amounts are totals; rates are of what came after `before`."""
    elapsed_ms = max(1, int((ended - started) * 1000))
    count_before, size_before = before
    rate = (count - count_before) * 1000 / elapsed_ms
    mib_rate = (size - size_before) / MIB * 1000 / elapsed_ms
    return (
        f"{stamp(started, options)}, {stamp(ended, options)}, {size / MIB:.4f}, {mib_rate:.4f},"
        f" {rate:.4f}, {count}, {elapsed_ms}"
    )


def check(options: Options) -> tuple[int, int]:
    """The number of records to read, and the number of share consumers."""
    for name in ("topic", "bootstrap-server"):
        options.require(name)
    if options.has("messages") == options.has("num-records"):
        raise UsageError(
            "Exactly one of the following arguments is required: [messages], [num-records]"
        )
    together(options, "command-config", "consumer.config")
    for old, new in (("messages", "num-records"), ("consumer.config", "command-config")):
        if options.has(old):
            print(f"Warning: --{old} is deprecated. Use --{new} instead.")
    if (options.integer("reporting-interval") or 0) <= 0:
        raise UsageError("Reporting interval must be greater than 0.")
    threads = options.integer("threads") or 0
    if threads < 1:
        raise UsageError("The number of threads must be greater than 0.")
    wanted = options.integer("num-records" if options.has("num-records") else "messages")
    assert wanted is not None
    return wanted, threads


def consumer_settings(options: Options) -> dict[str, Setting]:
    path = options.value("command-config") or options.value("consumer.config")
    return {
        "client.id": "perf-share-consumer-client",
        **read_properties(path),
        **options.properties("command-property"),
        "group.id": options.require("group"),
        "socket.receive.buffer.bytes": options.require("socket-buffer-size"),
        "fetch.max.bytes": options.require("fetch-size"),
        "check.crcs": False,
    }


if __name__ == "__main__":
    sys.exit(main())
