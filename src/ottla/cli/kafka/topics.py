"""kafka-topics: create, list, describe, alter and delete topics."""

from __future__ import annotations

import base64
import binascii
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from ottla.cli.kafka.exceptions import describe as describe_error
from ottla.cli.kafka.exceptions import message_of
from ottla.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, UsageError
from ottla.cli.kafka.tool import ToolError, log_error, read_properties, run
from ottla.cli.kafka.topic_report import ReportFilter, print_topics
from ottla.client.admin import Admin
from ottla.config import TOPIC_CONFIGS
from ottla.errors import ErrorCode, KafkaError

NAME: Final = "kafka-topics"
DESCRIPTION: Final = "This tool creates, lists, describes, changes and deletes topics."
REPLICATION_FACTOR_MAX: Final = 32767
ACTIONS: Final = ("list", "describe", "create", "alter", "delete")
REPORTS: Final = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)
COLLISION: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_')"
    " could collide. To avoid issues it is best to use either, but not both."
)

OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("list", "List the topics."),
    Option("create", "Create a topic."),
    Option("delete", "Delete topics."),
    Option("describe", "Show the partitions and configs of topics."),
    Option("alter", "Add partitions. (kafka-configs changes configs.)"),
    Option(
        "topic",
        "The topic. Everywhere but with --create it is a regular expression that a whole name"
        " must match.",
        "topic",
    ),
    Option("topic-id", "With --describe: the id of the topic.", "topic-id"),
    Option(
        "config",
        "With --create: a config of the new topic. There are:\n"
        + "\n".join(f" {name}" for name in sorted(TOPIC_CONFIGS)),
        "name=value",
    ),
    Option("delete-config", "Not supported any more.", "name"),
    Option("partitions", "The number of partitions.", "# of partitions"),
    Option(
        "replication-factor",
        "The number of replicas of each partition.",
        "replication factor",
    ),
    Option(
        "replica-assignment",
        "The brokers of each partition: those of one divided by ':', the partitions by ','.",
        "assignment",
    ),
    Option("if-exists", "Do nothing if a topic does not exist."),
    Option("if-not-exists", "Do nothing if the topic exists."),
    Option("exclude-internal", "Omit internal topics."),
    Option("topics-with-overrides", "With --describe: only topics with config overrides."),
    Option(REPORTS[0], "With --describe: only partitions with replicas that are not in sync."),
    Option(REPORTS[1], "With --describe: only partitions whose leader is not available."),
    Option(REPORTS[2], "With --describe: only partitions below min.insync.replicas."),
    Option(REPORTS[3], "With --describe: only partitions at min.insync.replicas."),
    Option(
        "partition-size-limit-per-response",
        "With --describe: the maximum number of partitions in one response.",
        "partitions",
    ),
)

_ALLOWED: Final = {
    "config": {"create"},
    "delete-config": {"create", "alter"},
    "partitions": {"create", "alter"},
    "replication-factor": {"create"},
    "replica-assignment": {"create", "alter"},
    "topics-with-overrides": {"describe"},
    **{report: {"describe"} for report in REPORTS},
    "if-exists": {"alter", "delete", "describe"},
    "if-not-exists": {"create"},
    "exclude-internal": {"list", "describe"},
}


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    action = check(options)
    if options.has("delete-config"):
        print("The option delete-config is not supported any more.", file=sys.stderr)
    settings = read_properties(options.value("command-config"))
    try:
        with Admin(options.require("bootstrap-server"), settings=dict(settings)) as admin:
            _DO[action](admin, options)
        return 0
    except KafkaError as error:
        print(f"Error while executing topic command : {message_of(error)}")
        log_error(NAME, describe_error(error))
    except (ToolError, UsageError) as error:
        print(f"Error while executing topic command : {error}")
        log_error(NAME, str(error))
    return 1


def check(options: Options) -> str:
    """Refuse combinations that make no sense; returns the one action."""
    actions = [action for action in ACTIONS if options.has(action)]
    if len(actions) != 1:
        raise UsageError(
            "Command must include exactly one action: --list, --describe, --create, --alter or"
            " --delete"
        )
    action = actions[0]
    if not options.has("bootstrap-server"):
        raise UsageError("--bootstrap-server must be specified")
    if action == "alter" and options.has("config"):
        raise UsageError("--alter changes no configs of a topic: kafka-configs does that")
    needs = {"create": ["topic"], "delete": ["topic"], "alter": ["topic", "partitions"]}
    for name in needs.get(action, []):
        options.require(name)
    for name, allowed in _ALLOWED.items():
        if options.has(name) and action not in allowed:
            raise UsageError(f'Option "[{name}]" can\'t be used with option "[{action}]"')
    if action == "create":
        options.refuse("replica-assignment", ["partitions", "replication-factor"])
    reports = [report for report in (*REPORTS, "topics-with-overrides") if options.has(report)]
    if len(reports) > 1:
        raise UsageError(f'Option "[{reports[0]}]" can\'t be used with option "[{reports[1]}]"')
    return action


