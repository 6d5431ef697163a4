"""kafka-streams-application-reset: resets a Streams application to its input topics' start."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ottla.cli.kafka.group_offsets import from_csv, new_offsets, topic_partitions, within_log
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, read_properties, run
from ottla.client.admin import Admin
from ottla.client.group_descriptions import GroupDescription
from ottla.client.record import TopicPartition
from ottla.errors import KafkaError

NAME: Final = "kafka-streams-application-reset"
DESCRIPTION: Final = (
    "This tool helps to quickly reset an application in order to reprocess its data from scratch:"
    " it sets the offsets of its input topics and deletes its internal topics. Stop all instances"
    " first; then call cleanup() of each, or delete its state directory."
)
SCENARIOS: Final = (
    "to-offset",
    "to-earliest",
    "to-latest",
    "by-duration",
    "to-datetime",
    "from-file",
    "shift-by",
)
INTERNAL: Final = re.compile(
    r".+-(changelog|repartition)|.+-(subscription-(registration|response))-topic"
)

OPTIONS: Final = (
    BOOTSTRAP,
    Option("application-id", "REQUIRED: The application's id (application.id).", "id"),
    Option("input-topics", "Topics whose offsets are set: topic1,topic2.", "list"),
    Option("internal-topics", "Internal topics to delete; default: all.", "list"),
    COMMAND_CONFIG,
    Option("config-file", "The old name of --command-config.", "file"),
    Option("to-offset", "Reset to this offset.", "offset"),
    Option("to-datetime", "Reset to the first record since: YYYY-MM-DDThh:mm:ss.sss.", "time"),
    Option(
        "by-duration", "Reset to the first record within this duration: PnDTnHnMnS.", "duration"
    ),
    Option("to-earliest", "Reset to the first offset. This is the default."),
    Option("to-latest", "Reset to the last offset."),
    Option("shift-by", "Reset by this number of records, forward or (negative) back.", "count"),
    Option("from-file", "Reset to the offsets of a CSV file.", "file"),
    Option("force", "Continue although the group has members."),
    Option("dry-run", "Only show the changes."),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    name = options.require("application-id")
    bootstrap = options.value("bootstrap-server") or "localhost:9092"
    scenarios = [scenario for scenario in SCENARIOS if options.has(scenario)]
    if len(scenarios) > 1:
        raise UsageError(f'Option "[{scenarios[0]}]" can\'t be used with option "[{scenarios[1]}]"')
    if options.has("dry-run"):
        print(
            "----Dry run displays the actions which will be performed when running Streams Reset"
            " Tool----"
        )
    options.refuse("command-config", ["config-file"])
    settings = read_properties(options.value("command-config") or options.value("config-file"))
    with Admin(bootstrap, settings=dict(settings)) as admin:
        _check_inactive(admin, name, force=options.has("force"))
        topics = admin.topics.names()
        code = _reset_inputs(admin, options, name, topics)
        return _delete_internal(admin, options, name, topics) or code


def _check_inactive(admin: Admin, name: str, *, force: bool) -> None:
    group = admin.groups.describe(name)[name]
    if isinstance(group, GroupDescription) and group.members and not force:
        raise ToolError(
            f"Consumer group '{name}' is still active and has following members:"
            f" {[member.id for member in group.members]}. Make sure to stop all running application"
            " instances before running the reset tool. You can use option '--force' to remove"
            " active members from the group."
        )


def _reset_inputs(admin: Admin, options: Options, name: str, topics: Iterable[str]) -> int:
    wanted = _listed(options, "input-topics")
    if not wanted:
        print("No input topics specified. Skipping seek.")
        return 0
    known = set(topics)
    found = [topic for topic in wanted if topic in known]
    missing = [topic for topic in wanted if topic not in known]
    if found:
        print(f"Reset-offsets for input topics [{', '.join(found)}]")
        plan = _plan(admin, options, name, found)
        print("Following input topics offsets will be reset to (for consumer group " + name + ")")
        for partition, offset in sorted(plan.items()):
            print(f"Topic: {partition.topic} Partition: {partition.partition} Offset: {offset}")
        if not options.has("dry-run"):
            admin.groups.alter_offsets(name, plan)
        print("Done.")
    if missing:
        print(f"Following input topics are not found, skipping them: [{', '.join(missing)}]")
    return 1 if missing else 0


def _plan(
    admin: Admin, options: Options, name: str, topics: list[str]
) -> dict[TopicPartition, int]:
    if options.has("from-file"):
        path = options.require("from-file")
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ToolError(f"Unable to read file {path}: {error.strerror}") from None
        return within_log(admin, from_csv(text, several=False).get("", {}))
    partitions = topic_partitions(admin, topics)
    current: dict[TopicPartition, int] = {}
    if options.has("shift-by"):
        current = {
            partition: found.offset for partition, found in admin.groups.offsets(name).items()
        }
    if not any(map(options.has, SCENARIOS)):
        options = Options(OPTIONS, ["--to-earliest"])
    return new_offsets(admin, options, partitions, current)


def _delete_internal(admin: Admin, options: Options, name: str, topics: Iterable[str]) -> int:
    own = [
        candidate
        for candidate in topics
        if candidate.startswith(f"{name}-") and INTERNAL.fullmatch(candidate)
    ]
    wanted = _listed(options, "internal-topics")
    wrong = [wanted_topic for wanted_topic in wanted if wanted_topic not in own]
    if wrong:
        raise ToolError(
            f"Invalid topic specified in the --internal-topics option: [{', '.join(wrong)}]."
            " Ensure that the topics specified are all internal topics. Do a dry run without the"
            " --internal-topics option to see the list of all internal topics that can be deleted."
        )
    chosen = wanted or own
    inferred = "" if wanted else "inferred "
    print(f"Deleting {inferred}internal topics [{', '.join(chosen)}]")
    failed = 0
    if chosen and not options.has("dry-run"):
        for topic, error in admin.topics.delete(*chosen).items():
            if isinstance(error, KafkaError):
                print(f"ERROR: Deleting topic {topic} failed: {error}")
                failed = 1
    print("Done.")
    return failed


def _listed(options: Options, name: str) -> list[str]:
    """The values of an option that may be repeated, and may have several with commas."""
    return [part.strip() for word in options.values(name) for part in word.split(",") if part]


if __name__ == "__main__":
    sys.exit(main())
