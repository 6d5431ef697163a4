"""Produce (key 0), v3 to v13.

Appends each partition's batch in the order requests arrive; waits for the in-sync replicas only
when acks is all. With acks 0 there is no response: an error closes the connection, which is all
that such a client can notice.

A transaction's batches are taken where the partition is in its producer's transaction, which is
checked once (see `ottla.broker.verification`). Older clients are told so in codes that they know.

v5   log start offset             v7   zstd (KIP-110)          v8   per-record errors (KIP-467)
v10  leader hints (KIP-951)       v11  TRANSACTION_ABORTABLE (KIP-890)
v12  implicit AddPartitionsToTxn (KIP-890)                     v13  topic ids (KIP-516)
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import Final, NamedTuple

from ottla.broker.acknowledging import Acknowledging, Awaited
from ottla.broker.context import Context, Response
from ottla.broker.journal import Answer, answer_of
from ottla.broker.leader_hints import MOVED, leader_of, nodes_of
from ottla.broker.verification import Writer
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
ATTRIBUTES_POSITION: Final = CRC_DATA_POSITION + 1  # in a batch, the byte that has the flags
PRODUCER_POSITION: Final = 43
PRODUCER: Final = Struct(">qhi")  # id, epoch, first sequence
TRY_AGAIN: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
Barred = dict[tuple[str, int], KafkaError]  # which partitions may not be written to, and why
Ready = tuple[Barred | None, Barred | None]
ADMIN_CLIENT: Final = "__admin_client"  # whoever calls itself so may write to internal topics


def handle(ctx: Context, request: ProduceRequest) -> Response:
    if request.transactional_id is None and not ctx.broker.schema_validation.on:
        return _produce(ctx, request, None, None)
    ready = _ready(ctx, request)
    if ready.given:
        return _produce(ctx, request, *ready.response)
    return _produce_later(ctx, request, ready)


def _ready(ctx: Context, request: ProduceRequest) -> Answer[Ready]:
    """When nothing has to be asked any more. Schemas come first, because what a transaction's
    coordinator says holds only in the moment in which it says it."""
    ready = Answer[Ready]()

    def verify(refused: Barred) -> None:
        if request.transactional_id is None:
            ready.give((None, refused or None))
            return
        ctx.now_ms = ctx.broker.clock.now_ms()
        verified = _verify(ctx, request, request.transactional_id)
        verified.when(lambda barred: ready.give((barred, refused or None)))

    if ctx.broker.schema_validation.on:
        ctx.broker.schema_validation.check(_validated(ctx, request)).when(verify)
    else:
        verify({})
    return ready


def _validated(
    ctx: Context, request: ProduceRequest
) -> list[tuple[Partition, PartitionProduceData]]:
    """The batches for topics whose records must name their schemas."""
    found: list[tuple[Partition, PartitionProduceData]] = []
    for topic in request.topic_data:
        name = topic.name
        if ctx.version >= TOPIC_IDS_FROM:
            name = ctx.broker.image.topic_name(topic.topic_id)
        held = ctx.broker.partitions.of_topic(name)
        for asked in topic.partition_data:
            partition = held.get(asked.index) or ctx.broker.partitions.made(name, asked.index)
            if partition is None or not partition.leads or not partition.log.validates_schemas:
                continue  # refused in its turn, or taken as it is
            if asked.records:
                found.append((partition, asked))
    return found


def _produce_later(ctx: Context, request: ProduceRequest, ready: Answer[Ready]) -> Response:
    """A registry or the transaction's coordinator is asked. Nothing of this client may overtake it.

    The records lie in a buffer that is used again meanwhile; they are kept.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None and not isinstance(data.records, FileSlice):
                data.records = bytearray(data.records)
    ctx.session.hold(True)
    appended: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def go_on(known: Ready) -> None:
        ctx.now_ms = ctx.broker.clock.now_ms()
        try:
            answer = _produce(ctx, request, *known)
        except Exception as error:
            appended.set_exception(error)
        else:
            appended.set_result(answer)
        ctx.session.hold(False)

    ready.when(go_on)
    return answer_of(appended)


def _produce(
    ctx: Context, request: ProduceRequest, barred: Barred | None, refused: Barred | None
) -> Response:
    """`barred`: for batches of transactions; `refused`: because of their schemas."""
    version, now_ms = ctx.version, ctx.now_ms
    failed: KafkaError | None = None
    topics = []
    awaited: list[Awaited] | None = [] if request.acks == ACKS_ALL else None
    for topic in request.topic_data:
        if version >= TOPIC_IDS_FROM:
            name = ctx.broker.image.topic_name(topic.topic_id)
        else:
            name = topic.name
        held = ctx.broker.partitions.of_topic(name)
        answers = []
        for data in topic.partition_data:
            try:
                partition = held.get(data.index) or ctx.broker.partitions.made(name, data.index)
                if partition is None:
                    raise _missing(ctx, name, data.index)
                if name[:2] == "__":
                    _check_internal(ctx, name)
                if request.acks not in ACKS:
                    raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
                if refused is not None and (name, data.index) in refused:
                    raise refused[name, data.index]
                answers.append(_append(partition, barred, data, version, now_ms, awaited))
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
    if awaited:
        waiting = Acknowledging(response, lambda known: _hinted(ctx, known))
        return waiting.wait(awaited, request.timeout)
    return response if failed is None else _hinted(ctx, response)


