"""Both ends of what a query reads, as its options say them: `earliest`, an offset, a time.

    startingOffsets             earliest, latest, {"topic":{"0":23,"1":-2}}: -2 earliest, -1 latest
    startingOffsetsByTimestamp  {"topic":{"0":1700000000000}}, in ms
    startingTimestamp           1700000000000, for all partitions

The same three for the end. Of several the last in this list counts.
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
    """An option that can't be, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One number for all partitions, or one for each; offsets, or times in ms."""

    everywhere: int | None = None
    each: Mapping[TopicPartition, int] = field(default_factory=dict)
    by_time: bool = False
    option: str = ""

    def numbers(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """What the limit says of each partition; a limit that names some must name them all."""
        if self.everywhere is not None:
            return dict.fromkeys(partitions, self.everywhere)
        if set(self.each) != set(partitions):
            care = (
                "" if self.by_time else "\nUse -1 for latest, -2 for earliest, if you don't care."
            )
            raise OptionError(
                f"If {self.option} contains specific offsets, you must specify all"
                f" TopicPartitions.{care}"
                f"\nSpecified: {listed(self.each)} Assigned: {listed(partitions)}"
            )
        return dict(self.each)

    def resolve(
        self,
        partitions: Collection[TopicPartition],
        find: Callable[[Mapping[TopicPartition, int]], Found],
        *,
        latest_if_no_time: bool,
    ) -> dict[TopicPartition, int]:
        """Offsets. `find` is asked for the offsets at a time; EARLIEST and LATEST are times, too,
        and those after which there is no record have None."""
        numbers = self.numbers(partitions)
        if self.by_time:
            return self._at_times(find, numbers, latest_if_no_time)
        asked = {each: number for each, number in numbers.items() if number < 0}
        return {**numbers, **_all(find(asked))}

    def _at_times(
        self,
        find: Callable[[Mapping[TopicPartition, int]], Found],
        times: Mapping[TopicPartition, int],
        latest_if_no_time: bool,
    ) -> dict[TopicPartition, int]:
        found = find(times)
        missing = [each for each in times if found[each] is None]
        if missing and not latest_if_no_time:
            raise OptionError(
                f"No offset matched from request of topic-partition {missing[0]} and timestamp"
                f" {times[missing[0]]}: no record is that young. Give an earlier time, or"
                " startingOffsetsByTimestampStrategy latest"
            )
        ends = _all(find(dict.fromkeys(missing, LATEST)))
        return {each: ends[each] if at is None else at for each, at in found.items()}


def _all(found: Found) -> dict[TopicPartition, int]:
    """EARLIEST and LATEST are always found."""
    return {each: offset for each, offset in found.items() if offset is not None}


def limit_of(
    options: Mapping[str, str],
    end: str,
    default: int,
    *,
    allow_latest: bool = True,
    allow_earliest: bool = True,
) -> Limit:
    """The limit that the options named `starting...` or `ending...` say."""
    time, times, offsets = f"{end}Timestamp", f"{end}OffsetsByTimestamp", f"{end}Offsets"
    if (value := options.get(time.lower())) is not None:
        return Limit(_time(time, value), by_time=True, option=time)
    if (value := options.get(times.lower())) is not None:
        each = _numbers(times, value, TIMES_EXAMPLE)
        if any(number < 0 for number in each.values()):
            raise OptionError(f"{times} has times in ms since 1970, none of them below 0: {value}")
        return Limit(each=each, by_time=True, option=times)
    value = options.get(offsets.lower(), "").strip()
    words = {"earliest": EARLIEST, "latest": LATEST, "": default}
    if value.lower() in words:
        limit = Limit(words[value.lower()], option=offsets)
    else:
        limit = Limit(each=_numbers(offsets, value, OFFSETS_EXAMPLE), option=offsets)
    if not allow_latest:
        _refuse(limit, LATEST, f"{end} offset can't be latest", "Give earliest, or offsets")
    if not allow_earliest:
        _refuse(limit, EARLIEST, f"{end} offset can't be earliest", "Give latest, or offsets")
    return limit


def _refuse(limit: Limit, number: int, what: str, remedy: str) -> None:
    where = [str(each) for each, offset in limit.each.items() if offset == number]
    if limit.everywhere == number or where:
        those = f" ({', '.join(where)})" if where else ""
        raise OptionError(f"{what} for batch queries on Kafka{those}. {remedy}")


def _time(option: str, value: str) -> int:
    if not value.strip().isascii() or not value.strip().isdigit():
        raise OptionError(f"{option} is a time in ms since 1970, such as 1700000000000: '{value}'")
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
    """What `assign` names."""
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
    return ", ".join(str(each) for each in sorted(partitions)) or "none"
