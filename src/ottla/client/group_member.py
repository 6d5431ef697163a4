"""A member of a classic group with a protocol of the caller's, such as "connect".

librdkafka joins consumer groups only. This one sends JoinGroup, SyncGroup, Heartbeat, OffsetCommit
and LeaveGroup itself, and blocks: the caller brings a thread. Metadata and assignments are opaque
bytes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ottla.client.delivery import Setting
from ottla.client.protocol.connection import BrokerConnection, check
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.fields import Message
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

GROUP: Final = 0  # FindCoordinator's key type
NAMES_MAX: Final = 9  # later versions of OffsetCommit name topics by id
ANSWER_S: Final = 5.0  # beyond the time that the broker itself waits

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Generation:
    """`members` has each member's metadata; only the leader gets it."""

    generation: int
    member_id: str
    leader_id: str
    members: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def leads(self) -> bool:
        return self.member_id == self.leader_id


class GroupMember:
    """Every failure is a KafkaError, after which the coordinator is looked up again.

    `instance` is the group.instance.id (KIP-345): a member that joins with it replaces the one
    before, whose requests fail with FENCED_INSTANCE_ID from then on.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        group: str,
        *,
        protocol_type: str,
        protocol: str,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        instance: str | None = None,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._group = group
        self._protocol_type = protocol_type
        self._protocol = protocol
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._instance = instance
        self._settings = settings or {}
        self._quick: BrokerConnection | None = None
        self._patient: BrokerConnection | None = None
        self.member_id = ""
        self.generation = -1

    def join(self, metadata: bytes) -> Generation:
        """Wait until every member has joined, or the slowest member's rebalance timeout is over."""
        try:
            answer = self._join(metadata)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394: join with the new id
                self.member_id = answer.member_id
                answer = self._join(metadata)
            check(answer.error_code, "", ApiKey.JOIN_GROUP, self._group)
        except KafkaError as error:
            self._failed(error)
            raise
        self.member_id, self.generation = answer.member_id, answer.generation_id
        members = {member.member_id: bytes(member.metadata) for member in answer.members}
        return Generation(answer.generation_id, answer.member_id, answer.leader, members)

    def sync(self, assignments: Mapping[str, bytes]) -> bytes:
        """Return this member's assignment; the leader sends everybody's."""
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=self._protocol_type,
            protocol_name=self._protocol,
            group_instance_id=self._instance,
            assignments=[
                SyncGroupRequestAssignment(*assignment) for assignment in assignments.items()
            ],
        )
        answer = self._call(request, ApiKey.SYNC_GROUP, SyncGroupResponse, patient=True)
        self._check(answer.error_code, ApiKey.SYNC_GROUP)
        return bytes(answer.assignment)

    def heartbeat(self) -> None:
        """REBALANCE_IN_PROGRESS: join again. UNKNOWN_MEMBER_ID: this member owns nothing."""
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance,
        )
        answer = self._call(request, ApiKey.HEARTBEAT, HeartbeatResponse)
        self._check(answer.error_code, ApiKey.HEARTBEAT)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit with member id and generation: a member of an older generation commits nothing."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for partition, offset in offsets.items():
            part = OffsetCommitRequestPartition(partition.partition, offset, committed_metadata="")
            topics.setdefault(partition.topic, []).append(part)
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance,
            topics=[OffsetCommitRequestTopic(name, partitions=p) for name, p in topics.items()],
        )
        answer = self._call(
            request, ApiKey.OFFSET_COMMIT, OffsetCommitResponse, version_max=NAMES_MAX
        )
        for topic in answer.topics:
            for part_answer in topic.partitions:
                code = part_answer.error_code
                of_topic = code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
                self._check(code, ApiKey.OFFSET_COMMIT, topic.name if of_topic else "")

    def leave(self) -> None:
        """Leave, so that the others need not wait for the session timeout."""
        if self.member_id:
            self._remove(self.member_id, "the worker is being stopped")
            self.member_id = ""

    def put_out(self) -> None:
        """Remove the member that holds this instance id now."""
        self._remove("", "its place is needed")

    def _remove(self, member_id: str, reason: str) -> None:
        identity = MemberIdentity(member_id, self._instance, reason)
        request = LeaveGroupRequest(group_id=self._group, member_id=member_id, members=[identity])
        self._call(request, ApiKey.LEAVE_GROUP, LeaveGroupResponse)

    def close(self) -> None:
        for connection in filter(None, (self._quick, self._patient)):
            connection.close()
        self._quick = self._patient = None

    def _join(self, metadata: bytes) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout=self._session_timeout_ms,
            rebalance_timeout=self._rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self._instance,
            protocol_type=self._protocol_type,
            protocols=[JoinGroupRequestProtocol(self._protocol, metadata)],
        )
        return self._call(request, ApiKey.JOIN_GROUP, JoinGroupResponse, patient=True)

    def _check(self, code: int, api_key: int, name: str = "") -> None:
        try:
            check(code, "", api_key, name or self._group)
        except KafkaError as error:
            self._failed(error)
            raise

    def _failed(self, error: KafkaError) -> None:
        if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
        if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
            self.close()

    def _call(
        self,
        request: Message,
        api_key: int,
        response: type[R],
        *,
        patient: bool = False,
        version_max: int | None = None,
    ) -> R:
        """A join may wait a minute for other members; a heartbeat that is late is a failure."""
        try:
            connection = self._connection(patient)
            return connection.call(request, api_key, response, version_max=version_max)
        except KafkaError as error:
            self._failed(error)
            raise

    def _connection(self, patient: bool) -> BrokerConnection:
        found = self._patient if patient else self._quick
        if found is None:
            wait_ms = self._rebalance_timeout_ms if patient else 0
            found = self._coordinator(wait_ms / 1000 + ANSWER_S)
            if patient:
                self._patient = found
            else:
                self._quick = found
        return found

    def _coordinator(self, timeout_s: float) -> BrokerConnection:
        with ConnectionPool(
            self._bootstrap_servers, settings=self._settings, timeout_s=ANSWER_S
        ) as connections:
            request = FindCoordinatorRequest(
                key=self._group, key_type=GROUP, coordinator_keys=[self._group]
            )
            answer = connections.call(request, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse)
            found = answer.coordinators[0] if answer.coordinators else answer
            check(found.error_code, found.error_message, ApiKey.FIND_COORDINATOR, self._group)
            host, port = found.host, found.port
        return BrokerConnection(host, port, settings=self._settings, timeout_s=timeout_s)
