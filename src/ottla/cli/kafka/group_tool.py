"""The common part of kafka-consumer-groups, kafka-share-groups and kafka-streams-groups."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from ottla.cli.kafka.exceptions import describe as describe_error
from ottla.cli.kafka.exceptions import message_of
from ottla.cli.kafka.options import Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, read_properties
from ottla.client.admin import Admin
from ottla.errors import KafkaError

GROUP_WIDTH: Final = 15

DESCRIBE_OPTIONS: Final = (
    Option("members", "With --describe: the members."),
    Option("offsets", "With --describe: the offsets; this is the default."),
    Option(
        "state",
        "With --describe: the state. With --list: show states, or list those in some states.",
        "states",
        optional=True,
    ),
)
VERBOSE: Final = Option("verbose", "With --describe: more columns.")
EXECUTE: Final = Option("execute", "With --reset-offsets: apply it.")
TO_DATETIME: Final = Option(
    "to-datetime", "Reset to the first record since: YYYY-MM-DDThh:mm:ss.sss.", "time"
)
TO_EARLIEST: Final = Option("to-earliest", "Reset to the first offset.")
TO_LATEST: Final = Option("to-latest", "Reset to the last offset.")
RESET_OPTIONS: Final = (
    Option("dry-run", "With --reset-offsets: only show the changes."),
    EXECUTE,
    Option("export", "With --reset-offsets: print the plan as CSV, as --from-file reads it."),
    Option("to-offset", "Reset to this offset.", "offset"),
    TO_DATETIME,
    Option(
        "by-duration", "Reset to the first record within this duration: PnDTnHnMnS.", "duration"
    ),
    TO_EARLIEST,
    TO_LATEST,
    Option("to-current", "Reset to the current offset."),
    Option("shift-by", "Reset by this number of records, forward or (negative) back.", "count"),
    Option("from-file", "Reset to the offsets of a CSV file.", "file"),
)
TIMEOUT: Final = Option("timeout", "How long to wait.", "ms", default="30000")


class ListedGroup(Protocol):
    """A group's name and state."""

    @property
    def name(self) -> str: ...
    @property
    def state(self) -> str: ...


def serve(kind: str, action: str, actions: Mapping[str, Any], options: Options) -> int:
    """As in Kafka, errors from the broker are printed and do not change the exit code."""
    settings = read_properties(options.value("command-config"))
    timeout_s = (options.integer("timeout") or 0) / 1000
    failure = f"\nError: Executing {kind} group command failed due to "
    try:
        bootstrap = options.require("bootstrap-server")
        with Admin(bootstrap, settings=dict(settings), timeout_s=timeout_s) as admin:
            return actions[action](admin, options) or 0
    except KafkaError as error:
        # --describe prints the exception's class before its message, the other actions do not.
        print(failure + (describe_error(error) if action == "describe" else message_of(error)))
        print(describe_error(error), file=sys.stderr)
    except ToolError as error:
        print(f"{failure}{error}")
    return 0


def check_groups(options: Options, action: str) -> None:
    if not options.has("group") and not options.has("all-groups"):
        raise UsageError(f"Option [{action}] takes one of these options: [all-groups], [group]")


def check_describe(options: Options) -> None:
    check_groups(options, "describe")
    if sum(map(options.has, ("members", "offsets", "state"))) > 1:
        raise UsageError(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if options.value("state") is not None:
        raise UsageError("Option [describe] does not take a value for [state]")


def check_execute(options: Options, *, either_is_needed: bool) -> None:
    if options.has("execute") and options.has("dry-run"):
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if either_is_needed and not options.has("execute") and not options.has("dry-run"):
        raise UsageError("Option [reset-offsets] takes the option: [execute] or [dry-run]")


def check_describe_only(options: Options) -> None:
    """Refuse options of --describe with another action."""
    for name in ("members", "offsets", "verbose"):
        if options.has(name):
            raise UsageError(
                f"Option(s) [{name}] are unavailable given other options on the command line"
            )


def print_groups(groups: Iterable[ListedGroup], options: Options, states: Sequence[str]) -> None:
    """--list: names, or with --state a table of the groups in these states."""
    wanted = chosen(options, "state", states, "state")
    ordered = sorted(groups, key=lambda group: group.name)
    if not options.has("state"):
        for group in ordered:
            print(group.name)
        return
    shown = [group for group in ordered if not wanted or group.state.lower() in wanted]
    width = max([GROUP_WIDTH, *(len(group.name) for group in shown)])
    print("GROUP".ljust(width), "STATE")
    for group in shown:
        print(group.name.ljust(width), group.state)


def chosen(options: Options, name: str, known: Sequence[str], what: str) -> set[str]:
    """The values of an option in lower case; each must be known."""
    words = options.value(name)
    if words is None:
        return set()
    found = {word.strip().lower() for word in words.split(",")}
    if not found <= {word.lower() for word in known}:
        plural = what if what.endswith("s") else f"{what}s"
        raise UsageError(f"Invalid {what} list '{words}'. Valid {plural} are: {', '.join(known)}")
    return found


def print_deletion(
    kind: str, deleted: Collection[str], failures: Mapping[str, str], *, end: str = ""
) -> None:
    """--delete: success, or which groups failed and why. Kafka's tools differ in `end`."""
    shown = ", ".join(f"'{name}'" for name in deleted)
    if not failures:
        print(f"Deletion of requested {kind} groups ({shown}) was successful.")
        return
    print(f"\nError: Deletion of some {kind} groups failed:")
    for name, reason in failures.items():
        print(f"* Group '{name}' could not be deleted due to: {reason}")
    if deleted:
        print(f"\nThese {kind} groups were deleted successfully: {shown}{end}")


def undeletable(
    groups: Mapping[str, ListedGroup], names: Iterable[str], *, kind: str, unknown: str
) -> dict[str, str]:
    """Why groups can't be deleted. Checked here, because DeleteGroups deletes groups of any
    type."""
    reasons = {}
    for name in names:
        if name not in groups:
            reasons[name] = f"java.lang.IllegalArgumentException: Group '{name}' {unknown}"
        elif groups[name].state != "Empty":
            reasons[name] = (
                "org.apache.kafka.common.errors.GroupNotEmptyException:"
                f" {kind.capitalize()} group '{name}' is not EMPTY."
            )
    return reasons
