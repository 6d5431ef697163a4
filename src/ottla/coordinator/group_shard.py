"""The groups of one partition of `__consumer_offsets`, and the offsets that they committed.

An event (a request, a timer, a deleted topic) changes the shard and gives a CoordinatorResult. The
shard never waits: a request that has to, such as JoinGroup, gets its reply in the result of a later
event, under the token that it came with. Reads, which neither wait nor write, return at once.

    load(records)... -> loaded(now_ms) -> requests, expire(now_ms), ... -> unload()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ottla.coordinator.classic.group import ClassicGroup, ClassicGroupState, GroupCoordinatorConfig
from ottla.coordinator.classic.heartbeat import (
    heartbeat,
    leave,
    leave_response,
    leaving_members,
    sync,
)
from ottla.coordinator.classic.join import JoinAttempt, join
from ottla.coordinator.classic.rebalance import (
    JOIN,
    SESSION,
    SYNC,
    expire_join,
    expire_session,
    expire_sync,
    join_key,
    prepare_rebalance,
    prolong_session,
    reply_to_join,
    reply_to_sync,
    session_key,
    sync_key,
)
from ottla.coordinator.committed_offsets import CommittedOffsets
from ottla.coordinator.consumer import classic_members, fence
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.join import classic_join, consumer_group_heartbeat
from ottla.coordinator.consumer.records import ConsumerGroupKey
from ottla.coordinator.consumer.replay import ConsumerGroupReplay
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.group_type import NO_TOPICS_IMAGE, SHARE, Group, TopicsImage
from ottla.coordinator.latest_records import NO_PRODUCER_ID, LatestRecords
from ottla.coordinator.offset_commit import offset_commit_of, txn_offset_commit_of
from ottla.coordinator.records import (
    OFFSETS_TOPIC,
    GroupMetadataKey,
    OffsetCommitKey,
    is_recordable,
    read_group_value,
    read_key,
    read_offset_value,
)
from ottla.coordinator.responses import commit_error, error_response, join_error, txn_commit_error
from ottla.coordinator.result import CoordinatorResult, Reply, Token
from ottla.coordinator.runtime import CoordinatorShard
from ottla.coordinator.share.heartbeat import forget_shared_topic, restore_share_group
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.group_requests import restore_streams_group
from ottla.coordinator.timer import TimerKey
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record
from ottla.wire.fields import Message
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequestTopics, OffsetFetchResponseTopics
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

_RETENTION: Final[TimerKey] = ("retention", "", "")
_EXPIRED_COUNT_MAX: Final = 1_000  # offsets forgotten in one result; the rest follow in the next
_GROUP_ID_NOT_FOUND_FROM: Final = 9  # the version of OffsetCommit that may say so
# TxnOffsetCommit may say GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH from here on (KIP-1319).
_TXN_MEMBER_ERRORS_FROM: Final = 6
_PROTOCOL_FROM: Final = 5  # the version of SyncGroup that names the protocol
_COMMIT_PROLONGS: Final = (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE)


class GroupCoordinatorShard(CoordinatorShard):
    """`uuid` is the source of new member ids."""

    __slots__ = (
        "_latest",
        "_uuid",
        "config",
        "groups",
        "offsets",
        "topics",
    )

    def __init__(
        self, partition: int, *, config: GroupCoordinatorConfig, uuid: Callable[[], str]
    ) -> None:
        super().__init__(partition)
        self.config = config
        self.groups: dict[str, Group] = {}
        self.offsets = CommittedOffsets()
        self.topics: TopicsImage = NO_TOPICS_IMAGE  # of the cluster, as the last image has them
        self._uuid = uuid
        self._latest = LatestRecords()

    # -- loading

    def load(self, records: Iterable[Record], producer_id: int = NO_PRODUCER_ID) -> None:
        """Only the last valid value of each key is parsed, in `loaded`."""
        self._latest.add(records, producer_id)

    def load_marker(self, producer_id: int, *, commit: bool) -> None:
        """Offsets of a transaction become valid with its commit marker."""
        self._latest.end(producer_id, commit=commit)

    def loaded(self, now_ms: int) -> CoordinatorResult:
        """Build the groups from their records, and start the session of every member."""
        stored = ConsumerGroupReplay()
        for key, value in self._latest.latest.items():
            if value is not None:
                with self.skipping_unreadable(OFFSETS_TOPIC):
                    self._restore(key, value, stored, now_ms)
        self.groups.update(stored.groups())
        for key, producer_id, value in self._latest.open():
            with self.skipping_unreadable(OFFSETS_TOPIC):
                self._restore_pending(key, value, producer_id, now_ms)
        self._latest = LatestRecords()
        event = self.new_event(now_ms)
        for group in self.groups.values():
            if not isinstance(group, ClassicGroup):
                group.start(event)
                continue
            for member in group.members.values():
                prolong_session(group, member, event)
            if len(group.members) > self.config.max_size:
                prepare_rebalance(group, event)
        self.timer.schedule(_RETENTION, now_ms + self.config.offsets_retention_check_interval_ms)
        return event.result

    def _restore(self, key: bytes, value: bytes, stored: ConsumerGroupReplay, now_ms: int) -> None:
        if restore_share_group(self.groups, key, value):
            return
        if restore_streams_group(self.groups, key, value):
            return
        match read_key(key):
            case OffsetCommitKey(group_id, topic, partition):
                self.offsets.put(group_id, topic, partition, read_offset_value(value))
                if group_id not in self.groups:
                    self.groups[group_id] = ClassicGroup(group_id, now_ms)
            case GroupMetadataKey(group_id):
                self.groups[group_id] = ClassicGroup.loaded(group_id, read_group_value(value))
            case ConsumerGroupKey() as consumer_key:
                stored.put(consumer_key, value)

    def _restore_pending(
        self, key: bytes, value: bytes | None, producer_id: int, now_ms: int
    ) -> None:
        match read_key(key):
            case OffsetCommitKey(group_id, topic, partition):
                offset = None if value is None else read_offset_value(value)
                self.offsets.pending.put(producer_id, (group_id, topic, partition), offset)
                if group_id not in self.groups:
                    self.groups[group_id] = ClassicGroup(group_id, now_ms)

    def unload(self) -> list[Reply]:
        """Waiting requests get NOT_COORDINATOR, so that their clients look for the new one."""
        event = self.new_event(0)
        for group in self.groups.values():
            if not isinstance(group, ClassicGroup):
                group.stop(event, ErrorCode.NOT_COORDINATOR)
                continue
            self._reply_to_waiting(group, event, ErrorCode.NOT_COORDINATOR)
            group.transition(ClassicGroupState.DEAD, group.state_timestamp_ms)
        self.groups.clear()
        return event.result.replies

    # -- time

    def expire(self, now_ms: int) -> CoordinatorResult:
        event = self.new_event(now_ms)
        while (due := self.timer.pop_due(now_ms)) is not None:
            kind, group_id, member_id = due
            group = self.groups.get(group_id)
            if due == _RETENTION:
                self._expire_offsets(event)
                break  # in a batch by itself; other timers are handled with the next call
            if group is None:
                continue
            if isinstance(group, ConsumerGroup):
                fence.expire(group, kind, member_id, event)
            elif not isinstance(group, ClassicGroup):
                group.expire(kind, member_id, event)
            elif kind == SESSION:
                expire_session(group, member_id, event)
            elif kind == JOIN:
                expire_join(group, event)
            elif kind == SYNC:
                expire_sync(group, event)
        return event.result

    def _expire_offsets(self, event: GroupEvent) -> None:
        """Delete offsets past their retention, and empty groups that have none left.

        If that cannot be stored, the next check is an interval later, however much is left.
        """
        count = 0
        due_ms = event.now_ms + self.config.offsets_retention_check_interval_ms
        event.undo(lambda undo, code: self.timer.schedule(_RETENTION, due_ms))
        undecided = {group_id for group_id, _, _ in self.offsets.pending}
        for group in list(self.groups.values()):
            for topic, partition in list(self.offsets.expired(group, event.now_ms, self.config)):
                if count == _EXPIRED_COUNT_MAX:
                    self.timer.schedule(_RETENTION, event.now_ms)
                    return
                self.offsets.erase(group.group_id, topic, partition, event)
                count += 1
            if group.kind == SHARE:
                continue  # its progress is kept by the share coordinator, and does not expire
            idle = group.is_empty and not (isinstance(group, ClassicGroup) and group.pending_join)
            held = group.group_id in self.offsets.by_group or group.group_id in undecided
            if idle and not held:
                self._delete_group(group, event)
                count += 1
        self.timer.schedule(_RETENTION, due_ms)

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
        """The reply comes when all members have joined, or when the rebalance timeout expires."""
        event = self.new_event(now_ms)
        group = self.groups.get(request.group_id)
        attempt = JoinAttempt(
            request,
            version=version,
            client_id=client_id,
            client_host=client_host,
            token=token,
            uuid="" if request.member_id else self._uuid(),
        )
        code = self._check_join(request, group, attempt)
        if code is not ErrorCode.NONE:
            event.reply(token, join_error(request.member_id, code))
            return event.result
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            response = classic_join(group, attempt, event)
            if response is not None:
                event.reply(token, response)
                return event.result
        classic = self._classic(request.group_id)
        if classic is None:
            if group is not None:  # an empty consumer or streams group is replaced
                self._delete_group(group, event)
            classic = self._create_group(request.group_id, event)
            event.record(*classic.new_record())
        join(classic, attempt, event)
        return event.result

    def _check_join(
        self, request: JoinGroupRequest, group: Group | None, attempt: JoinAttempt
    ) -> ErrorCode:
        timeout_ms = request.session_timeout
        config = self.config
        if not config.min_session_timeout_ms <= timeout_ms <= config.max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        texts = [request.protocol_type, attempt.client_host, attempt.new_member_id()]
        texts += [name for name, _ in attempt.protocols]
        if not all(map(is_recordable, texts)):
            return ErrorCode.INVALID_REQUEST
        if isinstance(group, ConsumerGroup | StreamsGroup) and group.is_empty:
            group = None
        elif isinstance(group, ConsumerGroup):
            pass  # it accepts classic members
        elif group is not None and not isinstance(group, ClassicGroup):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group is None:
            if request.member_id:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if not request.protocol_type or not request.protocols:
                return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def sync_group(
        self, request: SyncGroupRequest, *, version: int, token: Token, now_ms: int
    ) -> CoordinatorResult:
        """The reply comes when the leader's assignment is stored."""
        event = self.new_event(now_ms)
        group = self.groups.get(request.group_id)
        if version >= _PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
            event.reply(token, SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif isinstance(group, ClassicGroup):
            sync(group, request, token, event)
        else:
            event.reply(token, self._sync_consumer(group, request, event))
        return event.result

    def _sync_consumer(
        self, group: Group | None, request: SyncGroupRequest, event: GroupEvent
    ) -> SyncGroupResponse:
        code = ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(group, ConsumerGroup):
            try:
                return classic_members.sync(group, request, event)
            except KafkaError as error:
                code = error.code
        return SyncGroupResponse(error_code=code)

    def heartbeat(
        self, request: HeartbeatRequest, *, token: Token, now_ms: int
    ) -> CoordinatorResult:
        event = self.new_event(now_ms)
        group = self.groups.get(request.group_id)
        code = ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(group, ClassicGroup):
            code = heartbeat(group, request, event)
        elif isinstance(group, ConsumerGroup):
            try:
                code = classic_members.heartbeat(group, request, event)
            except KafkaError as error:
                code = error.code
        event.reply(token, HeartbeatResponse(error_code=code))
        return event.result

    def leave_group(
        self, request: LeaveGroupRequest, *, version: int, token: Token, now_ms: int
    ) -> CoordinatorResult:
        event = self.new_event(now_ms)
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            event.reply(token, leave(group, request, version, event))
        elif isinstance(group, ConsumerGroup):
            event.reply(token, classic_members.leave(group, request, version, event))
        else:
            identities = leaving_members(request, version)
            codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(identities)
            event.reply(token, leave_response(identities, codes, version))
        return event.result

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
        """KIP-848: members join, stay and leave by the same request."""
        event = self.new_event(now_ms)
        response = consumer_group_heartbeat(
            request,
            version=version,
            member_id=request.member_id or self._uuid(),
            client_id=client_id,
            client_host=client_host,
            event=event,
        )
        event.reply(token, response)
        return event.result

    # -- offsets

    def offset_commit(
        self, request: OffsetCommitRequest, *, version: int, token: Token, now_ms: int
    ) -> CoordinatorResult:
        """Every topic of the request has its name and, if it is known, its id."""
        event = self.new_event(now_ms)
        group = self.groups.get(request.group_id)
        code = ErrorCode.NONE
        if group is not None:
            code = group.check_commit(offset_commit_of(request, version, self.topics))
        elif request.generation_id_or_member_epoch < 0:
            group = self._create_group(request.group_id, event)  # one that only commits
        elif version >= _GROUP_ID_NOT_FOUND_FROM:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        else:
            code = ErrorCode.ILLEGAL_GENERATION
        if group is None or code is not ErrorCode.NONE:
            event.reply(token, commit_error(request.topics, code))
            return event.result
        if isinstance(group, ClassicGroup) and group.state in _COMMIT_PROLONGS:
            prolong_session(group, group.members[request.member_id], event)
        event.reply(token, self.offsets.commit(request, event))
        return event.result

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, *, version: int, token: Token, now_ms: int
    ) -> CoordinatorResult:
        """Commit offsets in the producer's transaction, which the caller has verified to be open
        (KIP-447)."""
        event = self.new_event(now_ms)
        group = self.groups.get(request.group_id)
        code = ErrorCode.NONE
        if group is not None:
            code = group.check_commit(txn_offset_commit_of(request, version, self.topics))
            if code is ErrorCode.STALE_MEMBER_EPOCH and version < _TXN_MEMBER_ERRORS_FROM:
                code = ErrorCode.ILLEGAL_GENERATION
        elif request.generation_id < 0:
            self._create_group(request.group_id, event)
        elif version >= _TXN_MEMBER_ERRORS_FROM:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        else:
            code = ErrorCode.ILLEGAL_GENERATION
        if code is ErrorCode.NONE:
            event.reply(token, self.offsets.commit_pending(request, event))
        else:
            event.reply(token, txn_commit_error(request.topics, code))
        return event.result

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The marker of this producer's transaction is in the shard's partition."""
        self.offsets.end_transaction(producer_id, commit=commit)

    def offset_fetch(
        self, group_id: str, topics: list[OffsetFetchRequestTopics] | None, *, stable: bool = False
    ) -> list[OffsetFetchResponseTopics]:
        """All offsets if `topics` is None. An unknown group has committed nothing."""
        if topics is None:
            return self.offsets.fetch_all(group_id, stable=stable)
        return self.offsets.fetch(group_id, topics, stable=stable)

    def offset_delete(
        self, request: OffsetDeleteRequest, *, token: Token, now_ms: int
    ) -> CoordinatorResult:
        event = self.new_event(now_ms)
        group = self.groups.get(request.group_id)
        code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()
        if group is None or code is not ErrorCode.NONE:
            event.reply(token, OffsetDeleteResponse(error_code=code))
        else:
            event.reply(token, self.offsets.delete(group, request, event))
        return event.result

    def forget_topic(self, topic: str, topic_id: bytes, *, now_ms: int) -> CoordinatorResult:
        event = self.new_event(now_ms)
        self.offsets.forget_topic(topic, topic_id, event)
        forget_shared_topic(self.groups, topic_id, event)
        return event.result

    # -- groups

    def delete_groups(
        self, group_ids: list[str], *, token: Token, now_ms: int
    ) -> CoordinatorResult:
        event = self.new_event(now_ms)
        response = DeleteGroupsResponse()
        for group_id in group_ids:
            group = self.groups.get(group_id)
            code = ErrorCode.NONE
            if group is None:
                code = ErrorCode.GROUP_ID_NOT_FOUND
            elif not group.is_empty:
                code = ErrorCode.NON_EMPTY_GROUP
            else:
                self.offsets.erase_group(group_id, event)
                self._delete_group(group, event)
            response.results.append(DeletableGroupResult(group_id, code))
        event.reply(token, response)
        return event.result

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """KafkaError if the request comes from a former member of the group (KIP-848)."""
        group = self.groups.get(group_id)
        code = ErrorCode.NONE
        if group is not None:
            code = group.check_fetch(member_id, member_epoch)
        if code is not ErrorCode.NONE:
            raise KafkaError(code)

    def _classic(self, group_id: str) -> ClassicGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _create_group(self, group_id: str, event: GroupEvent) -> ClassicGroup:
        group = ClassicGroup(group_id, event.now_ms)
        self.groups[group_id] = group
        event.undo(lambda undo, code: self._remove_new_group(group, code, undo))
        return group

    def _delete_group(self, group: Group, event: GroupEvent) -> None:
        for key, value in group.tombstones():
            event.record(key, value)
        del self.groups[group.group_id]
        event.undo(lambda undo, code: self._put_back_group(group))

    def _put_back_group(self, group: Group) -> None:
        self.groups[group.group_id] = group

    def _remove_new_group(self, group: ClassicGroup, code: ErrorCode, event: GroupEvent) -> None:
        """The record of a new group could not be stored: remove the group again."""
        self._reply_to_waiting(group, event, code)
        for member_id in [*group.members, *group.pending_join]:
            event.timer.cancel(session_key(group, member_id))
        event.timer.cancel(join_key(group))
        event.timer.cancel(sync_key(group))
        del self.groups[group.group_id]

    def _reply_to_waiting(self, group: ClassicGroup, event: GroupEvent, code: ErrorCode) -> None:
        for member in group.members.values():
            reply_to_join(group, member, event, member.member_id, code)
            reply_to_sync(member, event, SyncGroupResponse(error_code=code))

    # -- events

    def new_event(self, now_ms: int) -> GroupEvent:
        return GroupEvent(
            now_ms,
            partition=self.partition,
            timer=self.timer,
            config=self.config,
            topics=self.topics,
            groups=self.groups,
        )

    @staticmethod
    def error_reply(response: Message, code: ErrorCode) -> Message:
        return error_response(response, code)
