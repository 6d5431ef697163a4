"""Produce (key 0), v3 to v13.

Appends each partition's batch in the order in which requests arrive; waits for the in-sync replicas
only when acks is all. With acks 0 there is no response: an error closes the connection, because
that is all such a client can notice.

A transactional batch is accepted only if the partition is in the producer's transaction, which the
coordinator confirms once (see `ottla.broker.verification`). Older clients get error codes that they
know.

v5   log start offset             v7   zstd (KIP-110)          v8   per-record errors (KIP-467)
v10  leader hints (KIP-951)       v11  TRANSACTION_ABORTABLE (KIP-890)
v12  implicit AddPartitionsToTxn (KIP-890)                     v13  topic ids (KIP-516)
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import Final, NamedTuple

from ottla.broker.delayed_produce import DelayedProduce, ProducePartitionStatus
from ottla.broker.leader_hints import MOVED, leader_endpoints, leader_hint
from ottla.broker.promise import Promise, await_response
from ottla.broker.request_context import RequestContext, Response
from ottla.broker.verification import TransactionProducer
from ottla.cluster.image import INTERNAL_TOPICS
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import (
    BATCH_OVERHEAD,
    CRC_DATA_POSITION,
    MAGIC,
    TRANSACTIONAL_BIT,
    uses_zstd,
)
from ottla.replica.partition import Partition
from ottla.slices import FileSlice
from ottla.wire.connection import ProtocolError
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ACKS: Final = (-1, 0, 1)
ACKS_ALL: Final = -1
HINTS_FROM: Final = 10
ZSTD_FROM: Final = 7
ABORTABLE_FROM: Final = 11
ADDS_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
MAGIC_POSITION: Final = 16
ATTRIBUTES_POSITION: Final = CRC_DATA_POSITION + 1  # the byte of a batch that has the flags
PRODUCER_POSITION: Final = 43
PRODUCER: Final = Struct(">qhi")  # id, epoch, first sequence
RETRIABLE: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
# The partitions whose batch is rejected, and why.
RejectedPartitions = dict[tuple[str, int], KafkaError]
# Those of the transaction's verification, and those of the schemas' validation.
Rejections = tuple[RejectedPartitions | None, RejectedPartitions | None]
ADMIN_CLIENT: Final = "__admin_client"  # a client with this id may write to internal topics


def handle(ctx: RequestContext, request: ProduceRequest) -> Response:
    if request.transactional_id is None and not ctx.broker.schema_validation.on:
        return _produce(ctx, request, None, None)
    ready = _ready(ctx, request)
    if ready.is_resolved:
        return _produce(ctx, request, *ready.value)
    return _produce_later(ctx, request, ready)


def _ready(ctx: RequestContext, request: ProduceRequest) -> Promise[Rejections]:
    """Resolves when schemas and transactions are verified. Schemas come first, because the answer
    of a transaction's coordinator holds only at the moment in which it is given."""
    ready = Promise[Rejections]()

    def verify(invalid: RejectedPartitions) -> None:
        if request.transactional_id is None:
            ready.resolve((None, invalid or None))
            return
        ctx.now_ms = ctx.broker.clock.now_ms()
        verified = _verify(ctx, request, request.transactional_id)
        verified.then(lambda rejected: ready.resolve((rejected, invalid or None)))

    if ctx.broker.schema_validation.on:
        ctx.broker.schema_validation.check(_batches_to_validate(ctx, request)).then(verify)
    else:
        verify({})
    return ready


def _batches_to_validate(
    ctx: RequestContext, request: ProduceRequest
) -> list[tuple[Partition, PartitionProduceData]]:
    """The batches for topics whose records must name their schemas."""
    found: list[tuple[Partition, PartitionProduceData]] = []
    for topic in request.topic_data:
        name = topic.name
        if ctx.version >= TOPIC_IDS_FROM:
            name = ctx.broker.image.topic_name(topic.topic_id)
        hosted = ctx.broker.partitions.of_topic(name)
        for requested in topic.partition_data:
            partition = hosted.get(requested.index) or ctx.broker.partitions.create_pending(
                name, requested.index
            )
            if partition is None or not partition.leads or not partition.log.validates_schemas:
                continue  # `_produce` refuses it, or appends it unchecked
            if requested.records:
                found.append((partition, requested))
    return found


