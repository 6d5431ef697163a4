"""Which errors are retriable, and which cached metadata each of them makes doubtful.

One table for all of our own clients. librdkafka has another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.errors import ErrorCode, KafkaError

BACKOFF_S: Final = 0.1

LOST_CONNECTION: Final = frozenset(
    {ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT}
)
"""The connection is broken; the broker may be fine."""
UNKNOWN_TOPIC: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""The topic is new to this broker, is being created, or was deleted."""
LEADER_MOVED: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Another broker leads the partition, or will soon."""
COORDINATOR_MOVED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Another broker coordinates the group or transactional id, or will soon."""
NOT_YET: Final = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""The right broker answered, and no cached metadata is in doubt."""
MOVED: Final = LEADER_MOVED | COORDINATOR_MOVED
RETRIABLE: Final = LOST_CONNECTION | MOVED | UNKNOWN_TOPIC | NOT_YET
COORDINATOR_RETRIABLE: Final = COORDINATOR_MOVED | {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""Errors after which a request to a coordinator is repeated on the same connection."""

T = TypeVar("T")


def with_retries(
    timeout_s: float,
    attempt: Callable[[], T],
    retriable: frozenset[ErrorCode] = COORDINATOR_RETRIABLE,
    *,
    gives_up: Callable[[], bool] = lambda: False,
) -> T:
    """Retry until it works, or fails with an error that is not retriable, or the caller gives
    up."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return attempt()
        except KafkaError as error:
            is_late = time.monotonic() + BACKOFF_S > deadline
            if error.code not in retriable or is_late or gives_up():
                raise
        time.sleep(BACKOFF_S)
