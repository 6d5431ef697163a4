"""How far a partition goes, whichever broker leads it: what a share group's lag is counted to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.courier import Courier
from ottla.broker.journal import Answer
from ottla.cluster.image import NO_LEADER
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

LATEST: Final = -1
CONSUMER: Final = -1  # the replica id of who is none
ANSWER_S_MAX: Final = 5.0

End = int | KafkaError


class _Question(NamedTuple):
    topic: str
    partition: int
    answer: Answer[End]


class Ends:
    """Asks leaders for their high watermarks."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._courier = Courier(self._carry, _refuse)

    def stop(self) -> None:
        self._courier.stop()

    def of(self, topic: str, index: int) -> Answer[End]:
        answer = Answer[End]()
        leader = self._leader(topic, index)
        if leader == self._broker.node_id:
            try:
                answer.give(self._broker.partitions.leading(topic, index).high_watermark)
            except KafkaError as error:
                answer.give(error)
        elif leader == NO_LEADER:
            answer.give(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
        else:
            self._courier.send(leader, _Question(topic, index, answer))
        return answer

    def _leader(self, topic: str, index: int) -> int:
        found = self._broker.image.topics.get(topic)
        if found is None or index >= len(found.partitions):
            return self._broker.node_id  # which says what there is to say
        return found.partitions[index].leader

    async def _carry(self, broker_id: int, questions: list[_Question]) -> None:
        """Each is a topic of its own, in the request and in the response."""
        from ottla.wire.messages.list_offsets import (
            ListOffsetsPartition,
            ListOffsetsRequest,
            ListOffsetsResponse,
            ListOffsetsTopic,
        )

        topics = [
            ListOffsetsTopic(each.topic, [ListOffsetsPartition(each.partition, -1, LATEST)])
            for each in questions
        ]
        response = await self._broker.neighbours.call(
            broker_id,
            ListOffsetsRequest(CONSUMER, topics=topics),
            ApiKey.LIST_OFFSETS,
            ListOffsetsResponse,
            timeout_s=ANSWER_S_MAX,
        )
        found = [topic.partitions[0] for topic in response.topics]
        for question, each in zip(questions, found, strict=True):
            code = ErrorCode(each.error_code)
            question.answer.give(KafkaError(code) if code else each.offset)


def _refuse(questions: list[_Question], error: KafkaError) -> None:
    for question in questions:
        question.answer.give(error)
