"""kafka-console-consumer: records of a topic on standard output."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from ottla.cli.kafka.console_producer import CONFLUENT, together
from ottla.cli.kafka.formatters import Formatter, formatter
from ottla.cli.kafka.options import BOOTSTRAP, Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, log_error, read_properties, run
from ottla.client.consumer import Consumer
from ottla.client.delivery import Setting
from ottla.client.record import TopicPartition
from ottla.client.serde import BYTES

NAME: Final = "kafka-console-consumer"
DESCRIPTION: Final = "This tool reads records of topics and prints them."
OFFSET_BEGINNING: Final = -2
OFFSET_END: Final = -1
POLL_S: Final = 0.5
FORMATTER_HELP: Final = """How records are printed; repeatable. There are:
 print.timestamp=true|false
 print.key=true|false
 print.offset=true|false
 print.delivery=true|false
 print.epoch=true|false
 print.partition=true|false
 print.headers=true|false
 print.value=true|false
 key.separator=<key.separator>
 line.separator=<line.separator>
 headers.separator=<headers.separator>
 null.literal=<null.literal>
 key.deserializer=<class>
 value.deserializer=<class>
 header.deserializer=<class>"""

OPTIONS: Final = (
    BOOTSTRAP,
    Option("topic", "The topic to read.", "topic"),
    Option("include", "A regular expression: read all topics that it matches.", "regex"),
    Option("partition", "Read this partition only, from the end or from --offset.", "partition"),
    Option(
        "offset",
        "Where to begin: a number, earliest or latest.",
        "offset",
        default="latest",
    ),
    Option("from-beginning", "Begin with the first record, if the group has no offset yet."),
    Option("max-messages", "Stop after this number of records.", "count"),
    Option("timeout-ms", "Stop if no record arrives for this time.", "ms"),
    Option("group", "The consumer group.", "group"),
    Option("isolation-level", "read_committed or read_uncommitted.", "level"),
    Option("skip-message-on-error", "Skip a record that can't be printed, instead of stopping."),
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
    Option("consumer.config", "The old name of --command-config.", "file"),
    Option("enable-systest-events", "Print a line when the consumer has shut down."),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    check(options)
    printing = formatter(options.require("formatter"), formatter_properties(options))
    settings = consumer_settings(options)
    reading = ConsoleConsumer(options, printing)
    try:
        with closing(printing), open_consumer(options, settings) as consumer:
            reading.run(consumer)
    except KeyboardInterrupt:
        pass
    finally:
        print(f"Processed a total of {reading.count} messages", file=sys.stderr)
    if options.has("enable-systest-events"):
        print("shutdown_complete")
    return 0


class ConsoleConsumer:
    """Prints records until there are enough, none comes for too long, or the user stops it."""

    def __init__(self, options: Options, printing: Formatter) -> None:
        self.count = 0
        self._printing = printing
        self._limit = options.integer("max-messages")
        self._timeout_ms = options.integer("timeout-ms")
        self._skip = options.has("skip-message-on-error")

    def run(self, consumer: Consumer) -> None:
        out = sys.stdout.buffer
        limit = sys.maxsize if self._limit is None or self._limit < 0 else self._limit
        last = time.monotonic()
        while self.count < limit:
            record = consumer.poll(self._wait_s(last))
            if record is None:
                out.flush()
                if self._is_over(last):
                    reason = "org.apache.kafka.common.errors.TimeoutException"
                    message = "Error processing message, terminating consumer process:"
                    log_error(NAME, f"{message} {reason}")
                    return
                continue
            last = time.monotonic()
            self.count += 1
            try:
                self._printing.write(record, out)
            except ToolError as error:
                if not self._skip:
                    raise
                log_error(NAME, f"Error processing message, skipping this message: {error}")
            if not consumer.has_more:
                out.flush()

    def _wait_s(self, last: float) -> float:
        if self._timeout_ms is None:
            return POLL_S
        return max(0.0, min(POLL_S, last + self._timeout_ms / 1000 - time.monotonic()))

    def _is_over(self, last: float) -> bool:
        return self._timeout_ms is not None and (time.monotonic() - last >= self._timeout_ms / 1000)


def open_consumer(options: Options, settings: dict[str, Setting]) -> Consumer:
    topic = options.value("topic")
    include = options.value("include")
    group = settings.pop("group.id", None)
    reset = str(settings.pop("auto.offset.reset", "latest"))
    name = str(group) if group is not None else f"console-consumer-{random.randrange(100_000)}"
    if group is None:
        settings.setdefault("enable.auto.commit", False)
    bootstrap = options.require("bootstrap-server")
    consumer = Consumer(
        bootstrap, group=name, key=BYTES, value=BYTES, auto_offset_reset=reset, settings=settings
    )
    partition = options.integer("partition")
    if include is not None:
        consumer.subscribe(re.compile(include))
    elif partition is not None:
        assert topic is not None
        consumer.assign({TopicPartition(topic, partition): first_offset(options)})
    else:
        assert topic is not None
        consumer.subscribe(topic)
    return consumer


def check(options: Options) -> None:
    bootstrap = options.value("bootstrap-server")
    if bootstrap is None:
        raise UsageError('Missing required argument "[bootstrap-server]"')
    if options.has("topic") == options.has("include"):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if options.has("partition"):
        if not options.has("topic"):
            raise UsageError("The topic is required when partition is specified.")
        if options.has("group"):
            raise UsageError("Options group and partition cannot be specified together.")
        if options.has("from-beginning") and options.has("offset"):
            raise UsageError("Options from-beginning and offset cannot be specified together.")
        first_offset(options)
    elif options.has("offset"):
        raise UsageError("The partition is required when offset is specified.")
    level = options.value("isolation-level")
    if level not in (None, "read_committed", "read_uncommitted"):
        raise ToolError(
            f"Invalid value {level} for configuration isolation.level: String must be one of:"
            " read_committed, read_uncommitted"
        )


def first_offset(options: Options) -> int:
    text = options.require("offset").lower()
    if text == "earliest" or (options.has("from-beginning") and not options.has("offset")):
        return OFFSET_BEGINNING
    if text == "latest":
        return OFFSET_END
    if not text.isdigit():
        raise UsageError(
            f"The provided offset value '{options.require('offset')}' is incorrect. Valid values"
            " are 'earliest', 'latest', or a non-negative long."
        )
    return int(text)


def formatter_properties(options: Options) -> dict[str, str]:
    if not options.require("formatter").startswith(CONFLUENT):
        together(options, "formatter-property", "property")
    properties = read_properties(options.value("formatter-config"))
    properties.update(options.properties("property"))
    properties.update(options.properties("formatter-property"))
    for name in ("key", "value"):
        deserializer = options.value(f"{name}-deserializer")
        if deserializer is not None:
            properties[f"{name}.deserializer"] = deserializer
    return properties


def consumer_settings(options: Options) -> dict[str, Setting]:
    """The file, then --command-property, then the options: group and reset must agree."""
    together(options, "command-property", "consumer-property")
    together(options, "command-config", "consumer.config")
    path = options.value("command-config") or options.value("consumer.config")
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
            " '--command-property', or via '--command-config') do not match."
            f" Detected group ids: {shown}"
        )
    settings: dict[str, Setting] = {
        "client.id": NAME.removeprefix("kafka-"),
        "allow.auto.create.topics": True,
        **from_file,
        **from_words,
    }
    if named:
        settings["group.id"] = named[0]
    if options.has("isolation-level"):
        settings["isolation.level"] = options.require("isolation-level")
    else:
        settings.setdefault("isolation.level", "read_uncommitted")
    _set_reset(options, settings)
    return settings


def _set_reset(options: Options, settings: dict[str, Setting]) -> None:
    reset = settings.get("auto.offset.reset")
    if options.has("from-beginning"):
        if reset not in (None, "earliest"):
            raise UsageError(
                "Can't simultaneously specify --from-beginning and"
                f" 'auto.offset.reset={reset}', please remove one option"
            )
        reset = "earliest"
    settings["auto.offset.reset"] = reset or "latest"


if __name__ == "__main__":
    sys.exit(main())
