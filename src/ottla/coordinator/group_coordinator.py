"""All groups that this broker coordinates; each request is handed to the shard of its group."""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.classic.describe import (
    describe_classic_group,
    describe_unknown_group,
    listed_group,
)
from ottla.coordinator.classic.group import ClassicGroup, GroupCoordinatorConfig
from ottla.coordinator.consumer.describe import describe_consumer_group as described_consumer
from ottla.coordinator.consumer.describe import describe_group_error
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.group_shard import GroupCoordinatorShard
from ottla.coordinator.group_type import NO_TOPICS_IMAGE, TopicsImage
from ottla.coordinator.records import is_recordable
from ottla.coordinator.responses import (
    commit_error,
    fetch_error,
    join_error,
    txn_commit_error,
)
from ottla.coordinator.result import CoordinatorResult, Token
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest


class GroupCoordinator(CoordinatorRuntime[GroupCoordinatorShard]):
    """`partition_count` is that of `__consumer_offsets`, and can never change."""

    __slots__ = ("_uuid", "config", "topics")

    shard_class = GroupCoordinatorShard

    def __init__(
        self, *, partition_count: int, config: GroupCoordinatorConfig, uuid: Callable[[], str]
    ) -> None:
        super().__init__(partition_count)
        self.config = config
        self.topics: TopicsImage = NO_TOPICS_IMAGE
        self._uuid = uuid

    def configure(self, config: GroupCoordinatorConfig) -> None:
        """Holds from the next event on; timers that run are not changed."""
        self.config = config
        for shard in self.all_shards():
            shard.config = config

    def see_topics(self, topics: TopicsImage) -> None:
        """The topics of a new image. Groups notice changes with the next heartbeat of a member."""
        self.topics = topics
        for shard in self.all_shards():
            shard.topics = topics

    def new_shard(self, partition: int, leader_epoch: int) -> GroupCoordinatorShard:
        shard = GroupCoordinatorShard(partition, config=self.config, uuid=self._uuid)
        shard.topics = self.topics
        return shard

    # -- membership

    def join_group(
        self,
        request: JoinGroupRequest,
        *,
        version: int,
        client_id: str,
        client_host: str,
        token: Token,
        now_ms: int,
    ) -> CoordinatorResult:
        try:
            shard = self.member_shard_of(request.group_id)
            if not is_recordable(request.group_instance_id or ""):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a group.instance.id over 32 KiB")
        except KafkaError as error:
            return CoordinatorResult.of_reply(token, join_error(request.member_id, error.code))
        return shard.join_group(
            request,
            version=version,
            client_id=client_id,
            client_host=client_host,
            token=token,
            now_ms=now_ms,
        )

    def sync_group(
        self, request: SyncGroupRequest, *, version: int, token: Token, now_ms: int
    ) -> CoordinatorResult:
        try:
            shard = self.member_shard_of(request.group_id)
        except KafkaError as error:
            return CoordinatorResult.of_reply(token, SyncGroupResponse(error_code=error.code))
        return shard.sync_group(request, version=version, token=token, now_ms=now_ms)

    def heartbeat(
        self, request: HeartbeatRequest, *, token: Token, now_ms: int
    ) -> CoordinatorResult:
        try:
            shard = self.member_shard_of(request.group_id)
        except KafkaError as error:
            code = error.code
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                code = ErrorCode.NONE  # its session starts once the group is loaded
            return CoordinatorResult.of_reply(token, HeartbeatResponse(error_code=code))
        return shard.heartbeat(request, token=token, now_ms=now_ms)

    def leave_group(
        self, request: LeaveGroupRequest, *, version: int, token: Token, now_ms: int
    ) -> CoordinatorResult:
        try:
            shard = self.member_shard_of(request.group_id)
        except KafkaError as error:
            return CoordinatorResult.of_reply(token, LeaveGroupResponse(error_code=error.code))
        return shard.leave_group(request, version=version, token=token, now_ms=now_ms)

    def consumer_group_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        version: int,
        client_id: str,
        client_host: str,
        token: Token,
        now_ms: int,
    ) -> CoordinatorResult:
        try:
            if not self.config.consumer.enabled:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            shard = self._shard(request.group_id)
        except KafkaError as error:
            return CoordinatorResult.of_reply(
                token, ConsumerGroupHeartbeatResponse(error_code=error.code)
            )
        return shard.consumer_group_heartbeat(
            request,
            version=version,
            client_id=client_id,
            client_host=client_host,
            token=token,
            now_ms=now_ms,
        )

    # -- offsets: for these, as in Kafka, the empty group id is valid

    def offset_commit(
        self, request: OffsetCommitRequest, *, version: int, token: Token, now_ms: int
    ) -> CoordinatorResult:
        try:
            shard = self._shard(request.group_id)
        except KafkaError as error:
            return CoordinatorResult.of_reply(token, commit_error(request.topics, error.code))
        return shard.offset_commit(request, version=version, token=token, now_ms=now_ms)

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, *, version: int, token: Token, now_ms: int
    ) -> CoordinatorResult:
        try:
            shard = self.member_shard_of(request.group_id)
        except KafkaError as error:
            return CoordinatorResult.of_reply(token, txn_commit_error(request.topics, error.code))
        return shard.txn_offset_commit(request, version=version, token=token, now_ms=now_ms)

    def offset_fetch(
        self, request: OffsetFetchRequestGroup, *, version: int, stable: bool = False
    ) -> OffsetFetchResponseGroup:
        group_id = request.group_id
        try:
            shard = self._shard(group_id)
            shard.check_fetch(group_id, request.member_id, request.member_epoch)
        except KafkaError as error:
            return fetch_error(group_id, request.topics, error.code, version)
        topics = shard.offset_fetch(group_id, request.topics, stable=stable)
        return OffsetFetchResponseGroup(group_id, topics)

    def offset_delete(
        self, request: OffsetDeleteRequest, *, token: Token, now_ms: int
    ) -> CoordinatorResult:
        try:
            shard = self.member_shard_of(request.group_id)
        except KafkaError as error:
            return CoordinatorResult.of_reply(token, OffsetDeleteResponse(error_code=error.code))
        return shard.offset_delete(request, token=token, now_ms=now_ms)

    def forget_topic(self, topic: str, topic_id: bytes, *, now_ms: int) -> list[CoordinatorResult]:
        """A topic was deleted, and with it the offsets of all groups in it."""
        return [
            shard.forget_topic(topic, topic_id, now_ms=now_ms) for shard in self.shards.values()
        ]

    # -- groups

    def list_groups(self, request: ListGroupsRequest) -> ListGroupsResponse:
        """v4 filters by state (KIP-518), v5 by type (KIP-848); names are compared in any case."""
        if self._loading:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        states = {state.strip().lower() for state in request.states_filter}
        types = {kind.strip().lower() for kind in request.types_filter}
        return ListGroupsResponse(
            groups=[
                listed_group(group)
                for shard in self.shards.values()
                for group in shard.groups.values()
                if not states or group.state_name.lower() in states
                if not types or group.kind in types
            ]
        )

    def describe_groups(
        self, request: DescribeGroupsRequest, *, version: int
    ) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(
            groups=[self._describe_group(group_id, version) for group_id in request.groups]
        )

    def _describe_group(self, group_id: str, version: int) -> DescribedGroup:
        try:
            group = self._shard(group_id).groups.get(group_id)
        except KafkaError as error:
            return DescribedGroup(error_code=error.code, group_id=group_id)
        if group is None:
            return describe_unknown_group(group_id, version)
        if not isinstance(group, ClassicGroup):
            why = f"Group {group_id} is not a classic group."
            return describe_unknown_group(group_id, version, why)
        return describe_classic_group(group)

    def consumer_group_describe(
        self, request: ConsumerGroupDescribeRequest
    ) -> ConsumerGroupDescribeResponse:
        groups = [self._describe_consumer(group_id) for group_id in request.group_ids]
        return ConsumerGroupDescribeResponse(groups=groups)

    def _describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        try:
            group = self.member_shard_of(group_id).groups.get(group_id)
        except KafkaError as error:
            return describe_group_error(group_id, error.code, None)
        if isinstance(group, ConsumerGroup):
            return described_consumer(group, self.topics, self.config.consumer.assignors[0])
        why = "not found" if group is None else "is not a consumer group"
        code = ErrorCode.GROUP_ID_NOT_FOUND
        return describe_group_error(group_id, code, f"Group {group_id} {why}.")

    def delete_groups(
        self, group_ids: list[str], *, tokens: Callable[[], Token], now_ms: int
    ) -> list[CoordinatorResult]:
        """One result for each shard that has some of these groups, each with another token."""
        by_shard: dict[int, list[str]] = {}
        results: list[CoordinatorResult] = []
        for group_id in dict.fromkeys(group_ids):
            try:
                by_shard.setdefault(self._shard(group_id).partition, []).append(group_id)
            except KafkaError as error:
                result = DeletableGroupResult(group_id, error.code)
                results.append(
                    CoordinatorResult.of_reply(tokens(), DeleteGroupsResponse(results=[result]))
                )
        for partition, names in by_shard.items():
            shard = self.shards[partition]
            results.append(shard.delete_groups(names, token=tokens(), now_ms=now_ms))
        return results

    def _shard(self, group_id: str) -> GroupCoordinatorShard:
        if not is_recordable(group_id):
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group id over 32 KiB")
        return self.shard_of(group_id)

    def member_shard_of(self, group_id: str) -> GroupCoordinatorShard:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "a group with members has a name")
        return self._shard(group_id)
