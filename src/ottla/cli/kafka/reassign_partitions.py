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
    read_json,
)
from ottla.cli.kafka.reassignment_log_dirs import check_directories, log_dirs_of, report
from ottla.cli.kafka.throttles import clear_throttles, moves_of, set_throttle
from ottla.cli.kafka.tool import ToolError, read_properties, run
from ottla.client.admin import Admin
from ottla.client.record import TopicPartition
from ottla.client.topics import TopicDescription
from ottla.cluster.replica_assignment import assign_replicas
from ottla.errors import ErrorCode, KafkaError

NAME: Final = "kafka-reassign-partitions"
DESCRIPTION: Final = """\
This tool moves topic partitions between brokers: --generate proposes a reassignment, --execute
starts it, --verify shows its progress, and removes throttles when it is complete.

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
    Option("command-config", "A properties file with client settings.", "Admin client file"),
    Option("generate", "Propose an assignment of topics to a list of brokers; move nothing."),
    Option("execute", "Start the reassignment in --reassignment-json-file."),
    Option(
        "verify",
        "Check whether the reassignment in --reassignment-json-file is complete. Removes throttles"
        " when no partition is moving any more, unless --preserve-throttles is given.",
    ),
    Option("cancel", "Cancel the reassignment in --reassignment-json-file, and remove throttles."),
    Option("list", "List all partitions that are moving."),
    Option(
        "reassignment-json-file",
        "The replicas that partitions are to have, the preferred leader first:\n"
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
    Option("disable-rack-aware", "With --generate: ignore racks."),
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
    Option("timeout", "Ignored, for compatibility.", "timeout", default="10000"),
    Option("additional", "With --execute: in addition to ongoing reassignments."),
    Option("preserve-throttles", "With --verify and --cancel: keep throttles."),
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


class ReassignmentRefusal(ToolError):
    """Printed without `Error:` in front, as in Kafka's tool."""


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
    except ReassignmentRefusal as error:
        print(error)
        return 1
    except ToolError as error:
        print(f"Error: {error}")
        return 1
    return 0


def check(options: Options) -> str:
    """Refuse combinations that make no sense; returns the one action."""
    actions = [action for action in ACTIONS if options.has(action)]
    if len(actions) != 1:
        every = ", ".join(f"--{action}" for action in ACTIONS)
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
    topics = parse_topics(read_json(options.require("topics-to-move-json-file")))
    present = _assignment(admin, topics)
    racks = _racks(admin, brokers, aware=not options.has("disable-rack-aware"))
    proposed: Assignment = {}
    for topic in topics:
        partitions = sorted(partition for partition in present if partition.topic == topic)
        factor = len(present[partitions[0]])
        if factor > len(racks):
            raise ToolError(
                f"Replication factor: {factor} larger than available brokers: {len(racks)}"
            )
        start, shift = random.randrange(len(racks)), random.randrange(len(racks))
        found = assign_replicas(racks, len(partitions), factor, start=start, shift=shift)
        proposed |= dict(zip(partitions, found, strict=True))
    print(f"Current partition replica assignment\n{format_assignment(present)}\n")
    print(f"Proposed partition reassignment configuration\n{format_assignment(proposed)}")


