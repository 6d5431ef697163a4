"""kafka-get-offsets: the first, last or other offsets of partitions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.exceptions import describe
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options
from ottla.cli.kafka.partition_filter import partition_filter
from ottla.cli.kafka.tool import ToolError, explain, read_properties, run
from ottla.client.admin import Admin
from ottla.client.record import TopicPartition
from ottla.client.topics import TopicDescription
from ottla.errors import KafkaError

NAME: Final = "kafka-get-offsets"
DESCRIPTION: Final = "This tool prints offsets of partitions."
TIMES: Final = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}

OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("topic", "A regular expression; default: all topics.", "topic"),
    Option("partitions", "Partitions, separated by commas; default: all.", "partitions"),
    Option(
        "topic-partitions",
        "Topics (regular expressions) with partitions: topic1:1,topic2:0-3,topic3,topic4:5-,"
        "topic5:-3; the last partition of a range is not included.",
        "rules",
    ),
    Option(
        "time",
        "A time in ms since 1970, or "
        + ", ".join(f"{number} or {word}" for word, number in TIMES.items())
        + ".",
        "time",
        default="latest",
    ),
    Option("exclude-internal-topics", "Omit internal topics."),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    bootstrap = options.require("bootstrap-server")
    try:
        time_ms = parse_time(options.require("time"))
        wanted = partition_filter(options)
        settings = read_properties(options.value("command-config"))
        with Admin(bootstrap, settings=dict(settings)) as admin:
            names = admin.topics.names(internal=not options.has("exclude-internal-topics"))
            partitions = [
                partition for partition in partitions_of(admin, names) if wanted(partition)
            ]
            if not partitions:
                raise ToolError("Could not match any topic-partitions with the specified filters")
            print_offsets(admin, partitions, time_ms)
    except (ToolError, KafkaError) as error:
        print(f"Error occurred: {explain(error)}", file=sys.stderr)
        return 1
    return 0


def partitions_of(admin: Admin, names: Sequence[str]) -> list[TopicPartition]:
    """All partitions of these topics, sorted."""
    described = admin.topics.describe(*names) if names else {}
    return sorted(
        TopicPartition(topic.name, part.partition)
        for topic in described.values()
        if isinstance(topic, TopicDescription)
        for part in topic.partitions
    )


def print_offsets(admin: Admin, partitions: Sequence[TopicPartition], time_ms: int) -> None:
    found = admin.offsets.find(partitions, time_ms)
    for partition in partitions:
        at = found[partition]
        if isinstance(at, KafkaError):
            print(
                f"Skip getting offsets for topic-partition {partition} due to error:"
                f" {describe(at)}",
                file=sys.stderr,
            )
        elif at.offset >= 0:
            print(f"{partition.topic}:{partition.partition}:{at.offset}")


def parse_time(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        words = " / ".join(f"{number} or {word}" for word, number in TIMES.items())
        raise ToolError(
            f"Malformed time argument {text}. Please use {words}, or a specified long format"
            " timestamp"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