def create(admin: Admin, options: Options) -> None:
    name = options.require("topic")
    if "." in name or "_" in name:
        print(COLLISION)
    partitions = options.integer("partitions")
    factor = options.integer("replication-factor")
    if factor is not None and not 1 <= factor <= REPLICATION_FACTOR_MAX:
        raise ToolError(
            f"The replication factor must be between 1 and {REPLICATION_FACTOR_MAX} inclusive"
        )
    if partitions is not None and partitions < 1:
        raise ToolError("The partitions must be greater than 0")
    try:
        admin.topics.create(
            name,
            partitions,
            replication_factor=factor,
            replicas=parse_assignment(options.value("replica-assignment")),
            configs=parse_configs(options.values("config")),
        )
    except KafkaError as error:
        if error.code == ErrorCode.TOPIC_ALREADY_EXISTS and options.has("if-not-exists"):
            return
        raise
    print(f"Created topic {name}.")


def list_topics(admin: Admin, options: Options) -> None:
    print("\n".join(matching(admin, options)))


def describe(admin: Admin, options: Options) -> None:
    topic_id = options.value("topic-id")
    if topic_id is not None and (raw := parse_id(topic_id)).strip(b"\0"):
        names = _named(admin, raw, options)
    else:
        names = matching(admin, options)
        require_some(names, options)
    limit = options.integer("partition-size-limit-per-response")
    shown = ReportFilter(
        overrides_only=options.has("topics-with-overrides"),
        report=next((report for report in REPORTS if options.has(report)), None),
    )
    print_topics(admin, names, shown, limit)


def _named(admin: Admin, topic_id: bytes, options: Options) -> list[str]:
    try:
        return [admin.topics.name_of(topic_id)]
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_ID:
            raise
        if options.has("if-exists"):
            return []
        shown = options.value("topic-id")
        raise ToolError(f"TopicId '{shown}' does not exist as expected") from None


def alter(admin: Admin, options: Options) -> None:
    names = matching(admin, options)
    require_some(names, options)
    partitions = options.integer("partitions")
    assert partitions is not None
    assignment = parse_assignment(options.value("replica-assignment"))
    for name in names:
        new: list[list[int]] = []
        if assignment:
            described = admin.topics.describe(name)[name]
            if isinstance(described, KafkaError):
                raise described
            new = assignment[len(described.partitions) :]
        admin.topics.grow(name, partitions, new)


def delete(admin: Admin, options: Options) -> None:
    names = matching(admin, options)
    require_some(names, options)
    if not names:
        return
    for error in admin.topics.delete(*names).values():
        if error is not None:
            raise error


_DO: Final = {
    "create": create,
    "list": list_topics,
    "describe": describe,
    "alter": alter,
    "delete": delete,
}


def matching(admin: Admin, options: Options) -> list[str]:
    """All topics whose full name matches the pattern; a comma means `or`, as in Kafka."""
    names = admin.topics.names(internal=not options.has("exclude-internal"))
    pattern = options.value("topic")
    if pattern is None:
        return names
    match = topic_pattern(pattern)
    return [name for name in names if match.fullmatch(name)]


def topic_pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text.strip().replace(",", "|").replace(" ", "").strip("\"'"))
    except re.error as error:
        raise ToolError(f"{text} is an invalid regex: {error}") from None


def require_some(names: Iterable[str], options: Options) -> None:
    pattern = options.value("topic")
    if not names and pattern is not None and not options.has("if-exists"):
        raise ToolError(f"Topic '{pattern}' does not exist as expected")


def parse_configs(words: Iterable[str]) -> dict[str, str]:
    """`name=value` pairs; the broker validates them."""
    configs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ToolError(
                "requirement failed: Invalid topic config: all configs to be added must be in"
                ' the format "key=val".'
            )
        configs[name.strip()] = value.strip()
    return configs


def parse_assignment(text: str | None) -> list[list[int]]:
    """`0:1,1:0`: the brokers of each partition."""
    if text is None:
        return []
    try:
        assignment = [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise ToolError(f"Invalid replica assignment: {text}") from None
    for brokers in assignment:
        twice = {broker for broker in brokers if brokers.count(broker) > 1}
        if twice:
            shown = ",".join(map(str, sorted(twice)))
            raise ToolError(f"Partition replica lists may not contain duplicate entries: {shown}")
        if len(brokers) != len(assignment[0]):
            raise ToolError("Partitions have different numbers of replicas")
    return assignment


def parse_id(text: str) -> bytes:
    """A topic id: 16 bytes in base64 for URLs, without the padding."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (ValueError, binascii.Error):
        raw = b""
    if len(raw) != 16:
        raise ToolError(
            f"Input string `{text}` decoded as {len(raw)} bytes, which is not equal to the"
            " expected 16 bytes of a base64-encoded UUID"
        )
    return raw


if __name__ == "__main__":
    sys.exit(main())
