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
from ottla.client.describing import GroupDescription
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
STATUS_WIDTH: Final = 15  # which a longer status does not widen
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
    names = options.values("group") or [each.name for each in admin.groups.list()]
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
            [name, each.topic, str(each.partition), str(offset)]
            for name, plan in plans.items()
            for each, offset in plan.items()
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
        current = {each: found.offset for each, found in admin.groups.offsets(name).items()}
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
        missing = next((each for each in partitions if each not in current), None)
        if missing is not None:
            raise UsageError(
                f"Cannot shift offset for partition {missing} since there is no current committed"
                " offset"
            )
        return within_log(admin, {each: current[each] + shift for each in partitions})
    if options.has("to-datetime"):
        return since(admin, partitions, parse_datetime(options.require("to-datetime")))
    if options.has("by-duration"):
        ago_ms = parse_duration(options.require("by-duration"))
        return since(admin, partitions, int(time.time() * 1000) - ago_ms)
    new = [each for each in partitions if each not in current]
    ends = _found(admin.offsets.find(new, LATEST))
    return {each: current[each] if each in current else ends[each] for each in partitions}


def within_log(admin: Admin, wanted: Plan) -> Plan:
    """Offsets outside of the log go to its nearer end, with a warning."""
    first = _found(admin.offsets.find(wanted, EARLIEST))
    last = _found(admin.offsets.find(wanted, LATEST))
    plan = {}
    for each, offset in wanted.items():
        plan[each] = min(max(offset, first[each]), last[each])
        if offset != plan[each]:
            word, end = ("lower", "earliest") if offset < first[each] else ("higher", "latest")
            print(
                f"WARN New offset ({offset}) is {word} than {end} offset for topic partition"
                f" {each}. Value will be set to {plan[each]}",
                file=sys.stderr,
            )
    return plan


def since(admin: Admin, partitions: Sequence[TopicPartition], time_ms: int) -> Plan:
    """The first record at or after a time; the end where there is none."""
    found = _found(admin.offsets.find(partitions, max(0, time_ms)))  # below 0 are other things
    ends = _found(admin.offsets.find(partitions, LATEST))
    for each in partitions:
        if found[each] < 0:
            print(
                f"\nWarn: Partition {each.partition} from topic {each.topic} is empty. Falling"
                " back to latest known offset."
            )
            found[each] = ends[each]
    return found


def topic_partitions(admin: Admin, words: Iterable[str]) -> list[TopicPartition]:
    """`topic` or `topic:0,1` each; all must exist."""
    wanted: list[TopicPartition] = []
    for word in words:
        topic, colon, numbers = word.partition(":")
        known = partitions_of(admin, [topic])
        if not known:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not colon:
            wanted += known
            continue
        chosen = [TopicPartition(topic, each) for each in _partitions(word, numbers)]
        missing = ",".join(str(each) for each in chosen if each not in known)
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
    for each in numbers.split(","):
        if not each.isdigit():
            raise UsageError(f"Invalid partition '{each}' specified in topic arg '{word}''")
        found.append(int(each))
    return found


def delete_offsets(admin: Admin, options: Options) -> None:
    delete_offsets_of(admin, options.require("group"), options.values("topic"))


def delete_offsets_of(admin: Admin, name: str, words: Iterable[str]) -> None:
    results: dict[tuple[str, str], KafkaError | None] = {}
    partitions: list[TopicPartition] = []
    for word in words:
        topic, colon, numbers = word.partition(":")
        if colon:  # the broker says which of them it does not have
            partitions += [TopicPartition(topic, each) for each in _partitions(word, numbers)]
            continue
        try:
            partitions += topic_partitions(admin, [word])
        except KafkaError as error:
            results[topic, "-"] = error
    overall: KafkaError | None = None
    try:
        for each, result in admin.groups.delete_offsets(name, partitions).items():
            results[each.topic, str(each.partition)] = result
    except KafkaError as error:
        overall = error
        results |= {(each.topic, str(each.partition)): error for each in partitions}
    _say_deleted(name, overall, [results[each.topic, str(each.partition)] for each in partitions])
    print_table(
        DELETE_COLUMNS,
        [
            [
                *key,
                f"Error: {describe_error(result)}" if result else "Successful".ljust(STATUS_WIDTH),
            ]
            for key, result in sorted(results.items(), key=lambda each: each[0])
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
        for each, offset in plan.items():
            row = [each.topic, each.partition, offset]
            writer.writerow([name, *row] if several else row)
    return out.getvalue()


def from_csv(text: str, *, several: bool) -> dict[str, Plan]:
    """Plans by group; where rows name no group (there is but one then), it is called ''."""
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
    """Milliseconds since 1970; without a time zone it is UTC."""
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
    return (when - EPOCH) // timedelta(milliseconds=1)  # in whole numbers: floats lose some


def parse_duration(text: str) -> int:
    """`P7DT12H30M`, in milliseconds."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:]):
        raise ToolError("Text cannot be parsed to a Duration")
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups()[1:])
    total_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return int((-total_s if found[1] == "-" else total_s) * 1000)


def _found(offsets: Mapping[TopicPartition, OffsetAt | KafkaError]) -> Plan:
    plan = {}
    for each, at in offsets.items():
        if isinstance(at, KafkaError):
            raise ToolError(f"{each}: {message_of(at)}")
        plan[each] = at.offset
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
