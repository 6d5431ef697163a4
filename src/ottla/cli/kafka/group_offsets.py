"""kafka-consumer-groups --reset-offsets and --delete-offsets."""

from __future__ import annotations

import csv
import io
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from ottla.cli.kafka.exceptions import describe as describe_error
from ottla.cli.kafka.exceptions import message_of
from ottla.cli.kafka.get_offsets import partitions_of
from ottla.cli.kafka.group_report import Column, print_table
from ottla.cli.kafka.options import Options, UsageError
from ottla.cli.kafka.tool import ToolError
from ottla.client.admin import Admin
from ottla.client.group_descriptions import GroupDescription
from ottla.client.offsets import EARLIEST, LATEST, OffsetAt
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError

SCENARIOS: Final = (
    "to-offset",
    "to-earliest",
    "to-current",
    "to-latest",
    "by-duration",
    "to-datetime",
    "from-file",
    "shift-by",
)
RESET_COLUMNS: Final[tuple[Column, ...]] = (
    ("GROUP", 15),
    ("TOPIC", 15),
    ("PARTITION", 10),
    ("NEW-OFFSET", 0),
)
STATUS_WIDTH: Final = 15  # longer statuses do not widen the column
DELETE_COLUMNS: Final[tuple[Column, ...]] = (
    ("TOPIC", 15),
    ("PARTITION", 10),
    ("STATUS".ljust(STATUS_WIDTH), 0),
)

_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Plan = dict[TopicPartition, int]


def reset_offsets(admin: Admin, options: Options) -> None:
    names = options.values("group") or [group.name for group in admin.groups.list()]
    plans: dict[str, Plan] = {}
    described = admin.groups.describe(*dict.fromkeys(names)) if names else {}
    for name in dict.fromkeys(names):
        plan = _plan_of(admin, options, name, described[name], several=len(names) > 1)
        if plan is not None:
            plans[name] = plan
    if options.has("execute"):
        for name, plan in plans.items():
            admin.groups.alter_offsets(name, plan)
    if options.has("export"):
        print(to_csv(plans, several=len(names) > 1))
    else:
        rows = [
            [name, partition.topic, str(partition.partition), str(offset)]
            for name, plan in plans.items()
            for partition, offset in plan.items()
        ]
        width = max([15, *map(len, names)])
        print_table([("GROUP", width), *RESET_COLUMNS[1:]], rows)


def _plan_of(
    admin: Admin,
    options: Options,
    name: str,
    group: GroupDescription | KafkaError,
    *,
    several: bool,
) -> Plan | None:
    """The new offsets of one group; None if it can't be reset now."""
    state = "Dead"
    if isinstance(group, GroupDescription):
        state = group.state
    elif group.code != ErrorCode.GROUP_ID_NOT_FOUND:
        raise group
    if state not in ("Empty", "Dead"):
        print(
            f"\nError: Assignments can only be reset if the group '{name}' is inactive, but the"
            f" current state is {state}."
        )
        return {}
    if options.has("from-file"):
        return plan_of_file(admin, options, name, several=several)
    current: Plan = {}
    if any(map(options.has, ("all-topics", "to-current", "shift-by"))):
        current = {
            partition: found.offset for partition, found in admin.groups.offsets(name).items()
        }
    if options.has("all-topics"):
        partitions = sorted(current)
    else:
        partitions = topic_partitions(admin, options.values("topic"))
    return new_offsets(admin, options, partitions, current)


def plan_of_file(admin: Admin, options: Options, name: str, *, several: bool) -> Plan | None:
    plans = from_csv(_read(options.require("from-file")), several=several)
    wanted = plans.get(name, plans.get(""))
    if wanted is None:
        print(f"\nError: No reset plan for group {name} found")
        return None
    return within_log(admin, wanted)


def new_offsets(
    admin: Admin, options: Options, partitions: Sequence[TopicPartition], current: Plan
) -> Plan:
    if options.has("to-offset"):
        offset = _integer(options, "to-offset")
        return within_log(admin, dict.fromkeys(partitions, offset))
    if options.has("to-earliest"):
        return _found(admin.offsets.find(partitions, EARLIEST))
    if options.has("to-latest"):
        return _found(admin.offsets.find(partitions, LATEST))
    if options.has("shift-by"):
        shift = _integer(options, "shift-by")
        missing = next((partition for partition in partitions if partition not in current), None)
        if missing is not None:
            raise UsageError(
                f"Cannot shift offset for partition {missing} since there is no current committed"
                " offset"
            )
        return within_log(
            admin, {partition: current[partition] + shift for partition in partitions}
        )
    if options.has("to-datetime"):
        return since(admin, partitions, parse_datetime(options.require("to-datetime")))
    if options.has("by-duration"):
        ago_ms = parse_duration(options.require("by-duration"))
        return since(admin, partitions, int(time.time() * 1000) - ago_ms)
    new = [partition for partition in partitions if partition not in current]
    ends = _found(admin.offsets.find(new, LATEST))
    return {
        partition: current[partition] if partition in current else ends[partition]
        for partition in partitions
    }


def within_log(admin: Admin, wanted: Plan) -> Plan:
    """Offsets outside of the log move to its nearer end, with a warning."""
    first = _found(admin.offsets.find(wanted, EARLIEST))
    last = _found(admin.offsets.find(wanted, LATEST))
    plan = {}
    for partition, offset in wanted.items():
        plan[partition] = min(max(offset, first[partition]), last[partition])
        if offset != plan[partition]:
            word, end = ("lower", "earliest") if offset < first[partition] else ("higher", "latest")
            print(
                f"WARN New offset ({offset}) is {word} than {end} offset for topic partition"
                f" {partition}. Value will be set to {plan[partition]}",
                file=sys.stderr,
            )
    return plan


