"""What tests of the sink share: rows as Spark gives them, and topics read back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from ottla.client.protocol.connection import BrokerConnection
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.records.batch import Origin, check_batches
from ottla.records.record import Record, read_records
from ottla.spark.sink.decisions import Identity
from ottla.spark.sink.options import WriteOptions, write_options
from ottla.spark.sink.writing import Turn
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
) -> Turn:
    query = query or f"query-{next(_numbers)}"
    return Turn(Identity(query), batch, run, task, attempt)


def rows(*values: str, **columns: list[Any]) -> list[pa.RecordBatch]:
    """One Arrow batch."""
    arrays = {"value": pa.array(values, pa.string())}
    arrays |= {name: pa.array(each) for name, each in columns.items()}
    return [pa.RecordBatch.from_pydict(arrays)]


def committed(broker: LocalCluster, name: str) -> list[Record]:
    """What a reader of committed records finds, partition by partition."""
    with ConnectionPool(broker.bootstrap_servers) as lines:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        (found,) = lines.call(asked, ApiKey.METADATA, MetadataResponse).topics
        indexes = sorted(each.partition_index for each in found.partitions)
        line = lines.line(found.partitions[0].leader_id)
        return [
            record for index in indexes for record in partition_records(line, found.topic_id, index)
        ]


def partition_records(line: BrokerConnection, topic_id: bytes, index: int) -> Iterator[Record]:
    """Up to the first transaction that is open, without those that were aborted."""
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
        headers = check_batches(data, batch_size_max=1 << 30, origin=Origin.LEADER)
        if not headers:
            assert position >= part.last_stable_offset
            return
        aborted = {
            (each.producer_id, each.first_offset) for each in part.aborted_transactions or ()
        }
        skipped: set[int] = set()
        for header in headers:
            skipped |= {each for each, first in aborted if first == header.base_offset}
            if header.control:
                skipped.discard(header.producer_id)
            elif not (header.transactional and header.producer_id in skipped):
                yield from read_records(data, header)
        position = headers[-1].next_offset


def values(broker: LocalCluster, name: str) -> list[str]:
    return [(each.value or b"").decode() for each in committed(broker, name)]
