"""Helpers for tests of the sink: rows as Spark passes them, and topics read back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from ottla.client.protocol.connection import BrokerConnection
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.records.batch import AppendOrigin, check_batches
from ottla.records.record import Record, read_records
from ottla.spark.sink.commit_log import SinkIdentity
from ottla.spark.sink.options import WriteOptions, write_options
from ottla.spark.sink.task_attempt import TaskAttempt
from ottla.testing import LocalCluster
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

_numbers = itertools.count()


def options(broker: LocalCluster, **given: Any) -> WriteOptions:
    """Names as in `kafka_acks`: each underscore is a dot."""
    named = {name.replace("_", "."): str(value) for name, value in given.items()}
    return write_options({"kafka.bootstrap.servers": broker.bootstrap_servers, **named})


def topic(
    broker: LocalCluster, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> str:
    name = f"topic-{next(_numbers)}"
    broker.create_topic(name, partitions=partitions, configs=configs)
    return name


def turn(
    query: str = "", *, batch: int = 0, run: str = "run", task: int = 0, attempt: int = 0
) -> TaskAttempt:
    query = query or f"query-{next(_numbers)}"
    return TaskAttempt(SinkIdentity(query), batch, run, task, attempt)


def rows(*values: str, **columns: list[Any]) -> list[pa.RecordBatch]:
    """One Arrow batch."""
    arrays = {"value": pa.array(values, pa.string())}
    arrays |= {name: pa.array(values) for name, values in columns.items()}
    return [pa.RecordBatch.from_pydict(arrays)]


def committed(broker: LocalCluster, name: str) -> list[Record]:
    """The records that a read_committed consumer finds, by partition."""
    with ConnectionPool(broker.bootstrap_servers) as lines:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        (found,) = lines.call(asked, ApiKey.METADATA, MetadataResponse).topics
        indexes = sorted(partition.partition_index for partition in found.partitions)
        line = lines.connection(found.partitions[0].leader_id)
        return [
            record for index in indexes for record in partition_records(line, found.topic_id, index)
        ]


def partition_records(line: BrokerConnection, topic_id: bytes, index: int) -> Iterator[Record]:
    """Up to the first open transaction, without aborted ones."""
    position = 0
    while True:
        wanted = FetchPartition(index, fetch_offset=position, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait=0,
            min_bytes=0,
            isolation_level=1,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
        )
        answer = line.call(request, ApiKey.FETCH, FetchResponse)
        part = answer.responses[0].partitions[0]
        assert part.error_code == 0, part.error_code
        data = bytes(part.records or b"")
        headers = check_batches(data, batch_size_max=1 << 30, origin=AppendOrigin.LEADER)
        if not headers:
            assert position >= part.last_stable_offset
            return
        aborted = {
            (aborted_transaction.producer_id, aborted_transaction.first_offset)
            for aborted_transaction in part.aborted_transactions or ()
        }
        skipped: set[int] = set()
        for header in headers:
            skipped |= {
                producer_id for producer_id, first in aborted if first == header.base_offset
            }
            if header.control:
                skipped.discard(header.producer_id)
            elif not (header.transactional and header.producer_id in skipped):
                yield from read_records(data, header)
        position = headers[-1].next_offset


def values(broker: LocalCluster, name: str) -> list[str]:
    return [(record.value or b"").decode() for record in committed(broker, name)]
