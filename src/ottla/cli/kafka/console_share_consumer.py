"""kafka-console-share-consumer: prints records of a topic, read as from a queue (KIP-932)."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from ottla.cli.kafka.console_consumer import FORMATTER_HELP, POLL_S, formatter_properties
from ottla.cli.kafka.console_producer import together
from ottla.cli.kafka.formatters import Formatter, formatter
from ottla.cli.kafka.options import BOOTSTRAP, Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, log_error, read_properties, run
from ottla.client.delivery import Setting
from ottla.client.record import ConsumerRecord
from ottla.client.serde import BYTES
from ottla.client.share_consumer import ShareConsumer

NAME: Final = "kafka-console-share-consumer"
DESCRIPTION: Final = "This tool reads records of a topic by a share group and prints them."
GROUP: Final = "console-share-consumer"

OPTIONS: Final = (
    BOOTSTRAP,
    Option("topic", "The topic to read.", "topic"),
    Option("group", "The share group.", "group"),
    Option("max-messages", "Stop after this number of records.", "count"),
    Option("timeout-ms", "Stop if no record arrives for this time.", "ms"),
    Option("reject", "Reject the records that are read."),
    Option("release", "Release the records that are read."),
    Option("reject-message-on-error", "Reject a record that can't be printed, and go on."),
    Option(
        "formatter", "The class that prints records.", "class", default="DefaultMessageFormatter"
    ),
    Option("formatter-property", FORMATTER_HELP, "key=value"),
    Option("property", "The old name of --formatter-property.", "key=value"),
    Option("formatter-config", "A file of formatter properties.", "file"),
    Option("key-deserializer", "Java's deserializer of keys.", "class"),
    Option("value-deserializer", "Java's deserializer of values.", "class"),
    Option("command-property", "A setting of the consumer; repeatable.", "key=value"),
    Option("consumer-property", "The old name of --command-property.", "key=value"),
    Option("command-config", "A file of consumer settings.", "file"),
    Option("consumer-config", "The old name of --command-config.", "file"),
    Option("enable-systest-events", "Print a line when the consumer has shut down."),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    bootstrap = options.require("bootstrap-server")
    topic = options.value("topic")
    if topic is None:
        raise UsageError("--topic is a required argument")
    if options.has("reject") and options.has("release"):
        raise UsageError("At most one of --reject and --release may be specified.")
    printing = formatter(options.require("formatter"), formatter_properties(options))
    settings = consumer_settings(options)
    group = str(settings.pop("group.id", GROUP))
    reading = ConsoleShareConsumer(options, printing)
    try:
        with (
            closing(printing),
            ShareConsumer(
                bootstrap, topic, group=group, key=BYTES, value=BYTES, settings=settings
            ) as consumer,
        ):
            reading.run(consumer)
    except KeyboardInterrupt:
        pass
    finally:
        print(f"Processed a total of {reading.count} messages", file=sys.stderr)
    if options.has("enable-systest-events"):
        print("shutdown_complete")
    return 0


class ConsoleShareConsumer:
    """Prints records until there are enough, none comes for too long, or the user stops it."""

    def __init__(self, options: Options, printing: Formatter) -> None:
        self.count = 0
        self._printing = printing
        limit = options.integer("max-messages")
        self._limit = sys.maxsize if limit is None or limit < 0 else limit
        self._timeout_ms = options.integer("timeout-ms")
        self._reject = options.has("reject")
        self._release = options.has("release")
        self._reject_bad = options.has("reject-message-on-error")

    def run(self, consumer: ShareConsumer[bytes, bytes]) -> None:
        last = time.monotonic()
        while self.count < self._limit:
            record = consumer.poll(POLL_S)
            if record is None:
                sys.stdout.buffer.flush()
                if self._is_over(last):
                    return
                continue
            last = time.monotonic()
            self.count += 1
            self._print(consumer, record)
            if not consumer.has_more:
                sys.stdout.buffer.flush()

    def _print(
        self, consumer: ShareConsumer[bytes, bytes], record: ConsumerRecord[bytes, bytes]
    ) -> None:
        try:
            self._printing.write(record, sys.stdout.buffer)
        except ToolError as error:
            if not self._reject_bad:
                raise
            log_error(NAME, f"Error processing message, rejecting this message: {error}")
            consumer.reject()
            return
        if self._reject:
            consumer.reject()
        elif self._release:
            consumer.release()
        else:
            consumer.accept()

    def _is_over(self, last: float) -> bool:
        return self._timeout_ms is not None and time.monotonic() - last >= self._timeout_ms / 1000


def consumer_settings(options: Options) -> dict[str, Setting]:
    """The file, then --command-property; all places that name a group must name the same."""
    together(options, "command-property", "consumer-property")
    together(options, "command-config", "consumer-config")
    path = options.value("command-config") or options.value("consumer-config")
    from_file = read_properties(path)
    from_words = {
        **options.properties("consumer-property"),
        **options.properties("command-property"),
    }
    groups = [options.value("group"), from_words.get("group.id"), from_file.get("group.id")]
    named = [group for group in dict.fromkeys(groups) if group is not None]
    if len(named) > 1:
        shown = ", ".join(f"'{group}'" for group in named)
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via"
            " '--consumer-property', or via '--consumer-config') do not match."
            f" Detected group ids: {shown}"
        )
    settings: dict[str, Setting] = {"client.id": GROUP, **from_file, **from_words}
    if named:
        settings["group.id"] = named[0]
    return settings


if __name__ == "__main__":
    sys.exit(main())
