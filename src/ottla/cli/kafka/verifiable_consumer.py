"""kafka-verifiable-consumer: prints what a consumer receives and commits, as lines of JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final

from ottla.cli.kafka.subcommands import SubcommandParser, run_parsed, tool_parser
from ottla.cli.kafka.tool import read_properties
from ottla.cli.kafka.verifiable_events import (
    StringRecord,
    by_partition,
    print_event,
    print_record,
)
from ottla.cli.local.stop_signals import StopSignals
from ottla.client.consumer import Consumer
from ottla.client.delivery import Setting
from ottla.client.protocol.probe import probe
from ottla.client.record import TopicPartition
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
    return run_parsed(_parser, work, arguments, help_without_arguments=True)


def work(args: argparse.Namespace) -> None:
    settings = consumer_settings(args)
    probe(args.bootstrap_server, settings)
    with StopSignals() as signals:
        print_event("startup_complete")
        consumer = Consumer(
            args.bootstrap_server,
            group=args.group_id,
            key=str,
            value=str,
            auto_offset_reset=args.reset_policy.replace("none", "error"),
            settings=settings,
        )
        try:
            consumer.subscribe(args.topic, listener=_Rebalances())
            _consume(consumer, args, signals)
        finally:
            if signals.stopping:
                print_event("shutdown_requested")
            consumer.close()
            print_event("shutdown_complete")
            if not signals.stopping:  # Java prints this from a shutdown hook, at the very end
                print_event("shutdown_requested")


def _consume(consumer: Consumer[str, str], args: argparse.Namespace, signals: StopSignals) -> None:
    left = args.max_messages if args.max_messages >= 0 else sys.maxsize
    while left > 0 and not signals.stopping:
        batch = _poll(consumer, min(left, POLL_RECORDS_MAX))
        if not batch:
            continue
        left -= len(batch)
        partitions = by_partition(batch)
        if args.verbose:
            for record in batch:
                print_record(record)
        print_event("records_consumed", count=len(batch), partitions=_summaries(partitions))
        if not args.enable_autocommit:
            _commit(consumer, partitions)


def _poll(consumer: Consumer[str, str], limit: int) -> list[StringRecord]:
    """Wait for one record, then take all that have arrived."""
    batch = []
    record = consumer.poll(POLL_S)
    while record is not None:
        batch.append(record)
        if len(batch) >= limit or not consumer.has_more:
            break
        record = consumer.poll(0)
    return batch


def _commit(
    consumer: Consumer[str, str], partitions: dict[TopicPartition, list[StringRecord]]
) -> None:
    offsets = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": records[-1].offset + 1,
        }
        for partition, records in partitions.items()
    ]
    try:
        consumer.commit()
    except KafkaError as error:
        print_event("offsets_committed", offsets=offsets, error=str(error), success=False)
    else:
        print_event("offsets_committed", offsets=offsets, success=True)


def _summaries(
    partitions: dict[TopicPartition, list[StringRecord]],
) -> list[dict[str, Any]]:
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "count": len(records),
            "minOffset": records[0].offset,
            "maxOffset": records[-1].offset,
        }
        for partition, records in partitions.items()
    ]


class _Rebalances:
    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._print("partitions_assigned", partitions)

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self._print("partitions_revoked", partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        """Kafka's listener reports lost partitions as revoked."""
        self._print("partitions_revoked", partitions)

    def _print(self, name: str, partitions: list[TopicPartition]) -> None:
        shown = [{"topic": topic, "partition": number} for topic, number in partitions]
        print_event(name, partitions=shown)


def consumer_settings(args: argparse.Namespace) -> dict[str, Setting]:
    """Options win over the file."""
    settings: dict[str, Setting] = {**read_properties(args.command_config or args.consumer_config)}
    if args.group_protocol.lower() == "consumer":
        settings["group.protocol"] = "consumer"
        if args.group_remote_assignor is not None:
            settings["group.remote.assignor"] = args.group_remote_assignor
    else:
        settings["partition.assignment.strategy"] = args.assignment_strategy
        settings["session.timeout.ms"] = args.session_timeout
    if args.group_instance_id is not None:
        settings["group.instance.id"] = args.group_instance_id
    return {**settings, "enable.auto.commit": args.enable_autocommit}


def _parser() -> SubcommandParser:
    parser = tool_parser("verifiable-consumer", DESCRIPTION, EXAMPLES)
    add = parser.add_argument
    add("--bootstrap-server", required=True, metavar="HOST1:PORT1[,...]", help="The brokers.")
    add("--topic", required=True, metavar="TOPIC", help="Consumes messages from this topic.")
    add("--group-protocol", default="classic", metavar="NAME", help="classic or consumer.")
    add("--group-remote-assignor", metavar="NAME", help="With --group-protocol consumer.")
    add("--group-id", required=True, metavar="GROUP_ID", help="The group.")
    add("--group-instance-id", metavar="ID", help="The id of a static member.")
    add("--max-messages", type=int, default=-1, metavar="N", help="-1: no limit.")
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
