"""kafka-verifiable-share-consumer: prints what a share consumer receives and acknowledges."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.cli.kafka.subcommands import SubcommandParser, run_parsed, tool_parser
from ottla.cli.kafka.tool import log_error, read_properties
from ottla.cli.kafka.verifiable_events import (
    StringRecord,
    by_partition,
    print_event,
    print_record,
)
from ottla.cli.local.stop_signals import StopSignals
from ottla.client.admin import Admin
from ottla.client.configs import ResourceType
from ottla.client.delivery import Setting
from ottla.client.protocol.probe import probe
from ottla.client.record import TopicPartition
from ottla.client.share_consumer import ShareConsumer
from ottla.errors import KafkaError

NAME: Final = "kafka-verifiable-share-consumer"
DESCRIPTION: Final = (
    "This tool creates a share group and consumes messages from a specific topic and emits share"
    " consumer events (e.g. share consumer startup, received messages, and offsets acknowledged)"
    " as JSON objects to STDOUT."
)
EXAMPLES: Final = """\
examples:
  kafka-verifiable-share-consumer --bootstrap-server localhost:9092 --topic numbers \\
    --group-id workers --offset-reset-strategy earliest --max-messages 10
"""
POLL_S: Final = 0.2
POLL_RECORDS_MAX: Final = 500  # Kafka's max.poll.records
OFFSET_RESET: Final = "share.auto.offset.reset"


def main(arguments: Sequence[str] | None = None) -> int:
    return run_parsed(_parser, work, arguments, help_without_arguments=True)


def work(args: argparse.Namespace) -> None:
    settings: dict[str, Setting] = {**read_properties(args.command_config or args.consumer_config)}
    probe(args.bootstrap_server, settings)
    with StopSignals() as signals:
        print_event("startup_complete")
        if args.offset_reset_strategy:
            _set_offset_reset(args, settings)
        acknowledged = Acknowledgements()
        consumer = ShareConsumer(
            args.bootstrap_server,
            args.topic,
            group=args.group_id,
            key=str,
            value=str,
            on_acknowledgement_commit=acknowledged.add,
            settings=settings,
        )
        try:
            while not signals.stopping and not 0 <= args.max_messages <= acknowledged.count:
                batch = _poll(consumer)
                if batch:
                    _print_batch(batch, verbose=args.verbose)
                    _commit(consumer, args.acknowledgement_mode)
        finally:
            consumer.close()
            print_event("shutdown_complete")


def _set_offset_reset(args: argparse.Namespace, settings: Mapping[str, Setting]) -> None:
    strategy = args.offset_reset_strategy.lower()
    with Admin(args.bootstrap_server, settings=settings) as admin:
        admin.configs.alter(ResourceType.GROUP, args.group_id, set={OFFSET_RESET: strategy})
    print_event("offset_reset_strategy_set", offsetResetStrategy=strategy)


def _poll(consumer: ShareConsumer[str, str]) -> list[StringRecord]:
    """Wait for one record, then take all that have arrived; all of them are accepted."""
    batch = []
    record = consumer.poll(POLL_S)
    while record is not None:
        batch.append(record)
        if len(batch) >= POLL_RECORDS_MAX or not consumer.has_more:
            break
        record = consumer.poll(0)
    consumer.accept()
    return batch


def _print_batch(batch: list[StringRecord], *, verbose: bool) -> None:
    summaries = []
    for partition, records in by_partition(batch).items():
        offsets = sorted(record.offset for record in records)
        summaries.append(_summary(partition, offsets))
        if verbose:
            for record in records:
                print_record(record)
    print_event("records_consumed", count=len(batch), partitions=summaries)


def _commit(consumer: ShareConsumer[str, str], mode: str) -> None:
    """With `auto` the next poll sends the acknowledgements."""
    if mode == "async":
        consumer.commit_async()
    elif mode == "sync":
        try:
            consumer.commit()
        except KafkaError as error:
            log_error(NAME, f"Failed to commit offset synchronously: {error}")


class Acknowledgements:
    """Prints the brokers' answers, and counts the records that they have accepted."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, offsets: Mapping[TopicPartition, set[int]], error: KafkaError | None) -> None:
        partitions = [_summary(partition, sorted(found)) for partition, found in offsets.items()]
        count = sum(len(found) for found in offsets.values())
        why = {} if error is None else {"error": str(error)}
        success = error is None
        print_event(
            "offsets_acknowledged", count=count, partitions=partitions, **why, success=success
        )
        if success:
            self.count += count


def _summary(partition: TopicPartition, offsets: list[int]) -> dict[str, object]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "count": len(offsets),
        "offsets": offsets,
    }


def _parser() -> SubcommandParser:
    parser = tool_parser("verifiable-share-consumer", DESCRIPTION, EXAMPLES)
    add = parser.add_argument
    add("--bootstrap-server", required=True, metavar="HOST1:PORT1[,...]", help="The brokers.")
    add("--topic", required=True, metavar="TOPIC", help="Consumes messages from this topic.")
    add("--group-id", required=True, metavar="GROUP_ID", help="The share group.")
    add("--max-messages", type=int, default=-1, metavar="N", help="-1: no limit.")
    add("--verbose", action="store_true", help="A line for each record.")
    add(
        "--acknowledgement-mode",
        default="auto",
        type=str.lower,
        choices=("auto", "sync", "async"),
        help="Acknowledge with the next poll, or commit after each one.",
    )
    add(
        "--offset-reset-strategy",
        default="",
        metavar="STRATEGY",
        help="Set the group's share.auto.offset.reset: earliest, latest or by_duration:PERIOD.",
    )
    add("--command-config", metavar="FILE", help="A file of consumer settings.")
    add("--consumer.config", dest="consumer_config", metavar="FILE", help="Its old name.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
