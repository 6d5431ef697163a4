"""kafka-share-groups: list, describe and delete share groups, and move their start (KIP-932).

`--redrive` is Ottla's own: it sends the group's dead letters (KIP-1191) back to their topics.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.exceptions import describe as describe_error
from ottla.cli.kafka.group_tool import (
    DESCRIBE_OPTIONS,
    EXECUTE,
    TIMEOUT,
    TO_DATETIME,
    TO_EARLIEST,
    TO_LATEST,
    VERBOSE,
    check_describe,
    check_describe_only,
    check_execute,
    print_deletion,
    print_groups,
    serve,
    undeletable,
)
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, UsageError
from ottla.cli.kafka.share_offsets import SCENARIOS, delete_offsets, reset_offsets
from ottla.cli.kafka.share_redrive import check_redrive, redrive
from ottla.cli.kafka.share_report import describe_groups
from ottla.cli.kafka.tool import run
from ottla.client.admin import Admin

NAME: Final = "kafka-share-groups"
DESCRIPTION: Final = (
    "This tool lists, describes and deletes share groups, resets or deletes their offsets, and"
    " redrives their dead letters."
)
ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
OURS: Final = "redrive"  # an action that Kafka's tool and its messages lack
STATES: Final = ("Dead", "Empty", "Stable")

OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("list", "List the share groups."),
    Option("describe", "Describe share groups, their members and start offsets."),
    Option("delete", "Delete share groups that have no members."),
    Option("delete-offsets", "Delete a group's offsets for --topic."),
    Option("reset-offsets", "Set the start offsets of a group without members."),
    Option("redrive", "Send the group's dead letters back to their topics (Ottla's own)."),
    Option("group", "The group; repeatable.", "group"),
    Option("all-groups", "All share groups."),
    Option("topic", "A topic, or (to reset) some partitions of one: topic:0,1,2.", "topic"),
    Option("all-topics", "With --reset-offsets: all topics of the group."),
    *DESCRIBE_OPTIONS,
    VERBOSE,
    Option("dry-run", "With --reset-offsets, --redrive: only show the changes."),
    EXECUTE,
    TO_DATETIME,
    TO_EARLIEST,
    TO_LATEST,
    Option("from", "With --redrive: letters since YYYY-MM-DDThh:mm:ss.sss.", "time"),
    Option("to", "With --redrive: letters before YYYY-MM-DDThh:mm:ss.sss.", "time"),
    Option("limit", "With --redrive: the maximum number.", "count"),
    TIMEOUT,
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    return serve("share", check(options), _ACTIONS, options)


def check(options: Options) -> str:
    actions = [action for action in (*ACTIONS, OURS) if options.has(action)]
    if "describe" in actions:
        check_describe(options)
    if len(actions) != 1:
        raise UsageError(
            "Command must include exactly one action: "
            + ", ".join(f"--{action}" for action in ACTIONS)
            + "."
        )
    (action,) = actions
    options.require("bootstrap-server")
    if action != "describe":
        check_describe_only(options)
    if action != OURS:
        options.refuse(action, ["from", "to", "limit"])
    if action in _CHECKS:
        _CHECKS[action](options)
    options.refuse("group", ["all-groups", "list"])
    options.refuse("topic", ["list", "describe"])
    return action


def _check_delete(options: Options) -> None:
    if not options.has("group") and not options.has("all-groups"):
        raise UsageError("Option [delete] takes the options [group] or [all-groups]")
    if options.has("group") and options.has("all-groups"):
        raise UsageError("Option [delete] takes either [group] or [all-groups], not both.")
    if options.has("topic"):
        raise UsageError("Option [delete] does not take the option: [topic]")


def _check_delete_offsets(options: Options) -> None:
    if not options.has("group") or not options.has("topic"):
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")


def _check_reset(options: Options) -> None:
    check_execute(options, either_is_needed=True)
    options.refuse("group", ["all-groups"])
    if not options.has("group"):
        raise UsageError("Option [reset-offsets] takes the option: [group]")
    if not options.has("topic") and not options.has("all-topics"):
        raise UsageError("Option [reset-offsets] takes one of these options: [all-topics], [topic]")
    if not any(map(options.has, SCENARIOS)):
        shown = ", ".join(f"[{scenario}]" for scenario in SCENARIOS)
        raise UsageError(f"Option [reset-offsets] takes one of these options: {shown}")
    for name in SCENARIOS:
        options.refuse(name, SCENARIOS)


def list_groups(admin: Admin, options: Options) -> None:
    print_groups(admin.shares.list(), options, STATES)


def delete_groups(admin: Admin, options: Options) -> None:
    known = {group.name: group for group in admin.shares.list()}
    names = list(dict.fromkeys(options.values("group") or sorted(known)))
    failures = undeletable(known, names, kind="share", unknown="is not a share group.")
    empty = [name for name in names if name not in failures]
    for name, error in (admin.shares.delete(*empty) if empty else {}).items():
        if error is not None:
            failures[name] = describe_error(error)
    print_deletion("share", [name for name in names if name not in failures], failures)


_CHECKS: Final = {
    "delete": _check_delete,
    "delete-offsets": _check_delete_offsets,
    "reset-offsets": _check_reset,
    OURS: check_redrive,
}
_ACTIONS: Final = {
    "list": list_groups,
    "describe": describe_groups,
    "delete": delete_groups,
    "reset-offsets": reset_offsets,
    "delete-offsets": delete_offsets,
    OURS: redrive,
}


if __name__ == "__main__":
    sys.exit(main())
