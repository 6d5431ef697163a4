"""kafka-share-groups: list, describe and delete share groups, and move their start (KIP-932)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.exceptions import describe as describe_error
from ottla.cli.kafka.exceptions import message_of
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, UsageError
from ottla.cli.kafka.share_offsets import SCENARIOS, delete_offsets, reset_offsets
from ottla.cli.kafka.share_report import describe_groups
from ottla.cli.kafka.tool import ToolError, read_properties, run
from ottla.client.admin import Admin
from ottla.errors import KafkaError

NAME: Final = "kafka-share-groups"
DESCRIPTION: Final = (
    "This tool lists, describes and deletes share groups, and resets or deletes their offsets."
)
ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
STATES: Final = ("Dead", "Empty", "Stable")
GROUP_WIDTH: Final = 15

OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("list", "List the share groups."),
    Option("describe", "Show share groups, their members and where they start."),
    Option("delete", "Delete share groups that have no members."),
    Option("delete-offsets", "Forget the topics of a group that --topic names."),
    Option("reset-offsets", "Set where a group without members starts."),
    Option("group", "The group; may be given again.", "group"),
    Option("all-groups", "All share groups."),
    Option("topic", "A topic, or (to reset) some partitions of one: topic:0,1,2.", "topic"),
    Option("all-topics", "With --reset-offsets: all topics of the group."),
    Option("members", "With --describe: the members."),
    Option("offsets", "With --describe: the offsets; this is the default."),
    Option(
        "state",
        "With --describe: the state. With --list: show states, or list those in some states.",
        "states",
        optional=True,
    ),
    Option("verbose", "With --describe: more columns."),
    Option("dry-run", "With --reset-offsets: show what would be done."),
    Option("execute", "With --reset-offsets: do it."),
    Option("to-datetime", "Reset to the first record since: YYYY-MM-DDThh:mm:ss.sss.", "time"),
    Option("to-earliest", "Reset to the first offset."),
    Option("to-latest", "Reset to the last offset."),
    Option("timeout", "How long to wait.", "ms", default="30000"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    """As in Kafka, what goes wrong at the broker is printed and does not change the exit code."""
    action = check(options)
    settings = read_properties(options.value("command-config"))
    timeout_s = (options.integer("timeout") or 0) / 1000
    try:
        bootstrap = options.require("bootstrap-server")
        with Admin(bootstrap, settings=dict(settings), timeout_s=timeout_s) as admin:
            return _DO[action](admin, options) or 0
    except KafkaError as error:
        # What --describe waits for comes with its class, what --reset-offsets does without.
        failed(describe_error(error) if action == "describe" else message_of(error))
        print(describe_error(error), file=sys.stderr)
    except ToolError as error:
        failed(str(error))
    return 0


def failed(reason: str) -> None:
    print(f"\nError: Executing share group command failed due to {reason}")


def check(options: Options) -> str:
    actions = [each for each in ACTIONS if options.has(each)]
    if "describe" in actions:
        _check_describe(options)
    if len(actions) != 1:
        raise UsageError(
            "Command must include exactly one action: "
            + ", ".join(f"--{each}" for each in ACTIONS)
            + "."
        )
    (action,) = actions
    options.require("bootstrap-server")
    for name in ("members", "offsets", "verbose"):
        if action != "describe" and options.has(name):
            raise UsageError(
                f"Option(s) [{name}] are unavailable given other options on the command line"
            )
    if action in ("delete", "delete-offsets", "reset-offsets"):
        _CHECKS[action](options)
    options.refuse("group", ["all-groups", "list"])
    options.refuse("topic", ["list", "describe"])
    return action


def _check_describe(options: Options) -> None:
    if not options.has("group") and not options.has("all-groups"):
        raise UsageError("Option [describe] takes one of these options: [all-groups], [group]")
    if sum(map(options.has, ("members", "offsets", "state"))) > 1:
        raise UsageError(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if options.value("state") is not None:
        raise UsageError("Option [describe] does not take a value for [state]")


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
    if options.has("execute") and options.has("dry-run"):
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.has("execute") and not options.has("dry-run"):
        raise UsageError("Option [reset-offsets] takes the option: [execute] or [dry-run]")
    options.refuse("group", ["all-groups"])
    if not options.has("group"):
        raise UsageError("Option [reset-offsets] takes the option: [group]")
    if not options.has("topic") and not options.has("all-topics"):
        raise UsageError("Option [reset-offsets] takes one of these options: [all-topics], [topic]")
    if not any(map(options.has, SCENARIOS)):
        shown = ", ".join(f"[{each}]" for each in SCENARIOS)
        raise UsageError(f"Option [reset-offsets] takes one of these options: {shown}")
    for name in SCENARIOS:
        options.refuse(name, SCENARIOS)


def list_groups(admin: Admin, options: Options) -> None:
    states = _states(options)
    groups = sorted(admin.shares.list(), key=lambda each: each.name)
    if not options.has("state"):
        for each in groups:
            print(each.name)
        return
    shown = [each for each in groups if not states or each.state in states]
    width = max([GROUP_WIDTH, *(len(each.name) for each in shown)])
    print("GROUP".ljust(width), "STATE")
    for each in shown:
        print(each.name.ljust(width), each.state)


def _states(options: Options) -> set[str]:
    words = options.value("state")
    if words is None:
        return set()
    found = {each.strip().title() for each in words.split(",")}
    if not found <= set(STATES):
        raise UsageError(f"Invalid state list '{words}'. Valid states are: {', '.join(STATES)}")
    return found


def delete_groups(admin: Admin, options: Options) -> None:
    known = {each.name: each for each in admin.shares.list()}
    names = list(dict.fromkeys(options.values("group") or sorted(known)))
    failures: dict[str, str] = {}
    for name in names:
        reason = _undeletable(name, known[name].state if name in known else None)
        if reason is not None:
            failures[name] = reason
    doomed = [name for name in names if name not in failures]
    for name, error in (admin.shares.delete(*doomed) if doomed else {}).items():
        if error is not None:
            failures[name] = describe_error(error)
    deleted = ", ".join(f"'{name}'" for name in names if name not in failures)
    if not failures:
        print(f"Deletion of requested share groups ({deleted}) was successful.")
        return
    print("\nError: Deletion of some share groups failed:")
    for name, reason in failures.items():
        print(f"* Group '{name}' could not be deleted due to: {reason}")
    if deleted:
        print(f"\nThese share groups were deleted successfully: {deleted}")


def _undeletable(name: str, state: str | None) -> str | None:
    """Kafka's tool looks before it deletes: DeleteGroups would take a group of any type."""
    if state is None:
        return f"java.lang.IllegalArgumentException: Group '{name}' is not a share group."
    if state != "Empty":
        not_empty = "org.apache.kafka.common.errors.GroupNotEmptyException"
        return f"{not_empty}: Share group '{name}' is not EMPTY."
    return None


_CHECKS: Final = {
    "delete": _check_delete,
    "delete-offsets": _check_delete_offsets,
    "reset-offsets": _check_reset,
}
_DO: Final = {
    "list": list_groups,
    "describe": describe_groups,
    "delete": delete_groups,
    "reset-offsets": reset_offsets,
    "delete-offsets": delete_offsets,
}


if __name__ == "__main__":
    sys.exit(main())
