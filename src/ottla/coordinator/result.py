"""What follows from an event: records to append, and replies to send once they are committed.

A shard changes its state at once, and says in a CoordinatorResult what the broker has to do. The
order is fixed: append `records` to the shard's partition, as one batch; when they are committed,
send `replies` and write `markers`. If the append fails, `CoordinatorShard.failed` undoes the event
and gives the error replies. `work` is independent of all that.
See docs/decisions/0004-coordinator-outcomes.md and 0053-coordinator-runtime.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.coordinator.timer import CoordinatorTimer
    from ottla.coordinator.transactions.result import TransactionMarkers

# Identifies the request that a reply is for; the broker chooses it. Anything but None.
Token = object
Reply = tuple[Token, Any]
RecordBytes = tuple[bytes, bytes | None]  # key, and value or None for a tombstone
# Gets an event, for replies and timers that follow from undoing, and the clients' error code.
Undo = Callable[[Any, ErrorCode], None]
# A long computation that touches no state, and the consumer of its result (None on failure).
Work = tuple[Callable[[], Any], Callable[[Any], None]]


class CoordinatorResult:
    """`partition` of the coordinator's topic gets the records; it is -1 where there can be none.

    With a `producer`, its id and epoch, the records belong to that producer's transaction.
    """

    __slots__ = ("markers", "partition", "producer", "records", "replies", "undo", "work")

    def __init__(self, partition: int = -1) -> None:
        self.partition = partition
        self.producer: tuple[int, int] | None = None
        self.records: list[RecordBytes] = []
        self.replies: list[Reply] = []
        self.undo: list[Undo] = []
        self.markers: list[TransactionMarkers] = []  # of the transaction coordinator only
        self.work: list[Work] = []  # of the group coordinator only

    def __repr__(self) -> str:
        return f"CoordinatorResult(records={self.records!r}, replies={self.replies!r})"

    @classmethod
    def of_reply(cls, token: Token, response: Any) -> CoordinatorResult:
        """A reply that depends on no record, because the request reached no shard."""
        result = cls()
        result.replies.append((token, response))
        return result


class CoordinatorEvent:
    """One event while a shard handles it: its time, the shard's timer, and the result so far."""

    __slots__ = ("now_ms", "result", "timer")

    def __init__(self, now_ms: int, *, partition: int, timer: CoordinatorTimer) -> None:
        self.now_ms = now_ms
        self.timer = timer
        self.result = CoordinatorResult(partition)

    def reply(self, token: Token, response: Any) -> None:
        self.result.replies.append((token, response))

    def record(self, key: bytes, value: bytes | None) -> None:
        self.result.records.append((key, value))

    def undo(self, undo: Undo) -> None:
        """How to undo what this event has just changed; called in reverse order."""
        self.result.undo.append(undo)

    def take_back(self, code: ErrorCode) -> None:
        """The event is refused halfway: undo what it has changed so far. Replies stay."""
        undo, self.result.undo = self.result.undo, []
        for take_back in reversed(undo):
            take_back(self, code)
        self.result.records.clear()
        self.result.undo.clear()


_COORDINATOR_CODES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_code(append_code: ErrorCode) -> ErrorCode:
    """The error code for the coordinator's client if the append failed with this code."""
    return _COORDINATOR_CODES.get(append_code, append_code)
