"""ottla consume: records of topics on standard output."""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ottla.cli.kafka.get_offsets import partitions_of
from ottla.cli.kafka.tool import broken_pipe, read_properties
from ottla.cli.output import LOCALHOST, AsJson, Bootstrap, CommandConfig, console
from ottla.cli.verbs.places import time_of
from ottla.client.admin import Admin
from ottla.client.consumer import Consumer
from ottla.client.offsets import EARLIEST, LATEST, OffsetAt
from ottla.client.record import Record, TopicPartition
from ottla.errors import ErrorCode, KafkaError

HELP = """Print records as they come; `--exit` stops at the end.

[dim]ottla consume orders                             what comes from now on
ottla consume orders --from beginning --exit     all there is
ottla consume orders --from 2026-01-31T12:00 -n 10
ottla consume orders --group billing             go on where the group is
ottla consume orders --json | jq .value[/dim]
"""


def consume(
    topics: Annotated[list[str], typer.Argument(help="Topics, or regular expressions with ^.")],
    *,
    start: Annotated[
        str,
        typer.Option("--from", "-f", help="beginning, end, an offset, -N from the end, a time."),
    ] = "end",
    count: Annotated[int | None, typer.Option("--count", "-n", help="Stop after so many.")] = None,
    exit_at_end: Annotated[bool, typer.Option("--exit", "-e", help="Stop at the end.")] = False,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Read as a group.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Only this partition.")
    ] = None,
    committed: Annotated[bool, typer.Option(help="Only what is committed.")] = False,
    bootstrap_server: Bootstrap = LOCALHOST,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    settings: dict[str, Any] = dict(read_properties(command_config))
    settings["isolation.level"] = "read_committed" if committed else "read_uncommitted"
    with Admin(bootstrap_server, settings=settings) as admin:
        partitions = _partitions(admin, topics, partition)
        starts = {} if group else _starts(admin, partitions, start)
        ends = _ends(admin, partitions) if exit_at_end else {}
    reset = "earliest" if start == "beginning" else "latest"
    reading = _Reading(ends, count, as_json=as_json)
    with Consumer(
        bootstrap_server, group=group, auto_offset_reset=reset, settings=settings
    ) as consumer:
        if group:
            consumer.subscribe(topics)
        else:
            consumer.assign(starts)
            reading.skip(starts)
        try:
            reading.run(consumer)
            sys.stdout.flush()
        except KeyboardInterrupt:
            pass
        except BrokenPipeError:  # `| head` has what it wanted
            raise typer.Exit(broken_pipe()) from None


class _Reading:
    """Prints until there are enough, the ends are reached, or Ctrl-C."""

    def __init__(
        self, ends: dict[TopicPartition, int], count: int | None, *, as_json: bool
    ) -> None:
        self._ends = {each: end for each, end in ends.items() if end > 0}
        self._to_the_end = bool(ends)
        self._left = count
        self._as_json = as_json
        self._console = console()

    def skip(self, starts: dict[TopicPartition, int]) -> None:
        """A partition that is read from its end has reached it."""
        for each, start in starts.items():
            if self._ends.get(each, -1) <= start:
                self._ends.pop(each, None)

    def run(self, consumer: Consumer) -> None:
        idle_since = time.monotonic()
        while not self._is_over():
            record = consumer.poll(0.5)
            if record is None:
                if self._to_the_end and time.monotonic() - idle_since > 10:
                    return  # aborted records and markers count as offsets, and never come
                continue
            idle_since = time.monotonic()
            self._print(record)
            if self._left is not None:
                self._left -= 1
            end = self._ends.get(record.topic_partition)
            if end is not None and record.offset + 1 >= end:
                del self._ends[record.topic_partition]
            if not consumer.has_more:
                sys.stdout.flush()

    def _is_over(self) -> bool:
        return self._left == 0 or (self._to_the_end and not self._ends)

    def _print(self, record: Record) -> None:
        if self._as_json:
            print(json.dumps(_as_object(record), ensure_ascii=False))
        elif not sys.stdout.isatty():
            sys.stdout.buffer.write((record.value or b"") + b"\n")
        else:
            at = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC).strftime("%H:%M:%S")
            where = f"{record.topic}:{record.partition}:{record.offset}"
            key = "" if record.key is None else f"{_text(record.key)} "
            self._console.print(f"[dim]{at} {where}[/]", end=" ")
            self._console.print(key, style="cyan", end="", markup=False)
            value = "(null)" if record.value is None else _text(record.value)
            self._console.print(value, markup=False)


def _partitions(admin: Admin, topics: list[str], partition: int | None) -> list[TopicPartition]:
    names = admin.topics.names()
    wanted = []
    for each in topics:
        if each.startswith("^"):
            wanted += [name for name in names if re.fullmatch(each, name)]
        elif each in names:
            wanted.append(each)
        else:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise KafkaError(code, f"topic {each} does not exist")
    found = partitions_of(admin, wanted)
    if partition is None:
        return found
    chosen = [each for each in found if each.partition == partition]
    if not chosen:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise KafkaError(code, f"{', '.join(topics)} has no partition {partition}")
    return chosen


def _starts(
    admin: Admin, partitions: list[TopicPartition], start: str
) -> dict[TopicPartition, int]:
    """Where to begin: `beginning`, `end`, `17`, `-5` (the last five), or a time."""
    first = _offsets(admin, partitions, EARLIEST)
    last = _offsets(admin, partitions, LATEST)
    if start == "beginning":
        return first
    if start == "end":
        return last
    if re.fullmatch(r"-?\d+", start):
        offset = int(start)
        return {
            each: max(first[each], last[each] + offset if offset < 0 else offset)
            for each in partitions
        }
    words = "beginning, end, an offset, -N"
    since = _offsets(admin, partitions, time_of(start, "--from", words))
    return {each: since[each] if since[each] >= 0 else last[each] for each in partitions}


def _ends(admin: Admin, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    return _offsets(admin, partitions, LATEST)


def _offsets(
    admin: Admin, partitions: list[TopicPartition], time_ms: int
) -> dict[TopicPartition, int]:
    found = {}
    for each, at in admin.offsets.find(partitions, time_ms).items():
        if not isinstance(at, OffsetAt):
            raise at
        found[each] = at.offset
    return found


def _as_object(record: Record) -> dict[str, object]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": None if record.key is None else _text(record.key),
        "value": None if record.value is None else _text(record.value),
        "headers": {name: None if data is None else _text(data) for name, data in record.headers},
    }


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
