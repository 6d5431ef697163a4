"""kafka-streams-groups: list, describe and delete streams groups, and move their offsets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.exceptions import describe as describe_error
from ottla.cli.kafka.group_offsets import SCENARIOS
from ottla.cli.kafka.group_tool import (
    DESCRIBE_OPTIONS,
    RESET_OPTIONS,
    TIMEOUT,
    VERBOSE,
    check_describe,
    check_describe_only,
    check_execute,
    check_groups,
    print_deletion,
    print_groups,
    serve,
    undeletable,
)
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, UsageError
from ottla.cli.kafka.streams_offsets import (
    delete_internal_topics,
    delete_offsets,
    reset_offsets,
)
from ottla.cli.kafka.streams_report import describe_groups
from ottla.cli.kafka.tool import run
from ottla.client.admin import Admin
from ottla.client.streams_groups import StreamsGroupDescription

NAME: Final = "kafka-streams-groups"
DESCRIPTION: Final = (
    "This tool lists, describes and deletes streams groups, and resets or deletes their offsets."
)
ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
STATES: Final = ("Empty", "Stable", "Reconciling", "NotReady", "Dead", "Assigning")

OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("list", "List the streams groups."),
    Option("describe", "Describe streams groups, their members and offsets."),
    Option("delete", "Delete streams groups that have no members."),
    Option("delete-offsets", "Delete a group's offsets for its input topics."),
    Option("reset-offsets", "Set the offsets of groups without members."),
    Option("group", "The group; repeatable.", "group"),
    Option("all-groups", "All streams groups."),
    Option("input-topic", "A topic, or some partitions of one: topic:0,1,2.", "topic"),
    Option("all-input-topics", "All source topics of the group's topology."),
    Option("delete-internal-topic", "With --reset-offsets --execute: delete this one.", "topic"),
    Option("delete-all-internal-topics", "Also delete the group's internal topics."),
    *DESCRIBE_OPTIONS,
    VERBOSE,
    *RESET_OPTIONS,
    TIMEOUT,
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    return serve("streams", check(options), _ACTIONS, options)


def check(options: Options) -> str:
    """The order of Kafka's own checks."""
    actions = [action for action in ACTIONS if options.has(action)]
    options.require("bootstrap-server")
    if "describe" in actions:
        check_describe(options)
    if len(actions) != 1:
        raise UsageError(
            "Command must include exactly one action: --list, --describe, --delete,"
            " --reset-offsets, or --delete-offsets."
        )
    (action,) = actions
    _CHECKS[action](options)
    if action != "describe":
        check_describe_only(options)
    options.refuse("group", ["all-groups", "list"])
    options.refuse("input-topic", ["list", "describe"])
    return action


def _check_delete(options: Options) -> None:
    check_groups(options, "delete")
    if options.has("input-topic"):
        raise UsageError(
            "Kafka Streams does not support topic-specific offset deletion from a streams group."
        )


def _check_delete_offsets(options: Options) -> None:
    topics = options.has("input-topic") or options.has("all-input-topics")
    if not options.has("group") or not topics:
        raise UsageError(
            "Option [delete-offsets] takes the [group] and one of these options:"
            " [all-input-topics], [input-topic]"
        )


def _check_reset(options: Options) -> None:
    check_execute(options, either_is_needed=True)
    check_groups(options, "reset-offsets")
    for name in ("delete-internal-topic", "delete-all-internal-topics"):
        if options.has(name) and not options.has("execute"):
            raise UsageError(f"Option [reset-offsets] takes [execute] when [{name}] is used.")
    scenarios = [scenario for scenario in SCENARIOS if options.has(scenario)]
    if len(scenarios) > 1:
        raise UsageError(f'Option "[{scenarios[0]}]" can\'t be used with option "[{scenarios[1]}]"')


def list_groups(admin: Admin, options: Options) -> None:
    print_groups(admin.streams_groups.list(), options, STATES)


def delete_groups(admin: Admin, options: Options) -> None:
    known = {group.name: group for group in admin.streams_groups.list()}
    names = list(dict.fromkeys(options.values("group") or sorted(known)))
    unknown = "does not exist or is not a streams group."
    failures = undeletable(known, names, kind="streams", unknown=unknown)
    empty = [name for name in names if name not in failures]
    described = admin.streams_groups.describe(*empty) if empty else {}
    for name, error in (admin.groups.delete(*empty) if empty else {}).items():
        if error is not None:
            failures[name] = describe_error(error)
    deleted = [name for name in names if name not in failures]
    print_deletion("streams", deleted, failures, end=".")
    if options.has("delete-all-internal-topics") and deleted:
        for name in deleted:
            found = described[name]
            if isinstance(found, StreamsGroupDescription):
                delete_internal_topics(admin, found.internal_topics())
        shown = ", ".join(f"'{name}'" for name in deleted)
        print(
            f"Deletion of associated internal topics of the streams groups ({shown}) was"
            " successful."
        )


_CHECKS: Final = {
    "list": lambda options: None,
    "describe": lambda options: None,  # checked before the number of actions, as in Kafka
    "delete": _check_delete,
    "delete-offsets": _check_delete_offsets,
    "reset-offsets": _check_reset,
}
_ACTIONS: Final = {
    "list": list_groups,
    "describe": describe_groups,
    "delete": delete_groups,
    "reset-offsets": reset_offsets,
    "delete-offsets": delete_offsets,
}


if __name__ == "__main__":
    sys.exit(main())
