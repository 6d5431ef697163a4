"""The partition filters of kafka-get-offsets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ottla.cli.kafka.options import Options
from ottla.cli.kafka.tool import ToolError
from ottla.cli.kafka.topics import topic_pattern
from ottla.client.record import TopicPartition

Filter = Callable[[TopicPartition], bool]

_RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")


def partition_filter(options: Options) -> Filter:
    """From --topic-partitions, or from --topic and --partitions."""
    rules = options.value("topic-partitions")
    if rules is not None:
        if options.has("topic") or options.has("partitions"):
            raise ToolError("--topic-partitions cannot be used with --topic or --partitions")
        filters = [_rule(rule) for rule in rules.split(",")]
        return lambda partition: any(matches(partition) for matches in filters)
    topic = options.value("topic")
    match = None if topic is None else topic_pattern(topic)
    numbers = _numbers(options.value("partitions"))

    def wanted(partition: TopicPartition) -> bool:
        return (match is None or match.fullmatch(partition.topic) is not None) and (
            numbers is None or partition.partition in numbers
        )

    return wanted


def _rule(text: str) -> Filter:
    """`topic:3`, `topic:1-4` (4 is excluded), `topic:1-`, `topic:-4`, `topic`, `:0`."""
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ToolError(f"Invalid rule specification: {text}")
    match = topic_pattern(found[1]) if found[1] else None
    low, high = 0, None
    if found[2]:
        low, high = int(found[2]), int(found[2]) + 1
    elif found[3] or found[4]:
        low = int(found[3] or 0)
        high = int(found[4]) if found[4] else None

    def wanted(partition: TopicPartition) -> bool:
        return (match is None or match.fullmatch(partition.topic) is not None) and (
            low <= partition.partition and (high is None or partition.partition < high)
        )

    return wanted


def _numbers(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    try:
        return frozenset(int(number) for number in text.split(",") if number)
    except ValueError:
        raise ToolError(
            "--partitions expects a comma separated list of numeric partition ids, but received:"
            f" {text}"
        ) from None