def since(admin: Admin, partitions: Sequence[TopicPartition], time_ms: int) -> Plan:
    """The first record at or after a time; the end if there is none."""
    # Not below 0, because negative values have special meanings.
    found = _found(admin.offsets.find(partitions, max(0, time_ms)))
    ends = _found(admin.offsets.find(partitions, LATEST))
    for partition in partitions:
        if found[partition] < 0:
            print(
                f"\nWarn: Partition {partition.partition} from topic {partition.topic} is empty."
                " Falling back to latest known offset."
            )
            found[partition] = ends[partition]
    return found


def topic_partitions(admin: Admin, words: Iterable[str]) -> list[TopicPartition]:
    """`topic` or `topic:0,1`; all of them must exist."""
    wanted: list[TopicPartition] = []
    for word in words:
        topic, colon, numbers = word.partition(":")
        known = partitions_of(admin, [topic])
        if not known:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not colon:
            wanted += known
            continue
        chosen = [TopicPartition(topic, number) for number in _partitions(word, numbers)]
        missing = ",".join(str(partition) for partition in chosen if partition not in known)
        if missing:
            words = f'The partitions "{missing}" do not exist'
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, words)
        wanted += chosen
    return wanted


def _partitions(word: str, numbers: str) -> list[int]:
    """The `0,1` of `topic:0,1`."""
    if not numbers:
        raise UsageError(f"Invalid topic arg '{word}', expected topic name and partitions")
    found = []
    for number in numbers.split(","):
        if not number.isdigit():
            raise UsageError(f"Invalid partition '{number}' specified in topic arg '{word}''")
        found.append(int(number))
    return found


def delete_offsets(admin: Admin, options: Options) -> None:
    delete_offsets_of(admin, options.require("group"), options.values("topic"))


def delete_offsets_of(admin: Admin, name: str, words: Iterable[str]) -> None:
    results: dict[tuple[str, str], KafkaError | None] = {}
    partitions: list[TopicPartition] = []
    for word in words:
        topic, colon, numbers = word.partition(":")
        if colon:  # the broker reports those that do not exist
            partitions += [TopicPartition(topic, number) for number in _partitions(word, numbers)]
            continue
        try:
            partitions += topic_partitions(admin, [word])
        except KafkaError as error:
            results[topic, "-"] = error
    overall: KafkaError | None = None
    try:
        for partition, result in admin.groups.delete_offsets(name, partitions).items():
            results[partition.topic, str(partition.partition)] = result
    except KafkaError as error:
        overall = error
        results |= {(partition.topic, str(partition.partition)): error for partition in partitions}
    _say_deleted(
        name,
        overall,
        [results[partition.topic, str(partition.partition)] for partition in partitions],
    )
    print_table(
        DELETE_COLUMNS,
        [
            [
                *key,
                f"Error: {describe_error(result)}" if result else "Successful".ljust(STATUS_WIDTH),
            ]
            for key, result in sorted(results.items(), key=lambda item: item[0])
        ],
    )


def _say_deleted(
    name: str, overall: KafkaError | None, errors: Sequence[KafkaError | None]
) -> None:
    if overall is not None:
        print(f"\nError: {message_of(overall)}")
    elif any(errors):
        print("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"Request succeeded for deleting offsets from group {name}.")


def to_csv(plans: Mapping[str, Plan], *, several: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for name, plan in plans.items():
        for partition, offset in plan.items():
            row = [partition.topic, partition.partition, offset]
            writer.writerow([name, *row] if several else row)
    return out.getvalue()


def from_csv(text: str, *, several: bool) -> dict[str, Plan]:
    """Plans by group; the key is '' if the rows name no group, because there is only one."""
    plans: dict[str, Plan] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        try:
            *group, topic, partition, offset = row
            if len(group) > 1 or (several and not group):
                raise ValueError
            plan = plans.setdefault(group[0] if group else "", {})
            plan[TopicPartition(topic.strip(), int(partition))] = int(offset)
        except ValueError:
            form = "group,topic,partition,offset" if several else "topic,partition,offset"
            raise ToolError(f"line {number} of the file is not {form}: {','.join(row)}") from None
    return plans


def parse_datetime(text: str) -> int:
    """Milliseconds since 1970; UTC if there is no time zone."""
    if "T" not in text:
        raise ToolError(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T'"
            " according to ISO8601 format"
        )
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise ToolError(f"java.text.ParseException: {error}") from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return (when - EPOCH) // timedelta(milliseconds=1)  # exact, unlike floats


def parse_duration(text: str) -> int:
    """`P7DT12H30M`, in milliseconds."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:]):
        raise ToolError("Text cannot be parsed to a Duration")
    days, hours, minutes, seconds = (float(number or 0) for number in found.groups()[1:])
    total_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return int((-total_s if found[1] == "-" else total_s) * 1000)


def _found(offsets: Mapping[TopicPartition, OffsetAt | KafkaError]) -> Plan:
    plan = {}
    for partition, at in offsets.items():
        if isinstance(at, KafkaError):
            raise ToolError(f"{partition}: {message_of(at)}")
        plan[partition] = at.offset
    return plan


def _integer(options: Options, name: str) -> int:
    value = options.integer(name)
    assert value is not None
    return value


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ToolError(f"Unable to read file {path}: {error.strerror}") from None
