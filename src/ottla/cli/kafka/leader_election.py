"""kafka-leader-election: elects preferred replicas as leaders, or any live replica."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ottla.cli.kafka.exceptions import describe
from ottla.cli.kafka.options import Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, read_properties, run
from ottla.client.admin import Admin
from ottla.client.reassignments import ElectionType, Results
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError

NAME: Final = "kafka-leader-election"
DESCRIPTION: Final = """\
This tool attempts to elect a new leader for a set of topic partitions: the preferred replica, or
(unclean: records may be lost) any live replica of a partition that has no leader.

Examples:
  kafka-leader-election --bootstrap-server localhost:9092 \\
      --election-type preferred --all-topic-partitions
  kafka-leader-election --bootstrap-server localhost:9092 \\
      --election-type unclean --topic orders --partition 0
"""
WHICH: Final = ("topic", "all-topic-partitions", "path-to-json-file")

OPTIONS: Final = (
    Option(
        "bootstrap-server",
        "REQUIRED: The broker(s) to connect to: HOST1:PORT1,HOST2:PORT2.",
        "host:port",
    ),
    Option("command-config", "A properties file with client settings.", "Config file"),
    Option("admin.config", "The old name of --command-config.", "config file"),
    Option(
        "election-type",
        "REQUIRED: preferred (where another than the first replica leads) or unclean (where"
        " nobody leads).",
        "election type",
    ),
    Option("topic", "The topic of the one partition to elect a leader for.", "topic name"),
    Option("partition", "The partition; REQUIRED with --topic.", "partition id"),
    Option("all-topic-partitions", "All partitions that need an election of this type."),
    Option(
        "path-to-json-file",
        "A file with partitions:\n"
        ' {"partitions": [{"topic": "foo", "partition": 1}, {"topic": "bar", "partition": 2}]}',
        "Path to JSON file",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    election, partitions = check(options)
    config = options.value("command-config")
    if options.has("admin.config"):
        print(
            "Option --admin.config has been deprecated and will be removed in a future version."
            " Use --command-config instead."
        )
        config = options.value("admin.config")
    settings = read_properties(config)
    with Admin(options.require("bootstrap-server"), settings=dict(settings)) as admin:
        try:
            results = admin.reassignments.elect(election, partitions)
        except KafkaError as error:
            if error.code is not ErrorCode.REQUEST_TIMED_OUT:
                raise
            print("Timeout waiting for election results")
            raise ToolError("Timeout waiting for election results") from None
    report(election, results)
    return 0


def check(options: Options) -> tuple[ElectionType, list[TopicPartition] | None]:
    """The type of election and its partitions; None means all of them."""
    missing = [
        option for option in ("bootstrap-server", "election-type") if not options.has(option)
    ]
    if missing:
        raise ToolError(f"Missing required option(s): {', '.join(missing)}")
    kind = options.require("election-type").upper()
    if kind not in ElectionType.__members__:
        raise UsageError(f"Cannot parse argument '{kind.lower()}' of option election-type")
    if sum(options.has(option) for option in WHICH) != 1:
        raise ToolError(
            f"One and only one of the following options is required: {', '.join(WHICH)}"
        )
    if options.has("topic") and not options.has("partition"):
        raise ToolError("Missing required option(s): partition")
    if options.has("partition") and not options.has("topic"):
        raise ToolError("Option partition is only allowed if topic is used")
    partitions = None
    if options.has("topic"):
        index = options.integer("partition")
        assert index is not None
        partitions = [TopicPartition(options.require("topic"), index)]
    elif options.has("path-to-json-file"):
        partitions = parse(_read(options.require("path-to-json-file")))
    return ElectionType[kind], partitions


def report(election: ElectionType, results: Results) -> None:
    """Print the results; ToolError if a partition has no such leader."""
    done = [partition for partition, error in results.items() if error is None]
    needless = [
        partition
        for partition, error in results.items()
        if error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED
    ]
    kind = election.name
    if done:
        print(
            f"Successfully completed leader election ({kind}) for partitions"
            f" {', '.join(map(str, done))}"
        )
    if needless:
        print(f"Valid replica already elected for partitions {', '.join(map(str, needless))}")
    failed = 0
    for partition, error in results.items():
        if error is not None and partition not in needless:
            failed += 1
            print(
                f"Error completing leader election ({kind}) for partition: {partition}:"
                f" {describe(error)}"
            )
    if failed:
        raise ToolError(f"{failed} replica(s) could not be elected")


def parse(text: str) -> list[TopicPartition]:
    try:
        data: Any = json.loads(text)
    except ValueError:
        raise ToolError("Replica election data is empty") from None
    if not isinstance(data, dict) or not isinstance(data.get("partitions"), list):
        raise ToolError('Replica election data is missing "partitions" field')
    try:
        found = [
            TopicPartition(entry["topic"], int(entry["partition"])) for entry in data["partitions"]
        ]
    except (KeyError, TypeError, ValueError):
        raise ToolError("Each partition has a topic and a partition") from None
    twice = sorted({str(partition) for partition in found if found.count(partition) > 1})
    if twice:
        shown = ", ".join(twice)
        raise ToolError(f"Replica election data contains duplicate partitions: [{shown}]")
    return found


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise ToolError(f"Unable to read file {path}") from None


if __name__ == "__main__":
    sys.exit(main())
