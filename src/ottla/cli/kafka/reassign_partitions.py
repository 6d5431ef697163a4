"""kafka-reassign-partitions: move partitions to other brokers."""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from ottla.cli.kafka.exceptions import message_of
from ottla.cli.kafka.options import Option, Options, UsageError
from ottla.cli.kafka.reassignment_json import (
    Assignment,
    check_assignment,
    format_assignment,
    parse_assignment,
    parse_topics,
    read,
)
from ottla.cli.kafka.reassignment_log_dirs import check_directories, directories_of, report
from ottla.cli.kafka.throttles import clear_throttles, moves_of, set_throttle
from ottla.cli.kafka.tool import ToolError, read_properties, run
from ottla.client.admin import Admin
from ottla.client.record import TopicPartition
from ottla.client.topics import TopicDescription
from ottla.cluster.assignment import assign_replicas
from ottla.errors import ErrorCode, KafkaError

NAME: Final = "kafka-reassign-partitions"
DESCRIPTION: Final = """\
This tool moves topic partitions between brokers: --generate proposes, --execute begins, --verify
tells how far it is, and takes throttles away at its end.

Examples:
  echo '{"topics": [{"topic": "orders"}], "version": 1}' > topics.json
  kafka-reassign-partitions --bootstrap-server localhost:9092 \\
      --generate --topics-to-move-json-file topics.json --broker-list 0,1,2
  kafka-reassign-partitions --bootstrap-server localhost:9092 \\
      --execute --reassignment-json-file plan.json --throttle 10000000
  kafka-reassign-partitions --bootstrap-server localhost:9092 \\
      --verify --reassignment-json-file plan.json
"""
ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
NO_THROTTLE: Final = -1

OPTIONS: Final = (
    Option(
        "bootstrap-server",
        "REQUIRED: The broker(s) to connect to: HOST1:PORT1,HOST2:PORT2.",
        "Server(s) to use for bootstrapping",
    ),
    Option("command-config", "A properties file with settings of the client.", "Admin client file"),
    Option("generate", "Propose where topics could be on a list of brokers; move nothing."),
    Option("execute", "Begin what --reassignment-json-file says."),
    Option(
        "verify",
        "Tell whether what --reassignment-json-file says has come about. When nothing moves any"
        " more, throttles are taken away, unless there is --preserve-throttles.",
    ),
    Option("cancel", "Cancel what --reassignment-json-file says, and take throttles away."),
    Option("list", "List all partitions that are moving."),
    Option(
        "reassignment-json-file",
        "Where partitions shall be, the preferred leader first:\n"
        ' {"partitions": [{"topic": "foo", "partition": 1, "replicas": [1, 2, 3],\n'
        '   "log_dirs": ["any", "any", "any"]}], "version": 1}\n'
        "log_dirs may be left out.",
        "manual assignment json file path",
    ),
    Option(
        "topics-to-move-json-file",
        "With --generate: the topics:\n"
        ' {"topics": [{"topic": "foo"}, {"topic": "foo1"}], "version": 1}',
        "topics to reassign json file path",
    ),
    Option("broker-list", "With --generate: the brokers, as in 0,1,2.", "brokerlist"),
    Option("disable-rack-aware", "With --generate: take no notice of racks."),
    Option(
        "throttle",
        "With --execute: the most bytes per second that moving partitions may take between"
        " brokers. Run again with --additional to change it.",
        "throttle",
        default=str(NO_THROTTLE),
    ),
    Option(
        "replica-alter-log-dirs-throttle",
        "Accepted for Kafka's sake: replicas don't move between log directories here.",
        "replicaAlterLogDirsThrottle",
        default=str(NO_THROTTLE),
    ),
    Option("timeout", "Accepted for Kafka's sake.", "timeout", default="10000"),
    Option("additional", "With --execute: in addition to what is moving already."),
    Option("preserve-throttles", "With --verify and --cancel: leave throttles as they are."),
)

_NEEDED: Final = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
_ALLOWED: Final = {
    "generate": {"disable-rack-aware"},
    "execute": {"additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"},
    "verify": {"preserve-throttles"},
    "cancel": {"preserve-throttles", "timeout"},
    "list": set[str](),
}


