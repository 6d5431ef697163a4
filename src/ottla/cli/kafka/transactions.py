"""kafka-transactions: describes transactions, and aborts those that hang (KIP-664)."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from ottla.cli.kafka.exceptions import message_of
from ottla.cli.kafka.get_offsets import partitions_of
from ottla.cli.kafka.subcommands import Flag, Subcommand, run_command
from ottla.cli.kafka.tool import ToolError
from ottla.client.admin import Admin
from ottla.client.record import TopicPartition
from ottla.client.topics import TopicDescription
from ottla.client.transactions import ActiveProducer, HangingTransaction
from ottla.errors import ErrorCode, KafkaError

NAME: Final = "kafka-transactions"
DESCRIPTION: Final = (
    "This tool shows transactions and the state of producers, and ends transactions that hang."
)
MINUTE_MS: Final = 60_000
NONE: Final = "None"

LIST_COLUMNS: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
DESCRIBE_COLUMNS: Final = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
PRODUCER_COLUMNS: Final = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
HANGING_COLUMNS: Final = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(NAME, DESCRIPTION, COMMANDS, arguments)


def list_transactions(admin: Admin, args: Namespace) -> None:
    longer_than_ms = -1 if args.duration_filter is None else args.duration_filter
    try:
        found = admin.transactions.list(
            longer_than_ms=longer_than_ms, pattern=args.transactional_id_pattern
        )
    except KafkaError as error:
        raise failed("Failed to list transactions", error) from None
    print_columns(
        LIST_COLUMNS,
        [
            [
                listing.transactional_id,
                str(listing.coordinator),
                str(listing.producer_id),
                listing.state,
            ]
            for listing in found
        ],
    )


def describe(admin: Admin, args: Namespace) -> None:
    name = args.transactional_id
    title = f"Failed to describe transaction state of transactional-id `{name}`"
    try:
        found = admin.transactions.describe(name)[name]
    except KafkaError as error:
        raise failed(title, error) from None
    if isinstance(found, KafkaError):
        if found.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            words = (
                f"DescribeTransactions request for transactionalId `{name}` failed because the ID"
                " could not be found"
            )
            found = KafkaError(found.code, words)
        raise failed(title, found)
    start = found.start_ms
    print_columns(
        DESCRIBE_COLUMNS,
        [
            [
                str(found.coordinator),
                found.transactional_id,
                str(found.producer_id),
                str(found.producer_epoch),
                found.state,
                str(found.timeout_ms),
                NONE if start is None else str(start),
                NONE if start is None else str(_now_ms() - start),
                ",".join(str(partition) for partition in sorted(found.partitions)),
            ]
        ],
    )


def describe_producers(admin: Admin, args: Namespace) -> None:
    partition = TopicPartition(args.topic, args.partition)
    where = "leader" if args.broker_id is None else f"broker {args.broker_id}"
    found = _producers(
        admin,
        partition,
        args.broker_id,
        f"Failed to describe producers for partition {partition} on {where}",
    )
    print_columns(
        PRODUCER_COLUMNS,
        [
            [
                str(producer.producer_id),
                str(producer.producer_epoch),
                str(producer.coordinator_epoch),
                str(producer.last_sequence),
                str(producer.last_timestamp_ms),
                NONE if producer.start_offset is None else str(producer.start_offset),
            ]
            for producer in found
        ],
    )


def abort(admin: Admin, args: Namespace) -> None:
    partition = TopicPartition(args.topic, args.partition)
    if args.start_offset is None and args.producer_id is None:
        raise ToolError(
            "The transaction to abort must be identified either with --start-offset (for brokers on"
            " 3.0 or above) or with --producer-id, --producer-epoch, and --coordinator-epoch (for"
            " older brokers)"
        )
    if args.start_offset is None:
        for name in ("producer-epoch", "coordinator-epoch"):
            if getattr(args, name.replace("-", "_")) is None:
                raise ToolError(f"Missing required argument --{name}")
        who = (args.producer_id, args.producer_epoch, args.coordinator_epoch)
    else:
        who = _open_at(admin, partition, args.start_offset)
    try:
        admin.transactions.abort(
            partition, producer_id=who[0], producer_epoch=who[1], coordinator_epoch=who[2]
        )
    except KafkaError as error:
        names = ("topicPartition", "producerId", "producerEpoch", "coordinatorEpoch")
        shown = ", ".join(f"{a}={b}" for a, b in zip(names, (partition, *who), strict=True))
        spec = f"AbortTransactionSpec({shown})"
        raise failed(f"Failed to abort transaction {spec}", _refused(spec, error)) from None


def _refused(spec: str, error: KafkaError) -> KafkaError:
    reason = f"due to unexpected error: {message_of(error)}"
    if error.code == ErrorCode.INVALID_PRODUCER_EPOCH:
        reason = "due an invalid producer epoch"
    return KafkaError(error.code, f"WriteTxnMarkers request with {spec} failed {reason}")


def find_hanging(admin: Admin, args: Namespace) -> None:
    if args.topic is None and args.broker_id is None:
        raise ToolError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope"
            " of the search"
        )
    if args.partition is not None and args.topic is None:
        raise ToolError("The --partition argument requires --topic to be provided")
    minutes = 15 if args.max_transaction_timeout is None else args.max_transaction_timeout
    now_ms = _now_ms()
    found = admin.transactions.hanging(
        _searched(admin, args),
        broker_id=args.broker_id,
        older_than_ms=minutes * MINUTE_MS,
        now_ms=now_ms,
    )
    print_columns(HANGING_COLUMNS, [hanging_row(transaction, now_ms) for transaction in found])


def hanging_row(transaction: HangingTransaction, now_ms: int) -> list[str]:
    producer = transaction.producer
    return [
        transaction.partition.topic,
        str(transaction.partition.partition),
        str(producer.producer_id),
        str(producer.producer_epoch),
        str(producer.coordinator_epoch),
        str(producer.start_offset),
        str(producer.last_timestamp_ms),
        str((now_ms - producer.last_timestamp_ms) // MINUTE_MS),
    ]


def terminate(admin: Admin, args: Namespace) -> None:
    name = args.transactionalId
    try:
        admin.transactions.terminate(name)
    except KafkaError as error:
        raise failed(f"Failed to force terminate transactionalId `{name}`", error) from None


def print_columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns padded to the widest value, each followed by a tab."""
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    for row in (names, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("".join(f"{cell}\t" for cell in cells))


def failed(title: str, error: KafkaError) -> ToolError:
    return ToolError(f"{title}: {message_of(error)}. Enable debug logging for additional detail.")


def _open_at(admin: Admin, partition: TopicPartition, offset: int) -> tuple[int, int, int]:
    """The producer of the transaction that is open since this offset, and the epochs."""
    title = f"Failed to validate producer state for partition {partition}"
    for producer in _producers(admin, partition, None, title):
        if producer.start_offset == offset:
            # A producer in its first transaction has had no marker from a coordinator yet.
            return producer.producer_id, producer.producer_epoch, max(0, producer.coordinator_epoch)
    raise ToolError(
        f"Could not find any open transactions starting at offset {offset} on partition {partition}"
    )


def _producers(
    admin: Admin, partition: TopicPartition, broker_id: int | None, title: str
) -> list[ActiveProducer]:
    try:
        found = admin.transactions.producers([partition], broker_id=broker_id)[partition]
    except KafkaError as error:
        raise failed(title, error) from None
    if isinstance(found, KafkaError):
        raise failed(title, found)
    return found


def _searched(admin: Admin, args: Namespace) -> list[TopicPartition]:
    """The partitions of --topic, --partition and --broker-id."""
    if args.topic is not None and args.partition is not None:
        return [TopicPartition(args.topic, args.partition)]
    names = [args.topic] if args.topic is not None else admin.topics.names()
    if args.broker_id is None:
        partitions = partitions_of(admin, names)
        if not partitions:
            error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise failed(f"Failed to describe {len(names)} topics", error)
        return partitions
    return [
        TopicPartition(topic.name, partition.partition)
        for topic in admin.topics.describe(*names).values()
        if isinstance(topic, TopicDescription)
        for partition in topic.partitions
        if args.broker_id in partition.replicas
    ]


def _now_ms() -> int:
    return int(time.time() * 1000)


_TOPIC: Final = Flag("topic", "topic name", required=True)
_PARTITION: Final = Flag("partition", "partition number", "Integer", required=True)

COMMANDS: Final = (
    Subcommand(
        "list",
        "list transactions",
        (
            Flag("duration-filter", "only transactions that run longer, in ms; < 0: all", "Long"),
            Flag("transactional-id-pattern", "only ids that match a regular expression"),
        ),
        list_transactions,
    ),
    Subcommand(
        "describe",
        "describe the state of a transactional id",
        (Flag("transactional-id", "transactional id", required=True),),
        describe,
    ),
    Subcommand(
        "describe-producers",
        "describe the producers of a partition",
        (Flag("broker-id", "ask this broker, not the leader", "Integer"), _TOPIC, _PARTITION),
        describe_producers,
    ),
    Subcommand(
        "abort",
        "abort a hanging transaction",
        (
            _TOPIC,
            _PARTITION,
            Flag("start-offset", "where the transaction begins (brokers since 3.0)", "Long"),
            Flag("producer-id", "producer id (older brokers)", "Long"),
            Flag("producer-epoch", "producer epoch (older brokers)", "Short"),
            Flag("coordinator-epoch", "coordinator epoch (older brokers)", "Integer"),
        ),
        abort,
    ),
    Subcommand(
        "find-hanging",
        "find hanging transactions",
        (
            Flag("broker-id", "the broker to search", "Integer"),
            Flag("max-transaction-timeout", "in minutes (default: 15)", "Integer"),
            Flag("topic", "the topic to search; --partition needs it"),
            Flag("partition", "partition number", "Integer"),
        ),
        find_hanging,
    ),
    Subcommand(
        "forceTerminateTransaction",
        "abort the transaction of a transactional id, and fence its producer",
        (Flag("transactionalId", "transactional id", required=True),),
        terminate,
    ),
)


if __name__ == "__main__":
    sys.exit(main())
