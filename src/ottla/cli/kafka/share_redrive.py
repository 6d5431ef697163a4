"""kafka-share-groups --redrive, which Kafka's tool lacks: sends dead letters back."""

from __future__ import annotations

import sys
from typing import Final

from ottla.cli.kafka.group_offsets import parse_datetime
from ottla.cli.kafka.group_report import Column, print_table
from ottla.cli.kafka.options import Options, UsageError
from ottla.client.admin import Admin
from ottla.client.redrive import RedriveFilter, RedriveSummary

COLUMNS: Final[tuple[Column, ...]] = (
    ("GROUP", 15),
    ("TOPIC", 15),
    ("PARTITION", 10),
    ("REDRIVEN", 0),
)


def check_redrive(options: Options) -> None:
    if not options.has("group"):
        raise UsageError("Option [redrive] takes the option: [group]")
    options.refuse("redrive", ["all-groups", "all-topics", "execute"])


def redrive(admin: Admin, options: Options) -> int:
    """Prints progress to standard error, the result to standard output."""
    name = options.require("group")
    dry_run = options.has("dry-run")
    choice = RedriveFilter(
        topics=tuple(options.values("topic")),
        from_ms=_time(options, "from"),
        to_ms=_time(options, "to"),
        limit=options.integer("limit"),
    )
    summary = admin.shares.redrive(name, choice, dry_run=dry_run, progress=show_progress)
    rows = [
        [name, partition.topic, str(partition.partition), str(count)]
        for partition, count in sorted(summary.redriven.items())
    ]
    print_table([("GROUP", max(15, len(name))), *COLUMNS[1:]], rows)
    print(f"\n{summary_text(summary, dry_run=dry_run)}")
    return 0


def show_progress(summary: RedriveSummary) -> None:
    print(f"{summary.count} records redriven", file=sys.stderr)


def summary_text(summary: RedriveSummary, *, dry_run: bool) -> str:
    """The result in one sentence."""
    words = "would be redriven" if dry_run else "redriven"
    records = "record" if summary.count == 1 else "records"
    parts = [f"{summary.count} {records} {words} from {summary.dead_letter_topic}"]
    if summary.filtered:
        parts.append(f"{summary.filtered} left out by filters")
    if summary.lost:
        parts.append(f"{summary.lost} lost: not copied, and no longer in their topics")
    if summary.homeless:
        parts.append(f"{summary.homeless} left: their topics do not exist")
    return "; ".join(parts) + "."


def _time(options: Options, name: str) -> int | None:
    text = options.value(name)
    return None if text is None else parse_datetime(text)
