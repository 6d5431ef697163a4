"""Requests of other brokers to the share coordinator: what its five APIs share (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ottla.broker.promise import Promise, all_of
from ottla.broker.request_context import RequestContext
from ottla.broker.share.coordinator_service import StateResult
from ottla.coordinator.share.state_records import SharePartitionKey
from ottla.errors import KafkaError

R = TypeVar("R")


def serve_coordinator_requests(
    group_id: str, topics: Iterable[Any], serve: Callable[[SharePartitionKey, Any], Promise[R]]
) -> Promise[list[tuple[bytes, list[R]]]]:
    """Serve every partition of a request, in order; resolved with the results by topic."""
    return all_of(
        [
            _with(
                topic.topic_id,
                all_of(
                    [
                        serve(SharePartitionKey(group_id, topic.topic_id, data.partition), data)
                        for data in topic.partitions
                    ]
                ),
            )
            for topic in topics
        ]
    )


def _with(topic_id: bytes, results: Promise[list[R]]) -> Promise[tuple[bytes, list[R]]]:
    return results.then(lambda each: (topic_id, each))


def authorized_state(
    ctx: RequestContext, key: SharePartitionKey, ask: Callable[[], Promise[StateResult]]
) -> Promise[StateResult]:
    """Call `ask` if such a share-partition can exist."""
    try:
        ctx.broker.shares.check(key)
        return ask()
    except KafkaError as error:
        refused = Promise[StateResult]()
        refused.resolve(error)
        return refused
