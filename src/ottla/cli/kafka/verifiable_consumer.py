"""kafka-verifiable-consumer: what a consumer sees and commits, as lines of JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ottla.cli.kafka.subcommands import Parser, run_parsed
from ottla.cli.kafka.tool import read_properties
from ottla.cli.kafka.verifiable_events import print_event
from ottla.cli.local.stop_signals import StopSignals
from ottla.client.consumer import Consumer
from ottla.client.delivery import Setting
from ottla.client.protocol.probe import probe
from ottla.client.record import Record, TopicPartition
from ottla.errors import KafkaError

NAME: Final = "kafka-verifiable-consumer"
DESCRIPTION: Final = (
    "This tool consumes messages from a specific topic and emits consumer events (e.g. group"
    " rebalances, received messages, and offsets committed) as JSON objects to STDOUT."
)
EXAMPLES: Final = """\
examples:
  kafka-verifiable-consumer --bootstrap-server localhost:9092 --topic numbers --group-id readers
  kafka-verifiable-consumer --bootstrap-server localhost:9092 --topic numbers --group-id readers \\
    --group-protocol consumer --max-messages 10 --verbose
"""
POLL_S: Final = 0.2
POLL_RECORDS_MAX: Final = 500  # Kafka's max.poll.records
RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words:
        _parser().print_help()
        return 0
    return run_parsed(_parser, work, words)


def work(given: argparse.Namespace) -> None:
    settings = consumer_settings(given)
    probe(given.bootstrap_server, settings)
    with StopSignals() as signals:
        print_event("startup_complete")
        consumer = Consumer(
            given.bootstrap_server,
            group=given.group_id,
            key=str,
            value=str,
            auto_offset_reset=given.reset_policy.replace("none", "error"),
            settings=settings,
        )
        try:
            consumer.subscribe(given.topic, listener=_Rebalances())
            _consume(consumer, given, signals)
        finally:
            if signals.asked:
                print_event("shutdown_requested")
            consumer.close()
            print_event("shutdown_complete")
            if not signals.asked:  # Java's runtime asks for it when all is done
                print_event("shutdown_requested")


def _consume(consumer: Consumer[str, str], given: argparse.Namespace, signals: StopSignals) -> None:
    left = given.max_messages if given.max_messages >= 0 else sys.maxsize
    while left > 0 and not signals.asked:
        batch = _poll(consumer, min(left, POLL_RECORDS_MAX))
        if not batch:
            continue
        left -= len(batch)
        partitions = _by_partition(batch)
        if given.verbose:
            for record in batch:
                _print_record(record)
        print_event("records_consumed", count=len(batch), partitions=_summaries(partitions))
        if not given.enable_autocommit:
            _commit(consumer, partitions)


def _poll(consumer: Consumer[str, str], limit: int) -> list[Record[str, str]]:
    """What is here already, once one record is."""
    batch = []
    record = consumer.poll(POLL_S)
    while record is not None:
        batch.append(record)
        if len(batch) >= limit or not consumer.has_more:
            break
        record = consumer.poll(0)
    return batch


def _commit(
    consumer: Consumer[str, str], partitions: dict[TopicPartition, list[Record[str, str]]]
) -> None:
    offsets = [
        {"topic": place.topic, "partition": place.partition, "offset": records[-1].offset + 1}
        for place, records in partitions.items()
    ]
    try:
        consumer.commit()
    except KafkaError as error:
        print_event("offsets_committed", offsets=offsets, error=str(error), success=False)
    else:
        print_event("offsets_committed", offsets=offsets, success=True)


def _print_record(record: Record[str, str]) -> None:
    print_event(
        "record_data",
        key=record.key,
        value=record.value,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
    )


def _by_partition(
    batch: Iterable[Record[str, str]],
) -> dict[TopicPartition, list[Record[str, str]]]:
    found: dict[TopicPartition, list[Record[str, str]]] = {}
    for record in batch:
        found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
    return found


def _summaries(
    partitions: dict[TopicPartition, list[Record[str, str]]],
) -> list[dict[str, Any]]:
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "count": len(records),
            "minOffset": records[0].offset,
            "maxOffset": records[-1].offset,
        }
        for place, records in partitions.items()
    ]


class _Rebalances:
    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._print("partitions_assigned", partitions)

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self._print("partitions_revoked", partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        """Kafka's listener calls these revoked, too."""
        self._print("partitions_revoked", partitions)

    def _print(self, name: str, partitions: list[TopicPartition]) -> None:
        places = [{"topic": each.topic, "partition": each.partition} for each in partitions]
        print_event(name, partitions=places)


def consumer_settings(given: argparse.Namespace) -> dict[str, Setting]:
    """The options win over the file."""
    settings: dict[str, Setting] = {
        **read_properties(given.command_config or given.consumer_config)
    }
    if given.group_protocol.lower() == "consumer":
        settings["group.protocol"] = "consumer"
        if given.group_remote_assignor is not None:
            settings["group.remote.assignor"] = given.group_remote_assignor
    else:
        settings["partition.assignment.strategy"] = given.assignment_strategy
        settings["session.timeout.ms"] = given.session_timeout
    if given.group_instance_id is not None:
        settings["group.instance.id"] = given.group_instance_id
    return {**settings, "enable.auto.commit": given.enable_autocommit}


def _parser() -> Parser:
    parser = Parser(
        prog="verifiable-consumer",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--bootstrap-server", required=True, metavar="HOST1:PORT1[,...]", help="The broker(s).")
    add("--topic", required=True, metavar="TOPIC", help="Consumes messages from this topic.")
    add("--group-protocol", default="classic", metavar="NAME", help="classic or consumer.")
    add("--group-remote-assignor", metavar="NAME", help="With --group-protocol consumer.")
    add("--group-id", required=True, metavar="GROUP_ID", help="The group.")
    add("--group-instance-id", metavar="ID", help="Of a static member.")
    add("--max-messages", type=int, default=-1, metavar="N", help="-1: until it is ended.")
    add("--session-timeout", type=int, default=30000, metavar="MS", help="Classic groups only.")
    add("--verbose", action="store_true", help="A line for each record.")
    add("--enable-autocommit", action="store_true", help="Commit in the background, silently.")
    add("--reset-policy", default="earliest", help="earliest, latest or none.")
    add("--assignment-strategy", default=RANGE, help="Classic groups only.")
    add("--command-config", metavar="FILE", help="A file of consumer settings.")
    add("--consumer.config", dest="consumer_config", metavar="FILE", help="Its old name.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