class Refusal(ToolError):
    """Said without `Error:` in front, as Kafka's tool does in these cases."""


def main(arguments: Sequence[str] | None = None) -> int:
    return run(NAME, DESCRIPTION, OPTIONS, work, arguments)


def work(options: Options) -> int:
    action = check(options)
    settings = read_properties(options.value("command-config"))
    try:
        with Admin(options.require("bootstrap-server"), settings=dict(settings)) as admin:
            _DO[action](admin, options)
    except KafkaError as error:
        if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
            raise
        print(f"Error: {message_of(error)}")
        return 1
    except Refusal as error:
        print(error)
        return 1
    except ToolError as error:
        print(f"Error: {error}")
        return 1
    return 0


def check(options: Options) -> str:
    """Refuse combinations that make no sense; returns the one action."""
    actions = [each for each in ACTIONS if options.has(each)]
    if len(actions) != 1:
        every = ", ".join(f"--{each}" for each in ACTIONS)
        raise UsageError(f"Command must include exactly one action: {every}")
    action = actions[0]
    if not options.has("bootstrap-server"):
        raise UsageError("Please specify --bootstrap-server")
    for name in _NEEDED[action]:
        options.require(name)
    allowed = {action, "bootstrap-server", "command-config", *_NEEDED[action], *_ALLOWED[action]}
    for option in OPTIONS:
        if options.has(option.name) and option.name not in allowed:
            raise UsageError(f'Option "[{option.name}]" can\'t be used with action "[{action}]"')
    return action


def generate(admin: Admin, options: Options) -> None:
    brokers = _broker_list(options.require("broker-list"))
    topics = parse_topics(read(options.require("topics-to-move-json-file")))
    present = _assignment(admin, topics)
    racks = _racks(admin, brokers, aware=not options.has("disable-rack-aware"))
    proposed: Assignment = {}
    for topic in topics:
        places = sorted(place for place in present if place.topic == topic)
        factor = len(present[places[0]])
        if factor > len(racks):
            raise ToolError(
                f"Replication factor: {factor} larger than available brokers: {len(racks)}"
            )
        start, shift = random.randrange(len(racks)), random.randrange(len(racks))
        found = assign_replicas(racks, len(places), factor, start=start, shift=shift)
        proposed |= dict(zip(places, found, strict=True))
    print(f"Current partition replica assignment\n{format_assignment(present)}\n")
    print(f"Proposed partition reassignment configuration\n{format_assignment(proposed)}")


