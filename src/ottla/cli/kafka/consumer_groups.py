"""kafka-consumer-groups: list, describe and delete groups, and move their offsets."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.exceptions import describe as describe_error
from ottla.cli.kafka.exceptions import message_of
from ottla.cli.kafka.group_offsets import SCENARIOS, delete_offsets, reset_offsets
from ottla.cli.kafka.group_report import describe_groups
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, read_properties, run
from ottla.client.admin import Admin
from ottla.client.groups import GroupListing
from ottla.errors import KafkaError

NAME: Final = "kafka-consumer-groups"
DESCRIPTION: Final = (
    "This tool lists, describes and deletes consumer groups, and resets or deletes their offsets."
)
ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
STATES: Final = (
    "CompletingRebalance",
    "Reconciling",
    "Assigning",
    "Stable",
    "PreparingRebalance",
    "Dead",
    "Empty",
)
TYPES: Final = ("Consumer", "Classic")
GROUP_WIDTH: Final = 15
GROUP_MARGIN: Final = 10
DRY_RUN: Final = (
    "WARN: Nothing is changed, as the --execute option is missing."
    " Say --dry-run in a script: a later version will want one of the two."
)

OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("list", "List the groups."),
    Option("describe", "Show how far groups have read, and who is in them."),
    Option("delete", "Delete groups that have no members."),
    Option("delete-offsets", "Delete the offsets of a group for --topic."),
    Option("reset-offsets", "Set the offsets of groups without members."),
    Option("validate-regex", "Is this a valid regular expression?", "regex"),
    Option("group", "The group; may be given again.", "group"),
    Option("all-groups", "All groups."),
    Option("topic", "A topic, or some partitions of one: topic:0,1,2.", "topic"),
    Option("all-topics", "With --reset-offsets: all topics that a group has offsets of."),
    Option("members", "With --describe: the members."),
    Option("offsets", "With --describe: the offsets; this is the default."),
    Option(
        "state",
        "With --describe: the state. With --list: show states, or list those in some states.",
        "states",
        optional=True,
    ),
    Option("type", "With --list: show types, or list those of a type.", "types", optional=True),
    Option("verbose", "With --describe: more columns."),
    Option("dry-run", "With --reset-offsets: show what would be done."),
    Option("execute", "With --reset-offsets: do it."),
    Option("export", "With --reset-offsets: print the plan as CSV, as --from-file reads it."),
    Option("to-offset", "Reset to this offset.", "offset"),
    Option("to-datetime", "Reset to the first record since: YYYY-MM-DDThh:mm:ss.sss.", "time"),
    Option("by-duration", "Reset to the first record since so long ago: PnDTnHnMnS.", "duration"),
    Option("to-earliest", "Reset to the first offset."),
    Option("to-latest", "Reset to the last offset."),
    Option("to-current", "Reset to where the group is."),
    Option("shift-by", "Reset by so many records, forward or (negative) back.", "count"),
    Option("from-file", "Reset to the offsets of a CSV file.", "file"),
    Option("timeout", "How long to wait.", "ms", default="30000"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    """As in Kafka, what goes wrong at the broker is printed and does not change the exit code."""
    action = check(options)
    if action == "validate-regex":
        return validate_regex(options)
    settings = read_properties(options.value("command-config"))
    timeout_s = (options.integer("timeout") or 0) / 1000
    try:
        bootstrap = options.require("bootstrap-server")
        with Admin(bootstrap, settings=dict(settings), timeout_s=timeout_s) as admin:
            _DO[action](admin, options)
    except KafkaError as error:
        # What --describe waits for comes with its class, the others' failures do without.
        failed(describe_error(error) if action == "describe" else message_of(error))
        print(describe_error(error), file=sys.stderr)
    except ToolError as error:
        failed(str(error))
    return 0


def failed(reason: str) -> None:
    print(f"\nError: Executing consumer group command failed due to {reason}")


def check(options: Options) -> str:
    """In the order of Kafka's own checks; how many actions there are comes last."""
    actions = [each for each in ACTIONS if options.has(each)]
    if actions != ["validate-regex"]:
        options.require("bootstrap-server")
    if "describe" in actions:
        _check_describe(options)
    else:
        _refuse_outside(options, "describe", ("members", "offsets", "verbose"))
    if "delete" in actions:
        _check_groups(options, "delete")
    if "delete-offsets" in actions and not (options.has("group") and options.has("topic")):
        raise UsageError("Option [delete-offsets] takes the following options: [topic], [group]")
    if "reset-offsets" in actions:
        _check_reset(options)
    options.refuse("group", ["all-groups", "list"])
    options.refuse("topic", ["list", "describe"])
    if len(actions) != 1:
        raise UsageError(
            "Command must include exactly one action: " + ", ".join(f"--{each}" for each in ACTIONS)
        )
    return actions[0]