def execute(admin: Admin, options: Options) -> None:
    found, directories = parse_assignment(read_json(options.require("reassignment-json-file")))
    proposed = check_assignment(found)
    throttle = options.integer("throttle")
    assert throttle is not None
    ongoing = admin.reassignments.list()
    if ongoing and not options.has("additional"):
        raise ReassignmentRefusal(
            "Cannot execute because there is an existing partition assignment.  Use --additional to"
            " override this and create a new partition assignment in addition to the existing one."
            " The --additional flag can also be used to change the throttle by resubmitting the"
            " current reassignment."
        )
    known = {node.id for node in admin.cluster().nodes}
    for broker in sorted({replica for replicas in proposed.values() for replica in replicas}):
        if broker not in known:
            raise ToolError(f"Unknown broker id {broker}")
    present = _assignment_of(admin, proposed)
    check_directories(admin, directories)
    log_dirs = log_dirs_of(
        admin, {replica for replicas in present.values() for replica in replicas}
    )
    print(
        f"Current partition replica assignment\n\n{format_assignment(present, log_dirs)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )
    if throttle >= 0:
        print(
            "Warning: You must run --verify periodically, until the reassignment completes, to"
            " ensure the throttle is removed."
        )
        set_throttle(admin, moves_of(ongoing, proposed, present), throttle)
    _raise_failures(admin.reassignments.alter(proposed), "Error reassigning partition(s):")
    print(f"Successfully started partition reassignment{_s(proposed)} for {_shown(proposed)}")


def verify(admin: Admin, options: Options) -> None:
    found, directories = parse_assignment(read_json(options.require("reassignment-json-file")))
    targets = dict(found)
    ongoing = admin.reassignments.list()
    present = _assignment(admin, {partition.topic for partition in targets}, missing_is_fine=True)
    print("Status of partition reassignment:")
    for partition, target in sorted(targets.items()):
        now = present.get(partition, [])
        if partition in ongoing:
            print(f"Reassignment of partition {partition} is still in progress.")
        elif now == target:
            print(f"Reassignment of partition {partition} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {partition}, but replica set is"
                f" {_ids(now)} rather than {_ids(target)}."
            )
    print(report(directories, log_dirs_of(admin, {broker for _, broker in directories})))
    if not ongoing and not options.has("preserve-throttles"):
        _clear(admin, targets, present)


def cancel(admin: Admin, options: Options) -> None:
    targets = dict(parse_assignment(read_json(options.require("reassignment-json-file")))[0])
    active = admin.reassignments.list(targets)
    if active:
        failed = f"Error cancelling partition reassignment{_s(active)} for:"
        _raise_failures(admin.reassignments.alter(dict.fromkeys(active)), failed)
        print(f"Successfully cancelled partition reassignment{_s(active)} for: {_shown(active)}")
    else:
        print("None of the specified partition reassignments are active.")
    print("None of the specified partition moves are active.")
    if not options.has("preserve-throttles"):
        topics = {partition.topic for partition in targets}
        _clear(admin, targets, _assignment(admin, topics, missing_is_fine=True))


def list_moves(admin: Admin, options: Options) -> None:
    ongoing = admin.reassignments.list()
    if not ongoing:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for partition, reassignment in sorted(ongoing.items()):
        adding = f" adding: {_ids(reassignment.adding)}." if reassignment.adding else ""
        removing = f" removing: {_ids(reassignment.removing)}." if reassignment.removing else ""
        print(f"{partition}: replicas: {_ids(reassignment.replicas)}.{adding}{removing}")


_DO: Final = {
    "generate": generate,
    "execute": execute,
    "verify": verify,
    "cancel": cancel,
    "list": list_moves,
}


def _clear(admin: Admin, targets: Assignment, present: Assignment) -> None:
    topics = {partition.topic for partition in targets} & {partition.topic for partition in present}
    clear_throttles(
        admin, topics, {replica for replicas in targets.values() for replica in replicas}
    )


def _broker_list(text: str) -> list[int]:
    try:
        brokers = [int(broker) for broker in text.split(",")]
    except ValueError:
        raise ToolError(f"Invalid broker list: {text}") from None
    twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
    if twice:
        shown = ", ".join(map(str, twice))
        raise ToolError(f"Broker list contains duplicate entries: [{shown}]")
    return brokers


def _racks(admin: Admin, brokers: Collection[int], *, aware: bool) -> dict[int, str | None]:
    """The racks of the live brokers among these."""
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
    assignment: Assignment = {}
    for name, topic in admin.topics.describe(*topics).items():
        if isinstance(topic, TopicDescription):
            assignment |= {
                TopicPartition(name, partition.partition): list(partition.replicas)
                for partition in topic.partitions
            }
        elif topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise topic
        elif not missing_is_fine:
            raise ToolError(f"Topic {name} not found.")
    return assignment


def _assignment_of(admin: Admin, partitions: Collection[TopicPartition]) -> Assignment:
    every = _assignment(admin, {partition.topic for partition in partitions})
    missing = sorted(partition for partition in partitions if partition not in every)
    if missing:
        raise ToolError(f"Unable to find partition: {', '.join(map(str, missing))}")
    return {partition: every[partition] for partition in partitions}


def _raise_failures(results: dict[TopicPartition, KafkaError | None], title: str) -> None:
    failures = [
        f"{partition}: {message_of(error)}"
        for partition, error in sorted(results.items(), key=lambda item: item[0])
        if error is not None
    ]
    if failures:
        raise ReassignmentRefusal("\n".join([title, *failures]))


def _shown(partitions: Collection[TopicPartition]) -> str:
    return ",".join(map(str, sorted(partitions)))


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _s(things: Collection[object]) -> str:
    return "" if len(things) == 1 else "s"


if __name__ == "__main__":
    sys.exit(main())
