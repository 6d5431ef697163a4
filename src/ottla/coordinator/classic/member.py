"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Container

from ottla.coordinator.records import MemberMetadata
from ottla.coordinator.result import Token
from ottla.wire.messages.join_group import JoinGroupRequestProtocol

Protocols = tuple[tuple[str, bytes], ...]  # name and metadata, the preferred one first


class ClassicGroupMember:
    """Its client, its protocols, its assignment, and the requests that wait for a reply."""

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
        self.join_token: Token | None = None  # of the JoinGroup that waits for other members
        self.sync_token: Token | None = None  # of the SyncGroup that waits for the leader's
        self.new = False  # joins for the first time: it does not know its member id yet

    def __repr__(self) -> str:
        return f"ClassicGroupMember({self.member_id})"

    @classmethod
    def loaded(cls, stored: MemberMetadata, protocol: str) -> ClassicGroupMember:
        """A member of the stored generation: only the chosen one of its protocols is stored."""
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
        """A request that waits counts as a heartbeat, except for a new member.

        The client of a new member may give up and join again without a member id. If its first
        JoinGroup could wait for ever, the group would fill with members that have no client.
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
    """A request's protocols in order of preference; a repeated name counts once."""
    return tuple({protocol.name: protocol.metadata for protocol in requested}.items())
