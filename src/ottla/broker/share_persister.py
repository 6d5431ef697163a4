"""Asks the coordinator of a share-partition's state, whichever broker that is (KIP-932).

Leaders of partitions and coordinators of groups ask here. If the state is kept by this broker, its
log is asked at once; else the broker that keeps it is, over the wire. When the state is about to
have another coordinator, the question is asked again, for as long as a client can be kept waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.courier import Courier
from ottla.broker.journal import Answer
from ottla.broker.share_states import Found, ShareStateLogs
from ottla.coordinator.share.persister import StateWrite
from ottla.coordinator.share.records import StateKey
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.share_questions import Question

RETRY_S: Final = 0.1
ASK_S_MAX: Final = 5.0  # after which whoever asked is told that the coordinator can't be reached

_ELSEWHERE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


class _Wish(NamedTuple):
    """What is to be asked: here, or by the wire; and until when it may be asked again."""

    key: StateKey
    here: Callable[[ShareStateLogs, int], Answer[Found]]
    there: Callable[[Answer[Found]], Question]
    answer: Answer[Found]
    until_s: float


class Persister:
    """The answer is the state where it is known, or the KafkaError that says why not."""

    def __init__(self, broker: Broker, states: ShareStateLogs) -> None:
        self._broker = broker
        self._states = states
        self._loop = asyncio.get_running_loop()
        self._courier: Courier[Question] = Courier(self._carry, _refuse)

    def stop(self) -> None:
        self._courier.stop()

    def initialize(
        self, key: StateKey, *, state_epoch: int, start_offset: int, now_ms: int
    ) -> Answer[Found]:
        def there(answer: Answer[Found]) -> Question:
            from ottla.broker.share_questions import INITIALIZE, Question, initialize_data

            data = initialize_data(key, state_epoch, start_offset)
            return Question(INITIALIZE, key, data, answer)

        def here(states: ShareStateLogs, at_ms: int) -> Answer[Found]:
            return states.initialize(
                key, state_epoch=state_epoch, start_offset=start_offset, now_ms=at_ms
            )

        return self._ask(key, here, there, now_ms)

    def read(self, key: StateKey, *, leader_epoch: int, now_ms: int) -> Answer[Found]:
        def there(answer: Answer[Found]) -> Question:
            from ottla.broker.share_questions import READ, Question, read_data

            return Question(READ, key, read_data(key, leader_epoch), answer)

        def here(states: ShareStateLogs, at_ms: int) -> Answer[Found]:
            return states.read(key, leader_epoch=leader_epoch, now_ms=at_ms)

        return self._ask(key, here, there, now_ms)

    def write(self, key: StateKey, write: StateWrite, now_ms: int) -> Answer[Found]:
        def there(answer: Answer[Found]) -> Question:
            from ottla.broker.share_questions import WRITE, Question, write_data

            return Question(WRITE, key, write_data(key, write), answer)

        return self._ask(key, lambda states, at_ms: states.write(key, write, at_ms), there, now_ms)

    def delete(self, key: StateKey, now_ms: int) -> Answer[Found]:
        def there(answer: Answer[Found]) -> Question:
            from ottla.broker.share_questions import DELETE, Question, delete_data

            return Question(DELETE, key, delete_data(key), answer)

        return self._ask(key, lambda states, at_ms: states.delete(key, at_ms), there, now_ms)

    def summary(self, key: StateKey, now_ms: int) -> Answer[Found]:
        def there(answer: Answer[Found]) -> Question:
            from ottla.broker.share_questions import SUMMARY, Question, summary_data

            return Question(SUMMARY, key, summary_data(key), answer)

        return self._ask(key, lambda states, at_ms: states.summary(key, at_ms), there, now_ms)

    # -- here or there

    def _ask(
        self,
        key: StateKey,
        here: Callable[[ShareStateLogs, int], Answer[Found]],
        there: Callable[[Answer[Found]], Question],
        now_ms: int,
    ) -> Answer[Found]:
        if self._alone:
            return here(self._states, now_ms)
        answer = Answer[Found]()
        wish = _Wish(key, here, there, answer, self._loop.time() + ASK_S_MAX)
        self._send(wish)
        return answer

    def _send(self, wish: _Wish) -> None:
        try:
            leader = self._states.leader(wish.key)
        except KafkaError as error:
            self._asked(wish, error)
            return
        if leader == self._broker.node_id:
            found = wish.here(self._states, self._broker.clock.now_ms())
        else:
            found = Answer[Found]()
            self._courier.send(leader, wish.there(found))
        found.when(lambda each: self._asked(wish, each))

    def _asked(self, wish: _Wish, found: Found) -> None:
        if isinstance(found, KafkaError) and found.code in _ELSEWHERE:
            if not self._alone and self._loop.time() + RETRY_S < wish.until_s:
                self._loop.call_later(RETRY_S, self._send, wish)
                return
            found = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, found.message)
        wish.answer.give(found)

    @property
    def _alone(self) -> bool:
        """Nobody else could be, or become, the coordinator."""
        return len(self._broker.image.brokers) < 2

    async def _carry(self, broker_id: int, questions: list[Question]) -> None:
        from ottla.broker.share_questions import ask

        await ask(self._broker.neighbours, broker_id, questions)


def _refuse(questions: list[Question], error: KafkaError) -> None:
    for question in questions:
        if not question.answer.given:
            question.answer.give(error)
