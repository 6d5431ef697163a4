"""kafka-groups: list the groups of every type (KIP-1043)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, explain, read_properties, run
from ottla.client.admin import Admin
from ottla.client.groups import GroupListing
from ottla.errors import KafkaError

NAME: Final = "kafka-groups"
DESCRIPTION: Final = "This tool lists groups of all types."
TYPES: Final = ("classic", "consumer", "share", "streams")
FILTERS: Final = ("consumer", "share", "streams")
COLUMNS: Final = ("GROUP", "TYPE", "PROTOCOL")
WIDTH: Final = 20

OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("list", "List the groups."),
    Option("group-type", "Only groups of this type: classic, consumer, share, streams.", "type"),
    Option("protocol", "Only groups of this protocol.", "protocol"),
    Option("consumer", "Only consumer groups: of type consumer, and classic ones."),
    Option("share", "Only share groups."),
    Option("streams", "Only streams groups."),
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    check(options)
    settings = read_properties(options.value("command-config"))
    try:
        with Admin(options.require("bootstrap-server"), settings=dict(settings)) as admin:
            groups = sorted(admin.groups.list_all(), key=lambda group: group.name)
    except KafkaError as error:
        print(f"Error while executing groups command : {explain(error)}")
        return 1
    print_groups([group for group in groups if matches(options, group)])
    return 0


def check(options: Options) -> None:
    if not options.has("list"):
        raise UsageError("Command must include exactly one action: --list.")
    options.require("bootstrap-server")
    options.refuse("consumer", ["group-type", "protocol", "share", "streams"])
    options.refuse("share", ["consumer", "group-type", "protocol", "streams"])
    options.refuse("streams", ["consumer", "group-type", "protocol", "share"])
    kind = options.value("group-type")
    if kind is not None and kind.lower() not in TYPES:
        raise ToolError("--group-type must be a valid group type.")


def matches(options: Options, group: GroupListing) -> bool:
    kind = options.value("group-type")
    protocol = options.value("protocol")
    if options.has("consumer"):
        return group.of_consumers
    if options.has("share"):
        return group.type == "Share"
    if options.has("streams"):
        return group.type == "Streams"
    return (kind is None or group.type.lower() == kind.lower()) and (
        protocol is None or group.protocol == protocol
    )


def print_groups(groups: Sequence[GroupListing]) -> None:
    rows = [(group.name, group.type, group.protocol) for group in groups]
    width = max([WIDTH, *(len(name) for name, _, _ in rows)])
    title, *rest = COLUMNS
    print(title.ljust(width), *(column.ljust(WIDTH) for column in rest))
    for name, kind, protocol in rows:  # each followed by a blank, as in Kafka
        print(name.ljust(width), kind.ljust(WIDTH), protocol.ljust(WIDTH), "")


if __name__ == "__main__":
    sys.exit(main())
