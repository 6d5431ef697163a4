"""What brokers ask each other about share-partitions: the five APIs of the share coordinator.

They are alike: a group, and for each of its partitions something to do. Whatever is to be asked of
one broker at a time goes as one request for each kind and group (KIP-932).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.broker.journal import Answer
from ottla.coordinator.share.persister import StateWrite
from ottla.coordinator.share.records import ShareState, StateKey
from ottla.coordinator.share.states import RecordState, StateBatch
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages import delete_share_group_state as deleting
from ottla.wire.messages import initialize_share_group_state as initializing
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import read_share_group_state_summary as summing
from ottla.wire.messages import write_share_group_state as writing
from ottla.wire.primitives import Message

if TYPE_CHECKING:
    from ottla.broker.neighbours import Neighbours
    from ottla.broker.share_states import Found

ANSWER_S_MAX: Final = 15.0  # longer than a coordinator waits for its replicas


class Kind(NamedTuple):
    """An API, and the classes of its messages."""

    api_key: ApiKey
    request: type[Any]
    topic: type[Any]
    response: type[Any]


INITIALIZE: Final = Kind(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    initializing.InitializeShareGroupStateRequest,
    initializing.InitializeStateData,
    initializing.InitializeShareGroupStateResponse,
)
READ: Final = Kind(
    ApiKey.READ_SHARE_GROUP_STATE,
    reading.ReadShareGroupStateRequest,
    reading.ReadStateData,
    reading.ReadShareGroupStateResponse,
)
WRITE: Final = Kind(
    ApiKey.WRITE_SHARE_GROUP_STATE,
    writing.WriteShareGroupStateRequest,
    writing.WriteStateData,
    writing.WriteShareGroupStateResponse,
)
DELETE: Final = Kind(
    ApiKey.DELETE_SHARE_GROUP_STATE,
    deleting.DeleteShareGroupStateRequest,
    deleting.DeleteStateData,
    deleting.DeleteShareGroupStateResponse,
)
SUMMARY: Final = Kind(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    summing.ReadShareGroupStateSummaryRequest,
    summing.ReadStateSummaryData,
    summing.ReadShareGroupStateSummaryResponse,
)


class Question(NamedTuple):
    """About one share-partition."""

    kind: Kind
    key: StateKey
    data: Message
    answer: Answer[Found]


def initialize_data(key: StateKey, state_epoch: int, start_offset: int) -> Message:
    return initializing.PartitionData(key.partition, state_epoch, start_offset)


def read_data(key: StateKey, leader_epoch: int) -> Message:
    return reading.PartitionData(key.partition, leader_epoch)


def write_data(key: StateKey, write: StateWrite) -> Message:
    batches = [writing.StateBatch(*batch) for batch in write.batches]
    return writing.PartitionData(key.partition, *write[:4], batches)


def delete_data(key: StateKey) -> Message:
    return deleting.PartitionData(key.partition)


def summary_data(key: StateKey) -> Message:
    return summing.PartitionData(key.partition, -1)


async def ask(neighbours: Neighbours, broker_id: int, questions: Sequence[Question]) -> None:
    """Every question is answered when this returns."""
    together: dict[tuple[Kind, str], list[Question]] = {}
    for question in questions:
        together.setdefault((question.kind, question.key.group_id), []).append(question)
    await asyncio.gather(*(_ask(neighbours, broker_id, each) for each in together.values()))


async def _ask(neighbours: Neighbours, broker_id: int, questions: list[Question]) -> None:
    """Of one kind and group: each is a topic of its own in the request, and in the response."""
    kind, key = questions[0][:2]
    topics = [kind.topic(each.key.topic_id, [each.data]) for each in questions]
    try:
        response = await neighbours.call(
            broker_id,
            kind.request(key.group_id, topics),
            kind.api_key,
            kind.response,
            timeout_s=ANSWER_S_MAX,
        )
        found = [_found(result.partitions[0]) for result in response.results]
    except KafkaError as error:
        found = [error] * len(questions)
    for question, each in zip(questions, found, strict=True):
        question.answer.give(each)


def _found(result: Any) -> Found:
    """What a result of any of the five says of the state."""
    if result.error_code:
        return KafkaError(ErrorCode(result.error_code), result.error_message or "")
    if isinstance(result, reading.PartitionResult):
        batches = tuple(
            StateBatch(
                each.first_offset,
                each.last_offset,
                RecordState(each.delivery_state),
                each.delivery_count,
            )
            for each in result.state_batches
        )
        return ShareState(
            state_epoch=result.state_epoch, start_offset=result.start_offset, batches=batches
        )
    if isinstance(result, summing.PartitionResult):
        return ShareState(
            state_epoch=result.state_epoch,
            leader_epoch=result.leader_epoch,
            start_offset=result.start_offset,
            delivery_complete_count=result.delivery_complete_count,
        )
    return ShareState()
