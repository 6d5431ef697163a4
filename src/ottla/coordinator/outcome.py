"""What follows from an event: records to append, replies to send once they are appended.

A coordinator changes its state at once and says in an Outcome what the broker has to do. The
order is fixed: append `records` to the partition, as one batch; when they are committed, send
`replies`. If nothing could be appended, `GroupShard.failed` takes the change back, and gives the
replies that say so. `work` may be done elsewhere, whenever that is.
See docs/decisions/0004-coordinator-outcomes.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import ErrorCode
from ottla.wire.primitives import Message

if TYPE_CHECKING:
    from ottla.coordinator.deadlines import Deadlines
    from ottla.coordinator.group import GroupConfig
    from ottla.coordinator.kinds import AnyGroup, Topics

# Whatever the broker wants back with the answer to a request; anything but None.
Token = object
Reply = tuple[Token, Message]
# What takes long and touches no state, and who wants its result; None if it has failed.
Work = tuple[Callable[[], Any], Callable[[Any], None]]
RecordBytes = tuple[bytes, bytes | None]  # key, and value or None for a tombstone


class Outcome:
    """`partition` of `__consumer_offsets` gets the records; it is -1 where there can be none.

    With a `producer`, its id and epoch, they belong to that producer's transaction.
    """

    __slots__ = ("partition", "producer", "records", "replies", "undo", "work")

    def __init__(self, partition: int = -1) -> None:
        self.partition = partition
        self.producer: tuple[int, int] | None = None
        self.records: list[RecordBytes] = []
        self.replies: list[Reply] = []
        self.undo: list[Undo] = []
        self.work: list[Work] = []

    def __repr__(self) -> str:
        return f"Outcome(records={self.records!r}, replies={self.replies!r})"


class Turn:
    """One event being handled: when it happens, what may be scheduled, and what comes of it."""

    __slots__ = ("config", "deadlines", "groups", "now_ms", "outcome", "topics")

    def __init__(
        self,
        now_ms: int,
        *,
        outcome: Outcome,
        deadlines: Deadlines,
        config: GroupConfig,
        topics: Topics,
        groups: dict[str, AnyGroup],
    ) -> None:
        self.now_ms = now_ms
        self.outcome = outcome
        self.deadlines = deadlines
        self.config = config
        self.topics = topics
        self.groups = groups  # of the shard, where one may take the place of another

    def reply(self, token: Token, message: Message) -> None:
        self.outcome.replies.append((token, message))

    def record(self, key: bytes, value: bytes | None) -> None:
        self.outcome.records.append((key, value))

    def undo(self, undo: Undo) -> None:
        """How to take back what this event changed; called in reverse order."""
        self.outcome.undo.append(undo)

    def put_group(self, group: AnyGroup) -> None:
        """A group that is new, in the place of one that has just been deleted if need be."""
        group_id = group.group_id
        before = self.groups.get(group_id)
        self.groups[group_id] = group

        def take_back(undo: Turn, code: ErrorCode) -> None:
            if before is None:
                del undo.groups[group_id]
            else:
                undo.groups[group_id] = before

        self.undo(take_back)

    def take_back(self, code: ErrorCode) -> None:
        """The event comes to nothing: undo what it has done so far. Replies stay."""
        undo, self.outcome.undo = self.outcome.undo, []
        for each in reversed(undo):
            each(self, code)
        self.outcome.records.clear()
        self.outcome.undo.clear()


Undo = Callable[[Turn, ErrorCode], None]

_CODES: Final = {
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
    """What a client of the group is told when the append of its records ended in this code."""
    return _CODES.get(append_code, append_code)
