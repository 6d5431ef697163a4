"""Produce (key 0), v3 to v13.

Appends each partition's batch in the order requests arrive; waits for the in-sync replicas only
when acks is all. With acks 0 there is no response: an error closes the connection, which is all
that such a client can notice.

v5   log start offset             v7   zstd (KIP-110)          v8   per-record errors (KIP-467)
v10  leader hints (KIP-951)       v12  implicit AddPartitionsToTxn (KIP-890)
v13  topic ids (KIP-516)
"""

from __future__ import annotations

from typing import Final

from ottla.broker.context import Context
from ottla.cluster.image import INTERNAL_TOPICS
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import CRC_DATA_POSITION, MAGIC, TRANSACTIONAL_BIT, uses_zstd
from ottla.replica.partition import Partition
from ottla.slices import FileSlice
from ottla.wire.connection import ProtocolError
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ACKS: Final = (-1, 0, 1)
ZSTD_FROM: Final = 7
TOPIC_IDS_FROM: Final = 13
MAGIC_POSITION: Final = 16
ATTRIBUTES_POSITION: Final = CRC_DATA_POSITION + 1  # in a batch, the byte that has the flags
ADMIN_CLIENT: Final = "__admin_client"  # whoever calls itself so may write to internal topics


def handle(ctx: Context, request: ProduceRequest) -> ProduceResponse | None:
    version, now_ms = ctx.version, ctx.now_ms
    failed: KafkaError | None = None
    topics = []
    for topic in request.topic_data:
        if version >= TOPIC_IDS_FROM:
            name = ctx.broker.image.topic_name(topic.topic_id)
        else:
            name = topic.name
        held = ctx.broker.partitions.of_topic(name)
        answers = []
        for data in topic.partition_data:
            try:
                partition = held.get(data.index)
                if partition is None:
                    raise _missing(ctx, name, data.index)
                if name[:2] == "__":
                    _check_internal(ctx, name)
                if request.acks not in ACKS:
                    raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
                answers.append(_append(partition, request, data, version, now_ms))
            except KafkaError as error:
                failed = error
                answers.append(_refused(data.index, error))
        topics.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    if request.acks == 0:
        if failed is not None:
            raise ProtocolError(f"a produce with acks=0 failed: {failed}")
        return None
    return ProduceResponse(responses=topics)


def _append(
    partition: Partition,
    request: ProduceRequest,
    asked: PartitionProduceData,
    version: int,
    now_ms: int,
) -> PartitionProduceResponse:
    data = asked.records
    assert not isinstance(data, FileSlice)  # a request's records lie in its frame
    if data is None or not len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD, "a produce request carries one batch")
    if version < ZSTD_FROM and uses_zstd(data):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later"
        )
    if (
        len(data) > ATTRIBUTES_POSITION
        and data[ATTRIBUTES_POSITION] & TRANSACTIONAL_BIT
        and data[MAGIC_POSITION] == MAGIC
    ):
        raise _no_transaction(request)
    appended = partition.append(memoryview(data), now_ms)
    return PartitionProduceResponse(
        index=asked.index,
        base_offset=appended.first_offset,
        log_append_time=appended.append_time_ms,
        log_start_offset=appended.log_start_offset,
    )


def _missing(ctx: Context, name: str, index: int) -> KafkaError:
    if not name and ctx.version >= TOPIC_IDS_FROM:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return ctx.broker.partitions.missing(name, index)


def _check_internal(ctx: Context, name: str) -> None:
    """What the coordinators keep in their topics is not for everybody to write."""
    if name in INTERNAL_TOPICS and ctx.client_id != ADMIN_CLIENT:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}"
        )


def _no_transaction(request: ProduceRequest) -> KafkaError:
    """No transaction can have been begun here; one that nobody ends would stop all readers of
    committed records for good."""
    if request.transactional_id is None:
        return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return KafkaError(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")


def _refused(index: int, error: KafkaError) -> PartitionProduceResponse:
    records = [
        BatchIndexAndErrorMessage(batch_index=record, batch_index_error_message=message)
        for record, message in getattr(error, "records", ())
    ]
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_append_time=-1,
        log_start_offset=-1,
        record_errors=records,
        error_message=error.message or None,
    )