def execute(admin: Admin, options: Options) -> None:
    found, directories = parse_assignment(read(options.require("reassignment-json-file")))
    proposed = check_assignment(found)
    throttle = options.integer("throttle")
    assert throttle is not None
    under_way = admin.reassignments.list()
    if under_way and not options.has("additional"):
        raise Refusal(
            "Cannot execute because there is an existing partition assignment.  Use --additional to"
            " override this and create a new partition assignment in addition to the existing one."
            " The --additional flag can also be used to change the throttle by resubmitting the"
            " current reassignment."
        )
    known = {node.id for node in admin.cluster().nodes}
    for broker in sorted({each for replicas in proposed.values() for each in replicas}):
        if broker not in known:
            raise ToolError(f"Unknown broker id {broker}")
    present = _assignment_of(admin, proposed)
    check_directories(admin, directories)
    places = directories_of(admin, {each for replicas in present.values() for each in replicas})
    print(
        f"Current partition replica assignment\n\n{format_assignment(present, places)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )
    if throttle >= 0:
        print(
            "Warning: You must run --verify periodically, until the reassignment completes, to"
            " ensure the throttle is removed."
        )
        set_throttle(admin, moves_of(under_way, proposed, present), throttle)
    _raise_failures(admin.reassignments.alter(proposed), "Error reassigning partition(s):")
    print(f"Successfully started partition reassignment{_s(proposed)} for {_shown(proposed)}")


def verify(admin: Admin, options: Options) -> None:
    found, directories = parse_assignment(read(options.require("reassignment-json-file")))
    targets = dict(found)
    under_way = admin.reassignments.list()
    present = _assignment(admin, {place.topic for place in targets}, missing_is_fine=True)
    print("Status of partition reassignment:")
    for place, target in sorted(targets.items()):
        now = present.get(place, [])
        if place in under_way:
            print(f"Reassignment of partition {place} is still in progress.")
        elif now == target:
            print(f"Reassignment of partition {place} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {place}, but replica set is"
                f" {_ids(now)} rather than {_ids(target)}."
            )
    print(report(directories, directories_of(admin, {broker for _, broker in directories})))
    if not under_way and not options.has("preserve-throttles"):
        _clear(admin, targets, present)


def cancel(admin: Admin, options: Options) -> None:
    targets = dict(parse_assignment(read(options.require("reassignment-json-file")))[0])
    active = admin.reassignments.list(targets)
    if active:
        failed = f"Error cancelling partition reassignment{_s(active)} for:"
        _raise_failures(admin.reassignments.alter(dict.fromkeys(active)), failed)
        print(f"Successfully cancelled partition reassignment{_s(active)} for: {_shown(active)}")
    else:
        print("None of the specified partition reassignments are active.")
    print("None of the specified partition moves are active.")
    if not options.has("preserve-throttles"):
        topics = {place.topic for place in targets}
        _clear(admin, targets, _assignment(admin, topics, missing_is_fine=True))


def list_moves(admin: Admin, options: Options) -> None:
    under_way = admin.reassignments.list()
    if not under_way:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for place, each in sorted(under_way.items()):
        adding = f" adding: {_ids(each.adding)}." if each.adding else ""
        removing = f" removing: {_ids(each.removing)}." if each.removing else ""
        print(f"{place}: replicas: {_ids(each.replicas)}.{adding}{removing}")


_DO: Final = {
    "generate": generate,
    "execute": execute,
    "verify": verify,
    "cancel": cancel,
    "list": list_moves,
}


def _clear(admin: Admin, targets: Assignment, present: Assignment) -> None:
    topics = {place.topic for place in targets} & {place.topic for place in present}
    clear_throttles(admin, topics, {each for replicas in targets.values() for each in replicas})


def _broker_list(text: str) -> list[int]:
    try:
        brokers = [int(each) for each in text.split(",")]
    except ValueError:
        raise ToolError(f"Invalid broker list: {text}") from None
    twice = sorted({each for each in brokers if brokers.count(each) > 1})
    if twice:
        shown = ", ".join(map(str, twice))
        raise ToolError(f"Broker list contains duplicate entries: [{shown}]")
    return brokers


def _racks(admin: Admin, brokers: Collection[int], *, aware: bool) -> dict[int, str | None]:
    """The racks of those brokers that live."""
    racks = {
        node.id: node.rack if aware else None
        for node in admin.cluster().nodes
        if node.id in brokers
    }
    without = [broker for broker, rack in racks.items() if rack is None]
    if aware and without and len(without) != len(racks):
        raise ToolError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to"
            " make replica assignment without rack information."
        )
    return racks


def _assignment(
    admin: Admin, topics: Iterable[str], *, missing_is_fine: bool = False
) -> Assignment:
    """The replicas of every partition of these topics."""
    found: Assignment = {}
    for name, topic in admin.topics.describe(*topics).items():
        if isinstance(topic, TopicDescription):
            found |= {
                TopicPartition(name, each.partition): list(each.replicas)
                for each in topic.partitions
            }
        elif topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise topic
        elif not missing_is_fine:
            raise ToolError(f"Topic {name} not found.")
    return found


def _assignment_of(admin: Admin, places: Collection[TopicPartition]) -> Assignment:
    every = _assignment(admin, {place.topic for place in places})
    missing = sorted(place for place in places if place not in every)
    if missing:
        raise ToolError(f"Unable to find partition: {', '.join(map(str, missing))}")
    return {place: every[place] for place in places}


def _raise_failures(results: dict[TopicPartition, KafkaError | None], title: str) -> None:
    failures = [
        f"{place}: {message_of(error)}"
        for place, error in sorted(results.items(), key=lambda each: each[0])
        if error is not None
    ]
    if failures:
        raise Refusal("\n".join([title, *failures]))


def _shown(places: Collection[TopicPartition]) -> str:
    return ",".join(map(str, sorted(places)))


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _s(things: Collection[object]) -> str:
    return "" if len(things) == 1 else "s"


if __name__ == "__main__":
    sys.exit(main())
