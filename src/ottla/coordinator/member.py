"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Container

from ottla.coordinator.keys import MemberMetadata
from ottla.coordinator.outcome import Token
from ottla.wire.messages.join_group import JoinGroupRequestProtocol

Protocols = tuple[tuple[str, bytes], ...]  # name and metadata, the preferred one first


class Member:
    """Who it is, what it can speak, what it was given, and which request of it waits."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "join_token",
        "member_id",
        "new",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        member_id: str,
        *,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.join_token: Token | None = None  # of the JoinGroup that waits for the others
        self.sync_token: Token | None = None  # of the SyncGroup that waits for the leader's
        self.new = False  # joins for the first time: it does not know its id yet

    def __repr__(self) -> str:
        return f"Member({self.member_id})"

    @classmethod
    def loaded(cls, stored: MemberMetadata, protocol: str) -> Member:
        """A member as the last generation left it: of its protocols only the chosen one is kept."""
        return cls(
            stored.member_id,
            group_instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            session_timeout_ms=stored.session_timeout_ms,
            protocols=((protocol, stored.subscription),),
            assignment=stored.assignment,
        )

    @property
    def alive(self) -> bool:
        """Waiting for the group counts as a heartbeat, except for a member that is new.

        A new member's client may give up and come again without an id; were its first JoinGroup
        allowed to wait for ever, the group would fill with members that nobody is.
        """
        return not self.new and (self.join_token is not None or self.sync_token is not None)

    def metadata(self, protocol: str) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"{self.member_id} does not speak {protocol}")

    def vote(self, candidates: Container[str]) -> str:
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"{self.member_id} speaks none of {candidates}")

    def stored(self, protocol: str) -> MemberMetadata:
        return MemberMetadata(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            self.assignment,
        )


def protocols_of(requested: list[JoinGroupRequestProtocol]) -> Protocols:
    """A request's protocols in its order of preference; a name said twice counts once."""
    return tuple({protocol.name: protocol.metadata for protocol in requested}.items())
