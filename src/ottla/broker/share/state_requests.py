"""Requests between brokers about share-partitions: the five APIs of the share coordinator.

They are alike: a group, and for each of its partitions an operation. Operations for one broker at
the same time go as one request for each API and group (KIP-932).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.broker.promise import Promise
from ottla.coordinator.share.record_state import RecordState, StateBatch
from ottla.coordinator.share.shard import SharePartitionWrite
from ottla.coordinator.share.state_records import SharePartitionKey, SharePartitionState
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.fields import Message
from ottla.wire.messages import delete_share_group_state as deleting
from ottla.wire.messages import initialize_share_group_state as initializing
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import read_share_group_state_summary as summing
from ottla.wire.messages import write_share_group_state as writing

if TYPE_CHECKING:
    from ottla.broker.broker_connections import BrokerConnections
    from ottla.broker.share.coordinator_service import StateResult

ANSWER_S_MAX: Final = 15.0  # longer than a coordinator waits for its replicas


class StateApi(NamedTuple):
    """An API, and the classes of its messages."""

    api_key: ApiKey
    request: type[Any]
    topic: type[Any]
    response: type[Any]


INITIALIZE: Final = StateApi(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    initializing.InitializeShareGroupStateRequest,
    initializing.InitializeStateData,
    initializing.InitializeShareGroupStateResponse,
)
READ: Final = StateApi(
    ApiKey.READ_SHARE_GROUP_STATE,
    reading.ReadShareGroupStateRequest,
    reading.ReadStateData,
    reading.ReadShareGroupStateResponse,
)
WRITE: Final = StateApi(
    ApiKey.WRITE_SHARE_GROUP_STATE,
    writing.WriteShareGroupStateRequest,
    writing.WriteStateData,
    writing.WriteShareGroupStateResponse,
)
DELETE: Final = StateApi(
    ApiKey.DELETE_SHARE_GROUP_STATE,
    deleting.DeleteShareGroupStateRequest,
    deleting.DeleteStateData,
    deleting.DeleteShareGroupStateResponse,
)
SUMMARY: Final = StateApi(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    summing.ReadShareGroupStateSummaryRequest,
    summing.ReadStateSummaryData,
    summing.ReadShareGroupStateSummaryResponse,
)


class StateRequest(NamedTuple):
    """About one share-partition."""

    kind: StateApi
    key: SharePartitionKey
    data: Message
    answer: Promise[StateResult]


def initialize_data(key: SharePartitionKey, state_epoch: int, start_offset: int) -> Message:
    return initializing.PartitionData(key.partition, state_epoch, start_offset)


def read_data(key: SharePartitionKey, leader_epoch: int) -> Message:
    return reading.PartitionData(key.partition, leader_epoch)


def write_data(key: SharePartitionKey, write: SharePartitionWrite) -> Message:
    batches = [writing.StateBatch(*batch) for batch in write.batches]
    return writing.PartitionData(key.partition, *write[:4], batches)


def delete_data(key: SharePartitionKey) -> Message:
    return deleting.PartitionData(key.partition)


def summary_data(key: SharePartitionKey) -> Message:
    return summing.PartitionData(key.partition, -1)


async def send_state_requests(
    connections: BrokerConnections, broker_id: int, questions: Sequence[StateRequest]
) -> None:
    """Every question is answered when this returns."""
    together: dict[tuple[StateApi, str], list[StateRequest]] = {}
    for question in questions:
        together.setdefault((question.kind, question.key.group_id), []).append(question)
    await asyncio.gather(*(_ask(connections, broker_id, group) for group in together.values()))


async def _ask(
    connections: BrokerConnections, broker_id: int, questions: list[StateRequest]
) -> None:
    """All of one API and group: each is a separate topic, in the request and in the response."""
    kind, key = questions[0][:2]
    topics = [kind.topic(question.key.topic_id, [question.data]) for question in questions]
    try:
        response = await connections.call(
            broker_id,
            kind.request(key.group_id, topics),
            kind.api_key,
            kind.response,
            timeout_s=ANSWER_S_MAX,
        )
        results = [_found(result.partitions[0]) for result in response.results]
    except KafkaError as error:
        results = [error] * len(questions)
    for question, result in zip(questions, results, strict=True):
        question.answer.resolve(result)


def _found(result: Any) -> StateResult:
    """What a result of any of the five says of the state."""
    if result.error_code:
        return KafkaError(ErrorCode(result.error_code), result.error_message or "")
    if isinstance(result, reading.PartitionResult):
        batches = tuple(
            StateBatch(
                batch.first_offset,
                batch.last_offset,
                RecordState(batch.delivery_state),
                batch.delivery_count,
            )
            for batch in result.state_batches
        )
        return SharePartitionState(
            state_epoch=result.state_epoch, start_offset=result.start_offset, batches=batches
        )
    if isinstance(result, summing.PartitionResult):
        return SharePartitionState(
            state_epoch=result.state_epoch,
            leader_epoch=result.leader_epoch,
            start_offset=result.start_offset,
            delivery_complete_count=result.delivery_complete_count,
        )
    return SharePartitionState()
