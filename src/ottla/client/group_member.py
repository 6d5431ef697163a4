"""A member of a classic group whose protocol is its own: workers of Connect, for instance.

librdkafka joins groups of consumers only. This one speaks JoinGroup, SyncGroup, Heartbeat,
OffsetCommit and LeaveGroup itself, blocking, for whoever has a thread to spare; what the metadata
and assignments mean is the caller's.
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
from ottla.wire.primitives import Message

GROUP: Final = 0  # of FindCoordinator's key types
NAMES_MAX: Final = 9  # of OffsetCommit: later versions know topics by their ids
ANSWER_S: Final = 5.0  # how long an answer may take beyond the time that the broker waits itself

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Joined:
    """`members` is what each one said of itself; only the leader is told."""

    generation: int
    member_id: str
    leader_id: str
    members: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def leads(self) -> bool:
        return self.member_id == self.leader_id


class GroupMember:
    """Every failure is a KafkaError. After one the coordinator is looked for anew.

    `instance` is a name that outlives the member (KIP-345): who joins under it takes the place of
    the one before, who is told FENCED_INSTANCE_ID from then on.
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

    def join(self, metadata: bytes) -> Joined:
        """Waits until every member has joined, or the rebalance timeout of the slowest is over."""
        try:
            answer = self._join(metadata)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394: come again with it
                self.member_id = answer.member_id
                answer = self._join(metadata)
            check(answer.error_code, "", ApiKey.JOIN_GROUP, self._group)
        except KafkaError as error:
            self._failed(error)
            raise
        self.member_id, self.generation = answer.member_id, answer.generation_id
        members = {each.member_id: bytes(each.metadata) for each in answer.members}
        return Joined(answer.generation_id, answer.member_id, answer.leader, members)

    def sync(self, assignments: Mapping[str, bytes]) -> bytes:
        """What the leader gave this member; the leader brings everybody's."""
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=self._protocol_type,
            protocol_name=self._protocol,
            group_instance_id=self._instance,
            assignments=[SyncGroupRequestAssignment(*each) for each in assignments.items()],
        )
        answer = self._call(request, ApiKey.SYNC_GROUP, SyncGroupResponse, patient=True)
        self._check(answer.error_code, ApiKey.SYNC_GROUP)
        return bytes(answer.assignment)

    def heartbeat(self) -> None:
        """REBALANCE_IN_PROGRESS: join again. UNKNOWN_MEMBER_ID: nothing is ours any more."""
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance,
        )
        answer = self._call(request, ApiKey.HEARTBEAT, HeartbeatResponse)
        self._check(answer.error_code, ApiKey.HEARTBEAT)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """As a member, in its generation: who is not that any more commits nothing."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for each, offset in offsets.items():
            part = OffsetCommitRequestPartition(each.partition, offset, committed_metadata="")
            topics.setdefault(each.topic, []).append(part)
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
        """The others need not wait for the session to end."""
        if self.member_id:
            self._remove(self.member_id, "the worker is being stopped")
            self.member_id = ""

    def put_out(self) -> None:
        """Whoever is in the group by the name of the instance is not any more."""
        self._remove("", "its place is needed")

    def _remove(self, member_id: str, reason: str) -> None:
        who = MemberIdentity(member_id, self._instance, reason)
        request = LeaveGroupRequest(group_id=self._group, member_id=member_id, members=[who])
        self._call(request, ApiKey.LEAVE_GROUP, LeaveGroupResponse)

    def close(self) -> None:
        for line in filter(None, (self._quick, self._patient)):
            line.close()
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
        """A join may wait for others for a minute; a heartbeat that is late is a failure."""
        try:
            line = self._line(patient)
            return line.call(request, api_key, response, version_max=version_max)
        except KafkaError as error:
            self._failed(error)
            raise

    def _line(self, patient: bool) -> BrokerConnection:
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
        ) as lines:
            request = FindCoordinatorRequest(
                key=self._group, key_type=GROUP, coordinator_keys=[self._group]
            )
            answer = lines.call(request, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse)
            found = answer.coordinators[0] if answer.coordinators else answer
            check(found.error_code, found.error_message, ApiKey.FIND_COORDINATOR, self._group)
            host, port = found.host, found.port
        return BrokerConnection(host, port, settings=self._settings, timeout_s=timeout_s)