def _check_describe(options: Options) -> None:
    if not options.has("group") and not options.has("all-groups"):
        raise UsageError("Option [describe] takes one of these options: [all-groups], [group]")
    if sum(map(options.has, ("members", "offsets", "state"))) > 1:
        raise UsageError(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if options.value("state") is not None:
        raise UsageError("Option [describe] does not take a value for [state]")


def _refuse_outside(options: Options, action: str, names: Sequence[str]) -> None:
    """Options that have a meaning beside one action only."""
    given = [name for name in names if options.has(name)]
    if given and any(options.has(each) for each in ACTIONS if each != action):
        shown = ", ".join(given)
        words = f"Option(s) [{shown}] are unavailable given other options on the command line"
        raise UsageError(words)


def _check_groups(options: Options, action: str) -> None:
    if not options.has("group") and not options.has("all-groups"):
        raise UsageError(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if action == "delete" and options.has("topic"):
        raise UsageError(
            "The consumer does not support topic-specific offset deletion from a consumer group."
        )


def _check_reset(options: Options) -> None:
    if options.has("execute") and options.has("dry-run"):
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.has("execute") and not options.has("dry-run"):
        print(DRY_RUN, file=sys.stderr)
    _check_groups(options, "reset-offsets")
    given = [each for each in SCENARIOS if options.has(each)]
    if len(given) > 1:
        raise UsageError(f'Option "[{given[0]}]" can\'t be used with option "[{given[1]}]"')
    if not (options.has("all-topics") or options.has("topic") or options.has("from-file")):
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    if not given:
        shown = ", ".join(f"[{each}]" for each in SCENARIOS)
        raise UsageError(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{shown}]"
        )


def list_groups(admin: Admin, options: Options) -> None:
    states = _words(options, "state", STATES, "state")
    types = _words(options, "type", TYPES, "types")
    groups = [
        each
        for each in sorted(admin.groups.list(), key=lambda each: each.name)
        if (not states or each.state.lower() in states)
        and (not types or each.type.lower() in types)
    ]
    if not options.has("state") and not options.has("type"):
        for each in groups:
            print(each.name)
        return
    width = max([GROUP_WIDTH, *(len(each.name) for each in groups)]) + GROUP_MARGIN
    with_type, with_state = options.has("type"), options.has("state")
    print(_listing_row("GROUP", width, "TYPE" if with_type else "", "STATE" if with_state else ""))
    for each in groups:
        print(_listed(each, width, with_type=with_type, with_state=with_state))


def _listed(group: GroupListing, width: int, *, with_type: bool, with_state: bool) -> str:
    return _listing_row(
        group.name, width, group.type if with_type else "", group.state if with_state else ""
    )


def _listing_row(name: str, width: int, kind: str, state: str) -> str:
    return " ".join([name.ljust(width), *(each.ljust(20) for each in (kind, state) if each)])


def _words(options: Options, name: str, known: Sequence[str], what: str) -> set[str]:
    """The states or types that were asked for, in small letters."""
    words = options.value(name)
    if words is None:
        return set()
    found = {each.strip().lower() for each in words.split(",")}
    if not found <= {each.lower() for each in known}:
        plural = what if what.endswith("s") else f"{what}s"
        raise UsageError(f"Invalid {what} list '{words}'. Valid {plural} are: {', '.join(known)}")
    return found


def delete_groups(admin: Admin, options: Options) -> None:
    names = options.values("group") or [each.name for each in admin.groups.list()]
    results = admin.groups.delete(*dict.fromkeys(names)) if names else {}
    failures = {name: error for name, error in results.items() if error is not None}
    deleted = ", ".join(f"'{name}'" for name in results if name not in failures)
    if not failures:
        print(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    print("\nError: Deletion of some consumer groups failed:")
    for name, error in failures.items():
        print(f"* Group '{name}' could not be deleted due to: {describe_error(error)}")
    if deleted:
        print(f"\nThese consumer groups were deleted successfully: {deleted}")


def validate_regex(options: Options) -> int:
    regex = options.require("validate-regex")
    try:
        re.compile(regex)
        print(f"The regular expression `{regex}` is valid.")
    except re.error as error:
        print(f"The regular expression `{regex}` is invalid: {error}.")
    return 0


_DO: Final = {
    "list": list_groups,
    "describe": describe_groups,
    "delete": delete_groups,
    "reset-offsets": reset_offsets,
    "delete-offsets": delete_offsets,
}


if __name__ == "__main__":
    sys.exit(main())
