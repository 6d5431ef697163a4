"""kafka-consumer-groups: list, describe and delete groups, and move their offsets."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.exceptions import describe as describe_error
from ottla.cli.kafka.group_offsets import SCENARIOS, delete_offsets, reset_offsets
from ottla.cli.kafka.group_report import describe_groups
from ottla.cli.kafka.group_tool import (
    DESCRIBE_OPTIONS,
    GROUP_WIDTH,
    RESET_OPTIONS,
    TIMEOUT,
    VERBOSE,
    check_describe,
    check_execute,
    check_groups,
    chosen,
    print_deletion,
    serve,
)
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, UsageError
from ottla.cli.kafka.tool import run
from ottla.client.admin import Admin
from ottla.client.groups import GroupListing

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
GROUP_MARGIN: Final = 10
DRY_RUN: Final = (
    "WARN: Nothing is changed, because the --execute option is missing."
    " Scripts should pass --dry-run: a later version will require one of the two."
)

OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("list", "List the groups."),
    Option("describe", "Describe groups: their offsets, members or state."),
    Option("delete", "Delete groups that have no members."),
    Option("delete-offsets", "Delete the offsets of a group for --topic."),
    Option("reset-offsets", "Set the offsets of groups without members."),
    Option("validate-regex", "Validate a regular expression.", "regex"),
    Option("group", "The group; repeatable.", "group"),
    Option("all-groups", "All groups."),
    Option("topic", "A topic, or some partitions of one: topic:0,1,2.", "topic"),
    Option("all-topics", "With --reset-offsets: all topics for which a group has offsets."),
    *DESCRIBE_OPTIONS,
    Option("type", "With --list: show types, or list those of a type.", "types", optional=True),
    VERBOSE,
    *RESET_OPTIONS,
    TIMEOUT,
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    action = check(options)
    if action == "validate-regex":
        return validate_regex(options)
    return serve("consumer", action, _ACTIONS, options)


def check(options: Options) -> str:
    """The order of Kafka's own checks; the number of actions comes last."""
    actions = [action for action in ACTIONS if options.has(action)]
    if actions != ["validate-regex"]:
        options.require("bootstrap-server")
    if "describe" in actions:
        check_describe(options)
    else:
        _refuse_outside(options, "describe", ("members", "offsets", "verbose"))
    if "delete" in actions:
        _check_delete(options)
    if "delete-offsets" in actions and not (options.has("group") and options.has("topic")):
        raise UsageError("Option [delete-offsets] takes the following options: [topic], [group]")
    if "reset-offsets" in actions:
        _check_reset(options)
    options.refuse("group", ["all-groups", "list"])
    options.refuse("topic", ["list", "describe"])
    if len(actions) != 1:
        raise UsageError(
            "Command must include exactly one action: "
            + ", ".join(f"--{action}" for action in ACTIONS)
        )
    return actions[0]


def _refuse_outside(options: Options, action: str, names: Sequence[str]) -> None:
    """Refuse options that only make sense with this action."""
    given = [name for name in names if options.has(name)]
    if given and any(options.has(other) for other in ACTIONS if other != action):
        shown = ", ".join(given)
        words = f"Option(s) [{shown}] are unavailable given other options on the command line"
        raise UsageError(words)


def _check_delete(options: Options) -> None:
    check_groups(options, "delete")
    if options.has("topic"):
        raise UsageError(
            "The consumer does not support topic-specific offset deletion from a consumer group."
        )


def _check_reset(options: Options) -> None:
    check_execute(options, either_is_needed=False)
    if not options.has("execute") and not options.has("dry-run"):
        print(DRY_RUN, file=sys.stderr)
    check_groups(options, "reset-offsets")
    given = [scenario for scenario in SCENARIOS if options.has(scenario)]
    if len(given) > 1:
        raise UsageError(f'Option "[{given[0]}]" can\'t be used with option "[{given[1]}]"')
    if not (options.has("all-topics") or options.has("topic") or options.has("from-file")):
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    if not given:
        shown = ", ".join(f"[{scenario}]" for scenario in SCENARIOS)
        raise UsageError(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{shown}]"
        )


def list_groups(admin: Admin, options: Options) -> None:
    states = chosen(options, "state", STATES, "state")
    types = chosen(options, "type", TYPES, "types")
    groups = [
        group
        for group in sorted(admin.groups.list(), key=lambda group: group.name)
        if (not states or group.state.lower() in states)
        and (not types or group.type.lower() in types)
    ]
    if not options.has("state") and not options.has("type"):
        for group in groups:
            print(group.name)
        return
    width = max([GROUP_WIDTH, *(len(group.name) for group in groups)]) + GROUP_MARGIN
    with_type, with_state = options.has("type"), options.has("state")
    print(_listing_row("GROUP", width, "TYPE" if with_type else "", "STATE" if with_state else ""))
    for group in groups:
        print(_listed(group, width, with_type=with_type, with_state=with_state))


def _listed(group: GroupListing, width: int, *, with_type: bool, with_state: bool) -> str:
    return _listing_row(
        group.name, width, group.type if with_type else "", group.state if with_state else ""
    )


def _listing_row(name: str, width: int, kind: str, state: str) -> str:
    return " ".join([name.ljust(width), *(column.ljust(20) for column in (kind, state) if column)])


def delete_groups(admin: Admin, options: Options) -> None:
    names = options.values("group") or [group.name for group in admin.groups.list()]
    results = admin.groups.delete(*dict.fromkeys(names)) if names else {}
    failures = {n: describe_error(error) for n, error in results.items() if error is not None}
    print_deletion("consumer", [name for name in results if name not in failures], failures)


def validate_regex(options: Options) -> int:
    regex = options.require("validate-regex")
    try:
        re.compile(regex)
        print(f"The regular expression `{regex}` is valid.")
    except re.error as error:
        print(f"The regular expression `{regex}` is invalid: {error}.")
    return 0


_ACTIONS: Final = {
    "list": list_groups,
    "describe": describe_groups,
    "delete": delete_groups,
    "reset-offsets": reset_offsets,
    "delete-offsets": delete_offsets,
}


if __name__ == "__main__":
    sys.exit(main())