def _produce_later(
    ctx: RequestContext, request: ProduceRequest, ready: Promise[Rejections]
) -> Response:
    """Wait for the schema registry or the transaction's coordinator.

    The session is held meanwhile, so that no later request of this client overtakes this one. The
    records are copied, because the connection reuses the buffer that they lie in.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None and not isinstance(data.records, FileSlice):
                data.records = bytearray(data.records)
    ctx.session.hold(True)
    appended: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def append(known: Rejections) -> None:
        ctx.now_ms = ctx.broker.clock.now_ms()
        try:
            answer = _produce(ctx, request, *known)
        except Exception as error:
            appended.set_exception(error)
        else:
            appended.set_result(answer)
        ctx.session.hold(False)

    ready.then(append)
    return await_response(appended)


def _produce(
    ctx: RequestContext,
    request: ProduceRequest,
    rejected: RejectedPartitions | None,
    invalid: RejectedPartitions | None,
) -> Response:
    """`rejected` rejects transactional batches, `invalid` batches with wrong schemas."""
    version, now_ms = ctx.version, ctx.now_ms
    failed: KafkaError | None = None
    topics = []
    pending: list[ProducePartitionStatus] | None = [] if request.acks == ACKS_ALL else None
    for topic in request.topic_data:
        if version >= TOPIC_IDS_FROM:
            name = ctx.broker.image.topic_name(topic.topic_id)
        else:
            name = topic.name
        hosted = ctx.broker.partitions.of_topic(name)
        answers = []
        for data in topic.partition_data:
            try:
                partition = hosted.get(data.index) or ctx.broker.partitions.create_pending(
                    name, data.index
                )
                if partition is None:
                    raise _missing(ctx, name, data.index)
                if name[:2] == "__":
                    _check_internal(ctx, name)
                if request.acks not in ACKS:
                    raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
                if invalid is not None and (name, data.index) in invalid:
                    raise invalid[name, data.index]
                answers.append(_append(partition, rejected, data, version, now_ms, pending))
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
    response = ProduceResponse(responses=topics)
    if pending:
        waiting = DelayedProduce(response, lambda known: _with_leader_hints(ctx, known))
        return waiting.wait(pending, request.timeout)
    return response if failed is None else _with_leader_hints(ctx, response)


def _append(
    partition: Partition,
    rejected: RejectedPartitions | None,
    requested: PartitionProduceData,
    version: int,
    now_ms: int,
    pending: list[ProducePartitionStatus] | None,
) -> PartitionProduceResponse:
    data = requested.records
    assert not isinstance(data, FileSlice)  # the records of a request lie in its frame
    if data is None or not len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD, "A produce request has one batch per partition.")
    if version < ZSTD_FROM and uses_zstd(data):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later"
        )
    if (
        len(data) > ATTRIBUTES_POSITION
        and data[ATTRIBUTES_POSITION] & TRANSACTIONAL_BIT
        and data[MAGIC_POSITION] == MAGIC
    ):
        if rejected is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if (partition.topic, partition.index) in rejected:
            raise rejected[partition.topic, partition.index]
    if pending is not None and partition.followers is not None:
        # Before the append, so that a batch which is refused leaves no trace in the log.
        partition.check_leads()
        partition.check_min_isr()
    appended = partition.append(memoryview(data), now_ms)
    answer = PartitionProduceResponse(
        index=requested.index,
        base_offset=appended.first_offset,
        log_append_time=appended.append_time_ms,
        log_start_offset=appended.log_start_offset,
    )
    if pending is not None and partition.followers is not None:
        pending.append(ProducePartitionStatus(partition, appended.last_offset + 1, answer))
    return answer


def _missing(ctx: RequestContext, name: str, index: int) -> KafkaError:
    if not name and ctx.version >= TOPIC_IDS_FROM:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return ctx.broker.partitions.missing(name, index)


def _check_internal(ctx: RequestContext, name: str) -> None:
    """Clients may not write to the coordinators' topics."""
    if name in INTERNAL_TOPICS and ctx.client_id != ADMIN_CLIENT:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}"
        )


