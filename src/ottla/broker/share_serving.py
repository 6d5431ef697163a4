"""The share coordinator as other brokers ask it: what its five APIs have in common (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ottla.broker.context import Context
from ottla.broker.journal import Answer, all_of
from ottla.broker.share_states import Found
from ottla.coordinator.share.records import StateKey
from ottla.errors import KafkaError

R = TypeVar("R")


def for_each(
    group_id: str, topics: Iterable[Any], serve: Callable[[StateKey, Any], Answer[R]]
) -> Answer[list[tuple[bytes, list[R]]]]:
    """Every partition of a request, in order; the results by topic, when the last one is there."""
    return all_of(
        [
            _with(
                topic.topic_id,
                all_of(
                    [
                        serve(StateKey(group_id, topic.topic_id, each.partition), each)
                        for each in topic.partitions
                    ]
                ),
            )
            for topic in topics
        ]
    )


def _with(topic_id: bytes, results: Answer[list[R]]) -> Answer[tuple[bytes, list[R]]]:
    return results.map(lambda each: (topic_id, each))


def checked(ctx: Context, key: StateKey, ask: Callable[[], Answer[Found]]) -> Answer[Found]:
    """`ask`, if there can be such a share-partition at all."""
    try:
        ctx.broker.shares.check(key)
        return ask()
    except KafkaError as error:
        refused = Answer[Found]()
        refused.give(error)
        return refused