def _append(
    partition: Partition,
    barred: Barred | None,
    asked: PartitionProduceData,
    version: int,
    now_ms: int,
    awaited: list[Awaited] | None,
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
        if barred is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if (partition.topic, partition.index) in barred:
            raise barred[partition.topic, partition.index]
    if awaited is not None and partition.followers is not None:
        partition.check_leads()
        partition.check_min_isr()
    appended = partition.append(memoryview(data), now_ms)
    answer = PartitionProduceResponse(
        index=asked.index,
        base_offset=appended.first_offset,
        log_append_time=appended.append_time_ms,
        log_start_offset=appended.log_start_offset,
    )
    if awaited is not None and partition.followers is not None:
        awaited.append(Awaited(partition, appended.last_offset + 1, answer))
    return answer


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


def _hinted(ctx: Context, response: ProduceResponse) -> ProduceResponse:
    """KIP-951: with the leaders of partitions that are not ours."""
    if ctx.version < HINTS_FROM:
        return response
    leaders = set()
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code not in MOVED:
                continue
            name = topic.name or ctx.broker.image.topic_name(topic.topic_id)
            hint = leader_of(ctx.broker, name, answer.index)
            if hint is not None:
                answer.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
                leaders.add(hint.leader_id)
    if leaders:
        nodes = nodes_of(ctx.broker, leaders, ctx.session.listener)
        response.node_endpoints = [NodeEndpoint(*node) for node in nodes]
    return response


# Transactions


class Batch(NamedTuple):
    """A transactional batch of the request: what its header says of its producer."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    base_sequence: int


def _verify(ctx: Context, request: ProduceRequest, transactional_id: str) -> Answer[Barred]:
    """Partitions to which the request's transactional batches may not be appended, and why."""
    verified = Answer[Barred]()
    batches = _transactional(ctx, request)
    begins: list[Batch] = []
    for each in batches:
        if each[1:3] != batches[0][1:3]:
            verified.give(_mixed(batches))
            return verified
        producer = each.partition.log.producer(each.producer_id)
        if producer is None or not producer.in_transaction(each.producer_epoch):
            begins.append(each)
    if not begins:
        verified.give({})
        return verified
    writer = Writer(
        transactional_id,
        begins[0].producer_id,
        begins[0].producer_epoch,
        adds=ctx.version >= ADDS_FROM,
        knows_abortable=ctx.version >= ABORTABLE_FROM,
    )
    partitions = [each.partition for each in begins]
    answer = ctx.broker.verification.verify(writer, partitions, ctx.now_ms)
    answer.when(lambda codes: verified.give(_verified(begins, writer, codes)))
    return verified


def _verified(
    begins: list[Batch], writer: Writer, codes: dict[tuple[str, int], ErrorCode]
) -> Barred:
    barred = {place: _barred(code, writer) for place, code in codes.items()}
    for each in begins if writer.adds else ():
        place = (each.partition.topic, each.partition.index)
        if place not in barred and each.base_sequence != 0 and _is_new(each):
            barred[place] = KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence {each.base_sequence} of producer {each.producer_id}, which has no "
                f"records here: a transaction begins with 0",
            )
    return barred


def _mixed(batches: list[Batch]) -> Barred:
    mixed = KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        "Transactional records contained more than one producer ID",
    )
    return {(each.partition.topic, each.partition.index): mixed for each in batches}


def _transactional(ctx: Context, request: ProduceRequest) -> list[Batch]:
    """The batches of a transaction. Ones that are no batches are refused in their turn."""
    found: list[Batch] = []
    for topic in request.topic_data:
        name = topic.name
        if ctx.version >= TOPIC_IDS_FROM:
            name = ctx.broker.image.topic_name(topic.topic_id)
        held = ctx.broker.partitions.of_topic(name)
        for asked in topic.partition_data:
            data = asked.records
            partition = held.get(asked.index) or ctx.broker.partitions.made(name, asked.index)
            if partition is None or data is None or len(data) < BATCH_OVERHEAD:
                continue
            if not partition.leads:
                continue  # refused, whatever its transaction is
            assert not isinstance(data, FileSlice)
            if data[ATTRIBUTES_POSITION] & TRANSACTIONAL_BIT and data[MAGIC_POSITION] == MAGIC:
                found.append(Batch(partition, *PRODUCER.unpack_from(data, PRODUCER_POSITION)))
    return found


def _is_new(batch: Batch) -> bool:
    producer = batch.partition.log.producer(batch.producer_id)
    return producer is None or not producer.batches


def _barred(code: ErrorCode, writer: Writer) -> KafkaError:
    """What producers do not know to try again is told as something that they do."""
    if code is ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "Partition was not added to the transaction")
    if code in TRY_AGAIN or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not writer.adds):
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