def _with_leader_hints(ctx: RequestContext, response: ProduceResponse) -> ProduceResponse:
    """KIP-951: add the current leaders of partitions that this broker does not lead."""
    if ctx.version < HINTS_FROM:
        return response
    leaders = set()
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code not in MOVED:
                continue
            name = topic.name or ctx.broker.image.topic_name(topic.topic_id)
            hint = leader_hint(ctx.broker.image, name, answer.index)
            if hint is not None:
                answer.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
                leaders.add(hint.leader_id)
    if leaders:
        nodes = leader_endpoints(ctx.broker.image, leaders, ctx.session.listener)
        response.node_endpoints = [NodeEndpoint(*node) for node in nodes]
    return response


# Transactions


class TransactionalBatch(NamedTuple):
    """A transactional batch of the request, with the producer fields of its header."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    base_sequence: int


def _verify(
    ctx: RequestContext, request: ProduceRequest, transactional_id: str
) -> Promise[RejectedPartitions]:
    """Resolves to the partitions that reject the request's transactional batches, and why."""
    verified = Promise[RejectedPartitions]()
    batches = _transactional(ctx, request)
    first_batches: list[TransactionalBatch] = []
    for batch in batches:
        if batch[1:3] != batches[0][1:3]:
            verified.resolve(_mixed_producers(batches))
            return verified
        entry = batch.partition.log.producer(batch.producer_id)
        if entry is None or not entry.in_transaction(batch.producer_epoch):
            first_batches.append(batch)
    if not first_batches:
        verified.resolve({})
        return verified
    producer = TransactionProducer(
        transactional_id,
        first_batches[0].producer_id,
        first_batches[0].producer_epoch,
        adds=ctx.version >= ADDS_FROM,
        knows_abortable=ctx.version >= ABORTABLE_FROM,
    )
    partitions = [batch.partition for batch in first_batches]
    answer = ctx.broker.verification.verify(producer, partitions, ctx.now_ms)
    answer.then(lambda codes: verified.resolve(_verified(first_batches, producer, codes)))
    return verified


def _verified(
    first_batches: list[TransactionalBatch],
    producer: TransactionProducer,
    codes: dict[tuple[str, int], ErrorCode],
) -> RejectedPartitions:
    rejected = {key: _rejection(code, producer) for key, code in codes.items()}
    for batch in first_batches if producer.adds else ():
        key = (batch.partition.topic, batch.partition.index)
        if key not in rejected and batch.base_sequence != 0 and _is_new_producer(batch):
            rejected[key] = KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence {batch.base_sequence} of producer {batch.producer_id}, which has no "
                f"records here: a transaction begins with 0",
            )
    return rejected


def _mixed_producers(batches: list[TransactionalBatch]) -> RejectedPartitions:
    mixed = KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        "Transactional records contained more than one producer ID",
    )
    return {(batch.partition.topic, batch.partition.index): mixed for batch in batches}


def _transactional(ctx: RequestContext, request: ProduceRequest) -> list[TransactionalBatch]:
    """The transactional batches. `_append` refuses what is not a batch at all."""
    found: list[TransactionalBatch] = []
    for topic in request.topic_data:
        name = topic.name
        if ctx.version >= TOPIC_IDS_FROM:
            name = ctx.broker.image.topic_name(topic.topic_id)
        hosted = ctx.broker.partitions.of_topic(name)
        for requested in topic.partition_data:
            data = requested.records
            partition = hosted.get(requested.index) or ctx.broker.partitions.create_pending(
                name, requested.index
            )
            if partition is None or data is None or len(data) < BATCH_OVERHEAD:
                continue
            if not partition.leads:
                continue  # `_produce` refuses it anyway
            assert not isinstance(data, FileSlice)
            if data[ATTRIBUTES_POSITION] & TRANSACTIONAL_BIT and data[MAGIC_POSITION] == MAGIC:
                found.append(
                    TransactionalBatch(partition, *PRODUCER.unpack_from(data, PRODUCER_POSITION))
                )
    return found


def _is_new_producer(batch: TransactionalBatch) -> bool:
    entry = batch.partition.log.producer(batch.producer_id)
    return entry is None or not entry.batches


def _rejection(code: ErrorCode, producer: TransactionProducer) -> KafkaError:
    """The error for the producer; NOT_ENOUGH_REPLICAS stands for those it would not retry."""
    if code is ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "Partition was not added to the transaction")
    if code in RETRIABLE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not producer.adds):
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {code.name}",
        )
    return KafkaError(code)


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
