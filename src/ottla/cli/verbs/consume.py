"""ottla consume: prints records of topics on standard output."""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ottla.cli.console import LOCALHOST, AsJson, Bootstrap, CommandConfig, console
from ottla.cli.kafka.get_offsets import partitions_of
from ottla.cli.kafka.tool import broken_pipe, read_properties
from ottla.cli.verbs.timestamps import parse_timestamp
from ottla.client.admin import Admin
from ottla.client.consumer import Consumer
from ottla.client.offsets import EARLIEST, LATEST, OffsetAt
from ottla.client.record import ConsumerRecord, TopicPartition
from ottla.errors import ErrorCode, KafkaError

HELP = """Print records as they arrive; `--exit` stops at the end.

[dim]ottla consume orders                             new records
ottla consume orders --from beginning --exit     all records
ottla consume orders --from 2026-01-31T12:00 -n 10
ottla consume orders --group billing             continue at the group's offsets
ottla consume orders --json | jq .value[/dim]
"""


def consume(
    topics: Annotated[list[str], typer.Argument(help="Topics, or regular expressions with ^.")],
    *,
    start: Annotated[
        str,
        typer.Option("--from", "-f", help="beginning, end, an offset, -N from the end, a time."),
    ] = "end",
    count: Annotated[
        int | None, typer.Option("--count", "-n", help="Stop after this number of records.")
    ] = None,
    exit_at_end: Annotated[bool, typer.Option("--exit", "-e", help="Stop at the end.")] = False,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Read as a group.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Only this partition.")
    ] = None,
    committed: Annotated[
        bool, typer.Option(help="Only committed records (read_committed).")
    ] = False,
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
    reading = _RecordPrinter(ends, count, as_json=as_json)
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
        except BrokenPipeError:  # `| head` has closed the pipe
            raise typer.Exit(broken_pipe()) from None


class _RecordPrinter:
    """Prints until there are enough records, the end offsets are reached, or Ctrl-C."""

    def __init__(
        self, ends: dict[TopicPartition, int], count: int | None, *, as_json: bool
    ) -> None:
        self._ends = {partition: end for partition, end in ends.items() if end > 0}
        self._to_the_end = bool(ends)
        self._left = count
        self._as_json = as_json
        self._console = console()

    def skip(self, starts: dict[TopicPartition, int]) -> None:
        """A partition that is read from its end is complete."""
        for partition, start in starts.items():
            if self._ends.get(partition, -1) <= start:
                self._ends.pop(partition, None)

    def run(self, consumer: Consumer) -> None:
        idle_since = time.monotonic()
        while not self._is_over():
            record = consumer.poll(0.5)
            if record is None:
                if self._to_the_end and time.monotonic() - idle_since > 10:
                    return  # aborted records and markers have offsets, but never arrive
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

    def _print(self, record: ConsumerRecord) -> None:
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
    for topic in topics:
        if topic.startswith("^"):
            wanted += [name for name in names if re.fullmatch(topic, name)]
        elif topic in names:
            wanted.append(topic)
        else:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise KafkaError(code, f"topic {topic} does not exist")
    found = partitions_of(admin, wanted)
    if partition is None:
        return found
    chosen = [
        found_partition for found_partition in found if found_partition.partition == partition
    ]
    if not chosen:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise KafkaError(code, f"{', '.join(topics)} has no partition {partition}")
    return chosen


def _starts(
    admin: Admin, partitions: list[TopicPartition], start: str
) -> dict[TopicPartition, int]:
    """The first offsets: `beginning`, `end`, `17`, `-5` (the last five), or a time."""
    first = _offsets(admin, partitions, EARLIEST)
    last = _offsets(admin, partitions, LATEST)
    if start == "beginning":
        return first
    if start == "end":
        return last
    if re.fullmatch(r"-?\d+", start):
        offset = int(start)
        return {
            partition: max(first[partition], last[partition] + offset if offset < 0 else offset)
            for partition in partitions
        }
    words = "beginning, end, an offset, -N"
    since = _offsets(admin, partitions, parse_timestamp(start, "--from", words))
    return {
        partition: since[partition] if since[partition] >= 0 else last[partition]
        for partition in partitions
    }


def _ends(admin: Admin, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    return _offsets(admin, partitions, LATEST)


def _offsets(
    admin: Admin, partitions: list[TopicPartition], time_ms: int
) -> dict[TopicPartition, int]:
    found = {}
    for partition, at in admin.offsets.find(partitions, time_ms).items():
        if not isinstance(at, OffsetAt):
            raise at
        found[partition] = at.offset
    return found


def _as_object(record: ConsumerRecord) -> dict[str, object]:
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
