"""What one attempt of a Spark task does: writes Arrow batches of rows to topics."""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.encoded_batch import EncodedBatch
from ottla.client.protocol.sender import Partition, Sender
from ottla.client.protocol.transactions import NO_PRODUCER_ID, abort_now, idempotent_producer
from ottla.spark.sink.commit_log import CommitLog, SinkIdentity, TaskTransaction
from ottla.spark.sink.encode import batches_of
from ottla.spark.sink.options import SinkOutput, WriteOptions
from ottla.spark.sink.partitioner import Partitioner
from ottla.spark.sink.topic_records import TopicRecords, reader

CLUSTERS_MAX: Final = 4
OUTPUTS_MARKED_MAX: Final = 300

# Connections are kept from task to task, because Spark reuses its Python workers. The key has the
# pid, because a forked process must not use its parent's sockets.
_clusters: dict[tuple[object, ...], ClusterClient] = {}


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One attempt of one task at one batch of a query; `run` is the start of the query."""

    identity: SinkIdentity
    batch: int
    run: str
    task: int
    attempt: int = 0
    owned: bool = False
    """The run took over before its first batch; once replaced it must not take over again."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a task returns to the driver: its attempt, its transaction, and the query's outputs."""

    attempt: TaskAttempt
    transaction: TaskTransaction
    outputs: frozenset[str] = frozenset()


def write_exactly_once(
    options: WriteOptions, attempt: TaskAttempt, rows: Iterable[Any]
) -> WriteResult:
    """Exactly once: in a transaction that stays open until the driver commits the batch."""
    return _write_exactly_once(options, attempt, _records(options, rows))


def _write_exactly_once(
    options: WriteOptions, attempt: TaskAttempt, records: Iterator[TopicRecords]
) -> WriteResult:
    first = next(records, None)
    if first is None:
        return WriteResult(attempt, TaskTransaction(attempt.task, attempt.attempt))
    cluster = cluster_of(options)
    # A group has offsets only of topics that exist.
    cluster.with_retries(lambda: cluster.topic(first.topic))
    start = commit_log_of(options, attempt.identity).begin(
        batch=attempt.batch,
        task=attempt.task,
        attempt=attempt.attempt,
        run=attempt.run,
        topic=first.topic,
        owned=attempt.owned,
    )
    all_records = chain([first], records)
    if start.producer is None:
        new = tuple(output for output in options.outputs if mark(output.topic) not in start.outputs)
        if start.outputs and new:
            return _write_new(options, attempt, new, all_records)
        if options.packed:
            # The batch is committed, but the rows come from stateful tasks: they must process their
            # input again, or their state would lack this batch.
            deque(all_records, maxlen=0)
        skipped = TaskTransaction(attempt.task, attempt.attempt, topic=first.topic, skipped=True)
        return WriteResult(attempt, skipped, _marks(options))
    sender = Sender(cluster, start.producer)
    try:
        _send(sender, options, all_records)
    except BaseException:
        sender.drop()
        abort_now(cluster, start.producer)
        raise
    transaction = TaskTransaction(
        attempt.task, attempt.attempt, sender.sent, start.producer, first.topic
    )
    return WriteResult(attempt, transaction, _marks(options))


def _write_new(
    options: WriteOptions,
    attempt: TaskAttempt,
    new: tuple[SinkOutput, ...],
    records: Iterator[TopicRecords],
) -> WriteResult:
    """Writes outputs that were added to the query after the batch was committed.

    For this batch they form a separate sink, so that they are written exactly once, too.
    """
    topics = {output.topic for output in new}
    name = f"{attempt.identity.sink}+{mark(' '.join(sorted(topics)))}"
    return _write_exactly_once(
        replace(options, outputs=new),
        replace(attempt, identity=replace(attempt.identity, sink=name)),
        (some for some in records if some.topic in topics),
    )


def mark(topic: str) -> str:
    """A topic's short name in a commit entry."""
    return f"{zlib.crc32(topic.encode()):08x}"


def _marks(options: WriteOptions) -> frozenset[str]:
    if len(options.outputs) > OUTPUTS_MARKED_MAX:  # more than an offset's metadata can hold
        return frozenset()
    return frozenset(mark(output.topic) for output in options.outputs)


def write_at_least_once(options: WriteOptions, rows: Iterable[Any]) -> int:
    """At least once: a rerun of the task duplicates its records. Returns the count of records."""
    cluster = cluster_of(options)
    records = _records(options, rows)
    first = next(records, None)
    if first is None:
        return 0
    producer = idempotent_producer(cluster) if options.idempotent else NO_PRODUCER_ID
    sender = Sender(cluster, producer, acks=options.acks)
    try:
        _send(sender, options, chain([first], records))
    except BaseException:
        sender.drop()
        raise
    return sender.sent


def commit_log_of(options: WriteOptions, identity: SinkIdentity) -> CommitLog:
    return CommitLog(cluster_of(options), identity, timeout_ms=options.transaction_timeout_ms)


def cluster_of(options: WriteOptions) -> ClusterClient:
    """This process's client for a cluster."""
    key = (
        os.getpid(),
        options.servers,
        tuple(sorted(options.settings.items())),
        options.request_s,
        options.patience_s,
    )
    if key not in _clusters:
        while len(_clusters) >= CLUSTERS_MAX:
            _clusters.pop(next(iter(_clusters))).close()
        _clusters[key] = ClusterClient(
            options.servers,
            options.settings,
            patience_s=options.patience_s,
            request_s=options.request_s,
            make_topics=True,
        )
    return _clusters[key]


def _records(options: WriteOptions, rows: Iterable[Any]) -> Iterator[TopicRecords]:
    read = reader(options)
    cluster_of(options).refresh()
    for batch in rows:
        for records in read(batch):
            if len(records.columns):
                yield records


def _send(sender: Sender, options: WriteOptions, records: Iterable[TopicRecords]) -> None:
    partitioner = Partitioner()
    for some in records:
        if some.topic == options.topic_last:
            sender.finish()
        sender.send(_batches(sender.cluster, options, partitioner, some))
    sender.finish()


def _batches(
    cluster: ClusterClient, options: WriteOptions, partitioner: Partitioner, records: TopicRecords
) -> Iterator[tuple[Partition, EncodedBatch]]:
    topic = cluster.with_retries(lambda: cluster.topic(records.topic))
    for partition, columns in partitioner.split(records, len(topic.leaders)):
        for batch in batches_of(
            columns, bytes_max=options.batch_bytes, compression=options.compression
        ):
            yield (records.topic, partition), batch
