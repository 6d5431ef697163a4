"""Share sessions (KIP-932): a member of a share group names its partitions once, then changes.

A session belongs to a member, not to a connection, but ends with the connection that began it:
then what the member has acquired is released. Its epoch counts requests, both fetches and
acknowledgements: 0 begins a session, -1 ends it, and any other epoch has to be the expected one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.broker.client_session import ClientSession
from ottla.errors import ErrorCode, KafkaError

NEW: Final = 0
FINAL: Final = -1
EPOCH_MAX: Final = 2**31 - 1

TopicPartition = tuple[bytes, int]


class ShareMember(NamedTuple):
    """The key of a share session."""

    group_id: str
    member_id: str


class ShareSession:
    """The partitions that a member reads, in the order in which they are served."""

    __slots__ = ("connection", "epoch", "is_over", "member", "partitions")

    def __init__(self, member: ShareMember, connection: ClientSession) -> None:
        self.member = member
        self.connection = connection
        self.epoch = 1  # of the next request
        self.partitions: dict[TopicPartition, None] = {}
        self.is_over = False  # a fetch of it that still waits must not acquire records

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def change(self, more: Iterable[TopicPartition], less: Iterable[TopicPartition]) -> None:
        self.partitions.update(dict.fromkeys(more))
        for partition in less:
            self.partitions.pop(partition, None)

    def serve_last(self, served: Iterable[TopicPartition]) -> None:
        """Partitions that returned records come last next time, so that no partition starves."""
        for partition in served:
            if partition in self.partitions:
                del self.partitions[partition]
                self.partitions[partition] = None


class ShareSessions:
    """All sessions of this broker, as many as `group.share.max.share.sessions` says."""

    def __init__(self) -> None:
        self._sessions: dict[ShareMember, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, member: ShareMember, connection: ClientSession, *, count_max: int
    ) -> ShareSession:
        """A new session, in place of the one that the member had."""
        before = self._sessions.get(member)
        if before is None and len(self._sessions) >= count_max:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        if before is not None:
            before.is_over = True
        session = self._sessions[member] = ShareSession(member, connection)
        return session

    def resume(self, member: ShareMember, epoch: int) -> ShareSession:
        """The session of a request that does not begin one; the epoch advances."""
        session = self._sessions.get(member)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL:
            return session
        if epoch != session.epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.advance()
        return session

    def end(self, session: ShareSession) -> None:
        session.is_over = True
        if self._sessions.get(session.member) is session:
            del self._sessions[session.member]

    def has_group(self, group_id: str) -> bool:
        return any(member.group_id == group_id for member in self._sessions)

    def of_connection(self, connection: ClientSession) -> list[ShareSession]:
        return [session for session in self._sessions.values() if session.connection is connection]
