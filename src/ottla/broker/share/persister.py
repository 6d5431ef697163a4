"""Reads and writes the states of share-partitions, whichever broker coordinates them (KIP-932).

Leaders of partitions and coordinators of groups call it. If this broker is the share coordinator of
the state, it is called directly, else by a request to the other broker. While the coordinator
moves or loads, the request is retried, for as long as a client can wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.promise import Promise
from ottla.broker.request_batcher import RequestBatcher
from ottla.broker.share.coordinator_service import ShareCoordinatorService, StateResult
from ottla.coordinator.share.shard import SharePartitionWrite
from ottla.coordinator.share.state_records import SharePartitionKey
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker_connections import BrokerConnections
    from ottla.broker.share.state_requests import StateRequest
    from ottla.clock import Clock
    from ottla.cluster.metadata_cache import MetadataCache

RETRY_S: Final = 0.1
ASK_S_MAX: Final = 5.0  # then the caller gets an error

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


class _PendingRequest(NamedTuple):
    """A request, for this broker or another one, and until when it may be retried."""

    key: SharePartitionKey
    local: Callable[[ShareCoordinatorService, int], Promise[StateResult]]
    remote: Callable[[Promise[StateResult]], StateRequest]
    answer: Promise[StateResult]
    deadline_s: float


class Persister:
    """The promises are resolved with the state, or with the KafkaError of the coordinator.

    If no coordinator answers in time, that is COORDINATOR_LOAD_IN_PROGRESS where one still loads
    the state, else COORDINATOR_NOT_AVAILABLE.
    """

    def __init__(
        self,
        node_id: int,
        metadata: MetadataCache,
        connections: BrokerConnections,
        states: ShareCoordinatorService,
        *,
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._connections = connections
        self._states = states
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._batcher: RequestBatcher[StateRequest] = RequestBatcher(
            self._send_request, _fail_items
        )

    def stop(self) -> None:
        self._batcher.stop()

    def initialize(
        self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, now_ms: int
    ) -> Promise[StateResult]:
        def remote(answer: Promise[StateResult]) -> StateRequest:
            from ottla.broker.share.state_requests import INITIALIZE, StateRequest, initialize_data

            data = initialize_data(key, state_epoch, start_offset)
            return StateRequest(INITIALIZE, key, data, answer)

        def local(states: ShareCoordinatorService, at_ms: int) -> Promise[StateResult]:
            return states.initialize(
                key, state_epoch=state_epoch, start_offset=start_offset, now_ms=at_ms
            )

        return self._call(key, local, remote, now_ms)

    def read(
        self, key: SharePartitionKey, *, leader_epoch: int, now_ms: int
    ) -> Promise[StateResult]:
        def remote(answer: Promise[StateResult]) -> StateRequest:
            from ottla.broker.share.state_requests import READ, StateRequest, read_data

            return StateRequest(READ, key, read_data(key, leader_epoch), answer)

        def local(states: ShareCoordinatorService, at_ms: int) -> Promise[StateResult]:
            return states.read(key, leader_epoch=leader_epoch, now_ms=at_ms)

        return self._call(key, local, remote, now_ms)

    def write(
        self, key: SharePartitionKey, write: SharePartitionWrite, now_ms: int
    ) -> Promise[StateResult]:
        def remote(answer: Promise[StateResult]) -> StateRequest:
            from ottla.broker.share.state_requests import WRITE, StateRequest, write_data

            return StateRequest(WRITE, key, write_data(key, write), answer)

        return self._call(
            key, lambda states, at_ms: states.write(key, write, at_ms), remote, now_ms
        )

    def delete(self, key: SharePartitionKey, now_ms: int) -> Promise[StateResult]:
        def remote(answer: Promise[StateResult]) -> StateRequest:
            from ottla.broker.share.state_requests import DELETE, StateRequest, delete_data

            return StateRequest(DELETE, key, delete_data(key), answer)

        return self._call(key, lambda states, at_ms: states.delete(key, at_ms), remote, now_ms)

    def summary(self, key: SharePartitionKey, now_ms: int) -> Promise[StateResult]:
        def remote(answer: Promise[StateResult]) -> StateRequest:
            from ottla.broker.share.state_requests import SUMMARY, StateRequest, summary_data

            return StateRequest(SUMMARY, key, summary_data(key), answer)

        return self._call(key, lambda states, at_ms: states.summary(key, at_ms), remote, now_ms)

    # -- local or remote

    def _call(
        self,
        key: SharePartitionKey,
        local: Callable[[ShareCoordinatorService, int], Promise[StateResult]],
        remote: Callable[[Promise[StateResult]], StateRequest],
        now_ms: int,
    ) -> Promise[StateResult]:
        if self._is_alone:
            local_result = local(self._states, now_ms)
            if not local_result.is_resolved or not is_loading(local_result.value):
                return local_result
        answer = Promise[StateResult]()
        request = _PendingRequest(key, local, remote, answer, self._loop.time() + ASK_S_MAX)
        self._send(request)
        return answer

    def _send(self, request: _PendingRequest) -> None:
        try:
            leader = self._states.leader(request.key)
        except KafkaError as error:
            self._finish(request, error)
            return
        if leader == self._node_id:
            result_promise = request.local(self._states, self._clock.now_ms())
        else:
            result_promise = Promise[StateResult]()
            self._batcher.send(leader, request.remote(result_promise))
        result_promise.then(lambda result: self._finish(request, result))

    def _finish(self, request: _PendingRequest, result: StateResult) -> None:
        if isinstance(result, KafkaError) and result.code in _RETRIABLE:
            may_pass = is_loading(result) or not self._is_alone
            if may_pass and self._loop.time() + RETRY_S < request.deadline_s:
                self._loop.call_later(RETRY_S, self._send, request)
                return
            if not is_loading(result):
                result = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, result.message)
        request.answer.resolve(result)

    @property
    def _is_alone(self) -> bool:
        """True if no other broker can be, or become, the coordinator."""
        return len(self._metadata.image.brokers) < 2

    async def _send_request(self, broker_id: int, requests: list[StateRequest]) -> None:
        from ottla.broker.share.state_requests import send_state_requests

        await send_state_requests(self._connections, broker_id, requests)


def is_loading(result: StateResult) -> bool:
    """True if the coordinator will know the state once it has read its log."""
    return isinstance(result, KafkaError) and result.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def _fail_items(requests: list[StateRequest], error: KafkaError) -> None:
    for request in requests:
        if not request.answer.is_resolved:
            request.answer.resolve(error)
