"""The start and end of what a query reads, from its options: `earliest`, an offset, a time.

    startingOffsets             earliest, latest, {"topic":{"0":23,"1":-2}}: -2 earliest, -1 latest
    startingOffsetsByTimestamp  {"topic":{"0":1700000000000}}, in ms
    startingTimestamp           1700000000000, for all partitions

The same three exist for the end. If several are given, the last in this list wins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client.record import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2

OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
TIMES_EXAMPLE: Final = '{"topicA":{"0":1700000000000,"1":1700000000000}}'
ASSIGN_EXAMPLE: Final = '{"topicA":[0,1],"topicB":[0]}'

Found = Mapping[TopicPartition, int | None]


class OptionError(ValueError):
    """An invalid option; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class OffsetRangeLimit:
    """One number for all partitions or one per partition; offsets, or times in ms."""

    everywhere: int | None = None
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)
    by_time: bool = False
    option: str = ""

    def numbers(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The limit of each partition; a limit by partition must name all of them."""
        if self.everywhere is not None:
            return dict.fromkeys(partitions, self.everywhere)
        if set(self.by_partition) != set(partitions):
            care = (
                "" if self.by_time else "\nUse -1 for latest, -2 for earliest, if you don't care."
            )
            raise OptionError(
                f"If {self.option} contains specific offsets, you must specify all"
                f" TopicPartitions.{care}"
                f"\nSpecified: {listed(self.by_partition)} Assigned: {listed(partitions)}"
            )
        return dict(self.by_partition)

    def resolve(
        self,
        partitions: Collection[TopicPartition],
        find: Callable[[Mapping[TopicPartition, int]], Found],
        *,
        latest_if_no_time: bool,
    ) -> dict[TopicPartition, int]:
        """Resolves to offsets. `find` looks up offsets by time; EARLIEST and LATEST are times, too.
        It returns None for a partition without a record at or after the time."""
        numbers = self.numbers(partitions)
        if self.by_time:
            return self._at_times(find, numbers, latest_if_no_time)
        lookups = {partition: number for partition, number in numbers.items() if number < 0}
        return {**numbers, **_all(find(lookups))}

    def _at_times(
        self,
        find: Callable[[Mapping[TopicPartition, int]], Found],
        times: Mapping[TopicPartition, int],
        latest_if_no_time: bool,
    ) -> dict[TopicPartition, int]:
        found = find(times)
        missing = [partition for partition in times if found[partition] is None]
        if missing and not latest_if_no_time:
            raise OptionError(
                f"No offset matched from request of topic-partition {missing[0]} and timestamp"
                f" {times[missing[0]]}: there is no later record. Give an earlier time, or"
                " startingOffsetsByTimestampStrategy latest"
            )
        ends = _all(find(dict.fromkeys(missing, LATEST)))
        return {partition: ends[partition] if at is None else at for partition, at in found.items()}


def _all(found: Found) -> dict[TopicPartition, int]:
    """EARLIEST and LATEST always have an offset."""
    return {partition: offset for partition, offset in found.items() if offset is not None}


def limit_of(
    options: Mapping[str, str],
    end: str,
    default: int,
    *,
    allow_latest: bool = True,
    allow_earliest: bool = True,
) -> OffsetRangeLimit:
    """The limit from the options `starting...` or `ending...`."""
    time, times, offsets = f"{end}Timestamp", f"{end}OffsetsByTimestamp", f"{end}Offsets"
    if (value := options.get(time.lower())) is not None:
        return OffsetRangeLimit(_time(time, value), by_time=True, option=time)
    if (value := options.get(times.lower())) is not None:
        numbers = _numbers(times, value, TIMES_EXAMPLE)
        if any(number < 0 for number in numbers.values()):
            raise OptionError(f"{times} must have times in ms since 1970, not below 0: {value}")
        return OffsetRangeLimit(by_partition=numbers, by_time=True, option=times)
    value = options.get(offsets.lower(), "").strip()
    words = {"earliest": EARLIEST, "latest": LATEST, "": default}
    if value.lower() in words:
        limit = OffsetRangeLimit(words[value.lower()], option=offsets)
    else:
        limit = OffsetRangeLimit(
            by_partition=_numbers(offsets, value, OFFSETS_EXAMPLE), option=offsets
        )
    if not allow_latest:
        _refuse(limit, LATEST, f"{end} offset can't be latest", "Give earliest, or offsets")
    if not allow_earliest:
        _refuse(limit, EARLIEST, f"{end} offset can't be earliest", "Give latest, or offsets")
    return limit


def _refuse(limit: OffsetRangeLimit, number: int, what: str, remedy: str) -> None:
    where = [str(partition) for partition, offset in limit.by_partition.items() if offset == number]
    if limit.everywhere == number or where:
        those = f" ({', '.join(where)})" if where else ""
        raise OptionError(f"{what} for batch queries on Kafka{those}. {remedy}")


def _time(option: str, value: str) -> int:
    if not value.strip().isascii() or not value.strip().isdigit():
        raise OptionError(f"{option} must be a time in ms since 1970: '{value}'")
    return int(value)


def _numbers(option: str, value: str, example: str) -> dict[TopicPartition, int]:
    wrong = OptionError(f"Expected e.g. {example} for {option}, got {value}")
    data = _json(value, wrong)
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in data.items():
        if not isinstance(partitions, dict):
            raise wrong
        for partition, number in partitions.items():
            if not partition.isdigit() or type(number) is not int or number < EARLIEST:
                raise wrong
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def partitions_of(value: str) -> tuple[TopicPartition, ...]:
    """The partitions of the option `assign`."""
    wrong = OptionError(f"Expected e.g. {ASSIGN_EXAMPLE} for assign, got {value}")
    found = set()
    for topic, partitions in _json(value, wrong).items():
        if not isinstance(partitions, list):
            raise wrong
        for partition in partitions:
            if type(partition) is not int or partition < 0:
                raise wrong
            found.add(TopicPartition(topic, partition))
    if not found:
        raise wrong
    return tuple(sorted(found))


def _json(value: str, wrong: OptionError) -> dict[str, Any]:
    try:
        data = json.loads(value)
    except ValueError:
        raise wrong from None
    if not isinstance(data, dict):
        raise wrong
    return data


def listed(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(str(partition) for partition in sorted(partitions)) or "none"
