"""What a task does: rows come as Arrow batches, and go into topics."""

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
from ottla.client.protocol.transactions import NOBODY, abort_now, idempotent
from ottla.spark.sink.decisions import Decisions, Identity, Written
from ottla.spark.sink.encode import batches_of
from ottla.spark.sink.options import Output, WriteOptions
from ottla.spark.sink.partitioner import Partitioner
from ottla.spark.sink.rows import Records, reader

CLUSTERS_MAX: Final = 4
OUTPUTS_MARKED_MAX: Final = 300

# The connections of this process, kept from task to task: Spark uses its Python workers again. The
# process is a part of the key, because a fork must not talk through its parent's sockets.
_clusters: dict[tuple[object, ...], ClusterClient] = {}


@dataclass(frozen=True, slots=True)
class Turn:
    """One attempt of one task at one batch of a query; `run` is the start of the query."""

    identity: Identity
    batch: int
    run: str
    task: int
    attempt: int = 0
    owned: bool = False
    """The run has taken over before its first batch; one that was replaced may not do so again."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a task tells the driver: what it wrote, as whom, and which outputs there were."""

    turn: Turn
    written: Written
    outputs: frozenset[str] = frozenset()


def write_once(options: WriteOptions, turn: Turn, rows: Iterable[Any]) -> Told:
    """Exactly once: in a transaction, which stays open until the driver decides."""
    return _write_once(options, turn, _records(options, rows))


def _write_once(options: WriteOptions, turn: Turn, records: Iterator[Records]) -> Told:
    first = next(records, None)
    if first is None:
        return Told(turn, Written(turn.task, turn.attempt))
    cluster = cluster_of(options)
    cluster.patiently(lambda: cluster.topic(first.topic))  # a group has offsets of what exists only
    begun = decisions_of(options, turn.identity).begin(
        batch=turn.batch,
        task=turn.task,
        attempt=turn.attempt,
        run=turn.run,
        topic=first.topic,
        owned=turn.owned,
    )
    all_records = chain([first], records)
    if begun.producer is None:
        new = tuple(each for each in options.outputs if mark(each.topic) not in begun.outputs)
        if begun.outputs and new:
            return _write_new(options, turn, new, all_records)
        if options.packed:
            deque(all_records, maxlen=0)  # who makes them keeps state: all of it has to run
        skipped = Written(turn.task, turn.attempt, topic=first.topic, skipped=True)
        return Told(turn, skipped, _marks(options))
    sender = Sender(cluster, begun.producer)
    try:
        _send(sender, options, all_records)
    except BaseException:
        sender.drop()
        abort_now(cluster, begun.producer)
        raise
    written = Written(turn.task, turn.attempt, sender.sent, begun.producer, first.topic)
    return Told(turn, written, _marks(options))


def _write_new(
    options: WriteOptions, turn: Turn, new: tuple[Output, ...], records: Iterator[Records]
) -> Told:
    """The batch is decided, but the query has got more outputs since: those are still to come.

    They are a sink of their own for this batch, so that this is exactly once as well.
    """
    topics = {each.topic for each in new}
    name = f"{turn.identity.sink}+{mark(' '.join(sorted(topics)))}"
    return _write_once(
        replace(options, outputs=new),
        replace(turn, identity=replace(turn.identity, sink=name)),
        (each for each in records if each.topic in topics),
    )


def mark(topic: str) -> str:
    """A topic's short name in a decision."""
    return f"{zlib.crc32(topic.encode()):08x}"


def _marks(options: WriteOptions) -> frozenset[str]:
    if len(options.outputs) > OUTPUTS_MARKED_MAX:  # more than an offset's metadata can hold
        return frozenset()
    return frozenset(mark(each.topic) for each in options.outputs)


def write_plainly(options: WriteOptions, rows: Iterable[Any]) -> int:
    """At least once: what a task writes again is there again. Returns how many records it wrote."""
    cluster = cluster_of(options)
    records = _records(options, rows)
    first = next(records, None)
    if first is None:
        return 0
    producer = idempotent(cluster) if options.idempotent else NOBODY
    sender = Sender(cluster, producer, acks=options.acks)
    try:
        _send(sender, options, chain([first], records))
    except BaseException:
        sender.drop()
        raise
    return sender.sent


def decisions_of(options: WriteOptions, identity: Identity) -> Decisions:
    return Decisions(cluster_of(options), identity, timeout_ms=options.transaction_timeout_ms)


def cluster_of(options: WriteOptions) -> ClusterClient:
    """This process's connections to a cluster."""
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


def _records(options: WriteOptions, rows: Iterable[Any]) -> Iterator[Records]:
    read = reader(options)
    cluster_of(options).refresh()
    for batch in rows:
        for records in read(batch):
            if len(records.columns):
                yield records


def _send(sender: Sender, options: WriteOptions, records: Iterable[Records]) -> None:
    partitioner = Partitioner()
    for some in records:
        if some.topic == options.topic_last:
            sender.finish()
        sender.send(_batches(sender.cluster, options, partitioner, some))
    sender.finish()


def _batches(
    cluster: ClusterClient, options: WriteOptions, partitioner: Partitioner, records: Records
) -> Iterator[tuple[Partition, EncodedBatch]]:
    topic = cluster.patiently(lambda: cluster.topic(records.topic))
    for partition, columns in partitioner.split(records, len(topic.leaders)):
        for batch in batches_of(
            columns, bytes_max=options.batch_bytes, compression=options.compression
        ):
            yield (records.topic, partition), batch
