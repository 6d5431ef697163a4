"""The groups of one partition of `__consumer_offsets`, and what they have committed.

A shard is told what happens (a request, a time, a deleted topic) and gives an Outcome. It never
waits: a request that has to, such as JoinGroup, is answered in the outcome of a later event,
under the token that it came with. Reads, which neither wait nor write, are answered at once.

    load(records)... -> loaded(now_ms) -> requests, expire(now_ms), ... -> unload()
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla.coordinator.commits import commit_of, txn_commit_of
from ottla.coordinator.consumer import classic_members, fencing
from ottla.coordinator.consumer.entry import classic_join, consumer_heartbeat
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.loading import Stored
from ottla.coordinator.consumer.records import ConsumerKey
from ottla.coordinator.deadlines import Deadlines, Key
from ottla.coordinator.group import Group, GroupConfig, State
from ottla.coordinator.joining import Joining, join
from ottla.coordinator.keys import (
    OFFSETS_TOPIC,
    GroupKey,
    OffsetKey,
    is_recordable,
    read_group_value,
    read_key,
    read_offset_value,
)
from ottla.coordinator.kinds import NO_TOPICS, SHARE, AnyGroup, Topics
from ottla.coordinator.loading import NO_PRODUCER_ID, Loading
from ottla.coordinator.membership import heartbeat, leave, leaving, left, sync
from ottla.coordinator.offsets import Offsets
from ottla.coordinator.outcome import Outcome, Reply, Token, Turn, coordinator_code
from ottla.coordinator.rebalance import (
    JOIN,
    SESSION,
    SYNC,
    answer_join,
    answer_sync,
    expire_join,
    expire_session,
    expire_sync,
    join_key,
    prepare_rebalance,
    prolong_session,
    session_key,
    sync_key,
)
from ottla.coordinator.replies import commit_error, join_error, refused, txn_commit_error
from ottla.coordinator.share.requests import forget_shared_topic, restore_share_group
from ottla.coordinator.streams.coordination import restore_streams_group
from ottla.coordinator.streams.group import StreamsGroup
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record
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

_log = logging.getLogger("ottla.coordinator")

_RETENTION: Final[Key] = ("retention", "", "")
_EXPIRED_COUNT_MAX: Final = 1_000  # offsets forgotten in one outcome; the rest follow in the next
_GROUP_ID_NOT_FOUND_FROM: Final = 9  # the version of OffsetCommit that may say so
# TxnOffsetCommit may say GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH from here on (KIP-1319).
_TXN_MEMBER_ERRORS_FROM: Final = 6
_PROTOCOL_FROM: Final = 5  # the version of SyncGroup that names the protocol
_COMMIT_PROLONGS: Final = (State.STABLE, State.PREPARING_REBALANCE)


class GroupShard:
    """One owner of one partition's groups. `uuid` is the source of new member ids."""

    __slots__ = (
        "_deadlines",
        "_loading",
        "_uuid",
        "config",
        "groups",
        "offsets",
        "partition",
        "topics",
    )

    def __init__(self, partition: int, *, config: GroupConfig, uuid: Callable[[], str]) -> None:
        self.partition = partition
        self.config = config
        self.groups: dict[str, AnyGroup] = {}
        self.offsets = Offsets()
        self.topics: Topics = NO_TOPICS  # of the cluster, as the last image has them
        self._deadlines = Deadlines()
        self._uuid = uuid
        self._loading = Loading()

    # -- loading

    def load(self, records: Iterable[Record], producer_id: int = NO_PRODUCER_ID) -> None:
        """The next records of the partition, oldest first; a transaction's, with its producer."""
        self._loading.add(records, producer_id)

    def load_end(self, producer_id: int, *, commit: bool) -> None:
        """The next in the partition is the marker that ends this producer's transaction."""
        self._loading.end(producer_id, commit=commit)

    def loaded(self, now_ms: int) -> Outcome:
        """That was all of it: what stands holds, and everybody's session begins anew."""
        stored = Stored()
        for key, value in self._loading.latest.items():
            if value is not None:
                with self._skipping():
                    self._restore(key, value, stored, now_ms)
        self.groups.update(stored.groups())
        for key, producer_id, value in self._loading.open():
            with self._skipping():
                self._restore_pending(key, value, producer_id, now_ms)
        self._loading = Loading()
        turn = self._turn(now_ms)
        for group in self.groups.values():
            if not isinstance(group, Group):
                group.start(turn)
                continue
            for member in group.members.values():
                prolong_session(group, member, turn)
            if len(group.members) > self.config.max_size:
                prepare_rebalance(group, turn)
        self._deadlines.set(_RETENTION, now_ms + self.config.offsets_retention_check_interval_ms)
        return turn.outcome

    def _restore(self, key: bytes, value: bytes, stored: Stored, now_ms: int) -> None:
        if restore_share_group(self.groups, key, value):
            return
        if restore_streams_group(self.groups, key, value):
            return
        match read_key(key):
            case OffsetKey(group_id, topic, partition):
                self.offsets.put(group_id, topic, partition, read_offset_value(value))
                if group_id not in self.groups:
                    self.groups[group_id] = Group(group_id, now_ms)
            case GroupKey(group_id):
                self.groups[group_id] = Group.loaded(group_id, read_group_value(value))
            case ConsumerKey() as consumer_key:
                stored.put(consumer_key, value)

    def _restore_pending(
        self, key: bytes, value: bytes | None, producer_id: int, now_ms: int
    ) -> None:
        match read_key(key):
            case OffsetKey(group_id, topic, partition):
                offset = None if value is None else read_offset_value(value)
                self.offsets.pending.put(producer_id, (group_id, topic, partition), offset)
                if group_id not in self.groups:
                    self.groups[group_id] = Group(group_id, now_ms)

    @contextmanager
    def _skipping(self) -> Iterator[None]:
        """A record that cannot be read is no reason to lose the others."""
        try:
            yield
        except KafkaError as error:
            _log.warning("%s-%d: skipped: %s", OFFSETS_TOPIC, self.partition, error)

    def unload(self) -> list[Reply]:
        """Another broker leads this partition now: whoever waits here has to ask there."""
        turn = self._turn(0)
        for group in self.groups.values():
            if not isinstance(group, Group):
                group.stop(turn, ErrorCode.NOT_COORDINATOR)
                continue
            self._answer_waiting(group, turn, ErrorCode.NOT_COORDINATOR)
            group.transition(State.DEAD, group.state_timestamp_ms)
        self.groups.clear()
        return turn.outcome.replies

    # -- time

    def next_deadline_ms(self) -> int | None:
        """When `expire` has to be called next; an earlier or needless call does no harm."""
        return self._deadlines.next_ms()

    def clock_set(self, step_ms: int) -> None:
        self._deadlines.shift(step_ms)

    def expire(self, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        while (due := self._deadlines.pop_due(now_ms)) is not None:
            kind, group_id, member_id = due
            group = self.groups.get(group_id)
            if due == _RETENTION:
                self._expire_offsets(turn)
                break  # with a batch of its own; what else is due comes with the next call
            if group is None:
                continue
            if isinstance(group, ConsumerGroup):
                fencing.expire(group, kind, member_id, turn)
            elif not isinstance(group, Group):
                group.expire(kind, member_id, turn)
            elif kind == SESSION:
                expire_session(group, member_id, turn)
            elif kind == JOIN:
                expire_join(group, turn)
            elif kind == SYNC:
                expire_sync(group, turn)
        return turn.outcome

    def _expire_offsets(self, turn: Turn) -> None:
        """Forget offsets past their retention, and groups that are empty and have none left.

        If that cannot be stored it has time until the next look, however much is left.
        """
        count = 0
        due_ms = turn.now_ms + self.config.offsets_retention_check_interval_ms
        turn.undo(lambda undo, code: self._deadlines.set(_RETENTION, due_ms))
        undecided = {group_id for group_id, _, _ in self.offsets.pending}
        for group in list(self.groups.values()):
            for topic, partition in list(self.offsets.expired(group, turn.now_ms, self.config)):
                if count == _EXPIRED_COUNT_MAX:
                    self._deadlines.set(_RETENTION, turn.now_ms)
                    return
                self.offsets.erase(group.group_id, topic, partition, turn)
                count += 1
            if group.kind == SHARE:
                continue  # its place in the topics is not an offset that could expire
            idle = group.is_empty and not (isinstance(group, Group) and group.pending_join)
            held = group.group_id in self.offsets.by_group or group.group_id in undecided
            if idle and not held:
                self._delete_group(group, turn)
                count += 1
        self._deadlines.set(_RETENTION, due_ms)

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
    ) -> Outcome:
        """Answered when the group is complete, at the latest when its rebalance timeout is over."""
        turn = self._turn(now_ms)
        group = self.groups.get(request.group_id)
        joining = Joining(
            request,
            version=version,
            client_id=client_id,
            client_host=client_host,
            token=token,
            uuid="" if request.member_id else self._uuid(),
        )
        code = self._check_join(request, group, joining)
        if code is not ErrorCode.NONE:
            turn.reply(token, join_error(request.member_id, code))
            return turn.outcome
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            response = classic_join(group, joining, turn)
            if response is not None:
                turn.reply(token, response)
                return turn.outcome
        classic = self._classic(request.group_id)
        if classic is None:
            if group is not None:  # an empty consumer or streams group gives way
                self._delete_group(group, turn)
            classic = self._create_group(request.group_id, turn)
            turn.record(*classic.new_record())
        join(classic, joining, turn)
        return turn.outcome

    def _check_join(
        self, request: JoinGroupRequest, group: AnyGroup | None, joining: Joining
    ) -> ErrorCode:
        timeout_ms = request.session_timeout
        config = self.config
        if not config.min_session_timeout_ms <= timeout_ms <= config.max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        texts = [request.protocol_type, joining.client_host, joining.new_member_id()]
        texts += [name for name, _ in joining.protocols]
        if not all(map(is_recordable, texts)):
            return ErrorCode.INVALID_REQUEST
        if isinstance(group, ConsumerGroup | StreamsGroup) and group.is_empty:
            group = None
        elif isinstance(group, ConsumerGroup):
            pass  # it takes classic members
        elif group is not None and not isinstance(group, Group):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group is None:
            if request.member_id:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if not request.protocol_type or not request.protocols:
                return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def sync_group(
        self, request: SyncGroupRequest, *, version: int, token: Token, now_ms: int
    ) -> Outcome:
        """Answered when the leader's SyncGroup has come and is stored."""
        turn = self._turn(now_ms)
        group = self.groups.get(request.group_id)
        if version >= _PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
            turn.reply(token, SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif isinstance(group, Group):
            sync(group, request, token, turn)
        else:
            turn.reply(token, self._sync_consumer(group, request, turn))
        return turn.outcome

    def _sync_consumer(
        self, group: AnyGroup | None, request: SyncGroupRequest, turn: Turn
    ) -> SyncGroupResponse:
        code = ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(group, ConsumerGroup):
            try:
                return classic_members.sync(group, request, turn)
            except KafkaError as error:
                code = error.code
        return SyncGroupResponse(error_code=code)

    def heartbeat(self, request: HeartbeatRequest, *, token: Token, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        group = self.groups.get(request.group_id)
        code = ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(group, Group):
            code = heartbeat(group, request, turn)
        elif isinstance(group, ConsumerGroup):
            try:
                code = classic_members.heartbeat(group, request, turn)
            except KafkaError as error:
                code = error.code
        turn.reply(token, HeartbeatResponse(error_code=code))
        return turn.outcome

    def leave_group(
        self, request: LeaveGroupRequest, *, version: int, token: Token, now_ms: int
    ) -> Outcome:
        turn = self._turn(now_ms)
        group = self.groups.get(request.group_id)
        if isinstance(group, Group):
            turn.reply(token, leave(group, request, version, turn))
        elif isinstance(group, ConsumerGroup):
            turn.reply(token, classic_members.leave(group, request, version, turn))
        else:
            identities = leaving(request, version)
            codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(identities)
            turn.reply(token, left(identities, codes, version))
        return turn.outcome

    def consumer_group_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        version: int,
        client_id: str,
        client_host: str,
        token: Token,
        now_ms: int,
    ) -> Outcome:
        """KIP-848: joining, going on and leaving are all one request."""
        turn = self._turn(now_ms)
        response = consumer_heartbeat(
            request,
            version=version,
            member_id=request.member_id or self._uuid(),
            client_id=client_id,
            client_host=client_host,
            turn=turn,
        )
        turn.reply(token, response)
        return turn.outcome

    # -- offsets

    def offset_commit(
        self, request: OffsetCommitRequest, *, version: int, token: Token, now_ms: int
    ) -> Outcome:
        """Every topic of the request has its name and, where it is known, its id."""
        turn = self._turn(now_ms)
        group = self.groups.get(request.group_id)
        code = ErrorCode.NONE
        if group is not None:
            code = group.check_commit(commit_of(request, version, self.topics))
        elif request.generation_id_or_member_epoch < 0:
            group = self._create_group(request.group_id, turn)  # one that only commits
        elif version >= _GROUP_ID_NOT_FOUND_FROM:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        else:
            code = ErrorCode.ILLEGAL_GENERATION
        if group is None or code is not ErrorCode.NONE:
            turn.reply(token, commit_error(request.topics, code))
            return turn.outcome
        if isinstance(group, Group) and group.state in _COMMIT_PROLONGS:
            prolong_session(group, group.members[request.member_id], turn)
        turn.reply(token, self.offsets.commit(request, turn))
        return turn.outcome

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, *, version: int, token: Token, now_ms: int
    ) -> Outcome:
        """As part of the producer's transaction, which the caller knows to be open (KIP-447)."""
        turn = self._turn(now_ms)
        group = self.groups.get(request.group_id)
        code = ErrorCode.NONE
        if group is not None:
            code = group.check_commit(txn_commit_of(request, version, self.topics))
            if code is ErrorCode.STALE_MEMBER_EPOCH and version < _TXN_MEMBER_ERRORS_FROM:
                code = ErrorCode.ILLEGAL_GENERATION
        elif request.generation_id < 0:
            self._create_group(request.group_id, turn)
        elif version >= _TXN_MEMBER_ERRORS_FROM:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        else:
            code = ErrorCode.ILLEGAL_GENERATION
        if code is ErrorCode.NONE:
            turn.reply(token, self.offsets.commit_pending(request, turn))
        else:
            turn.reply(token, txn_commit_error(request.topics, code))
        return turn.outcome

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The marker of this producer's transaction is in the shard's partition."""
        self.offsets.end_transaction(producer_id, commit=commit)

    def offset_fetch(
        self, group_id: str, topics: list[OffsetFetchRequestTopics] | None, *, stable: bool = False
    ) -> list[OffsetFetchResponseTopics]:
        """`None` asks for all that there is. A group that nobody knows has committed nothing."""
        if topics is None:
            return self.offsets.fetch_all(group_id, stable=stable)
        return self.offsets.fetch(group_id, topics, stable=stable)

    def offset_delete(self, request: OffsetDeleteRequest, *, token: Token, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        group = self.groups.get(request.group_id)
        code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()
        if group is None or code is not ErrorCode.NONE:
            turn.reply(token, OffsetDeleteResponse(error_code=code))
        else:
            turn.reply(token, self.offsets.delete(group, request, turn))
        return turn.outcome

    def forget_topic(self, topic: str, topic_id: bytes, *, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        self.offsets.forget_topic(topic, topic_id, turn)
        forget_shared_topic(self.groups, topic_id, turn)
        return turn.outcome

    # -- groups

    def delete_groups(self, group_ids: list[str], *, token: Token, now_ms: int) -> Outcome:
        turn = self._turn(now_ms)
        response = DeleteGroupsResponse()
        for group_id in group_ids:
            group = self.groups.get(group_id)
            code = ErrorCode.NONE
            if group is None:
                code = ErrorCode.GROUP_ID_NOT_FOUND
            elif not group.is_empty:
                code = ErrorCode.NON_EMPTY_GROUP
            else:
                self.offsets.erase_group(group_id, turn)
                self._delete_group(group, turn)
            response.results.append(DeletableGroupResult(group_id, code))
        turn.reply(token, response)
        return turn.outcome

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """KafkaError where a member asks that is not of this group any more (KIP-848)."""
        group = self.groups.get(group_id)
        code = ErrorCode.NONE
        if group is not None:
            code = group.check_fetch(member_id, member_epoch)
        if code is not ErrorCode.NONE:
            raise KafkaError(code)

    def _classic(self, group_id: str) -> Group | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, Group) else None

    def _create_group(self, group_id: str, turn: Turn) -> Group:
        group = Group(group_id, turn.now_ms)
        self.groups[group_id] = group
        turn.undo(lambda undo, code: self._drop_group(group, code, undo))
        return group

    def _delete_group(self, group: AnyGroup, turn: Turn) -> None:
        for key, value in group.tombstones():
            turn.record(key, value)
        del self.groups[group.group_id]
        turn.undo(lambda undo, code: self._keep_group(group))

    def _keep_group(self, group: AnyGroup) -> None:
        self.groups[group.group_id] = group

    def _drop_group(self, group: Group, code: ErrorCode, turn: Turn) -> None:
        """A group that could not be stored never was."""
        self._answer_waiting(group, turn, code)
        for member_id in [*group.members, *group.pending_join]:
            turn.deadlines.cancel(session_key(group, member_id))
        turn.deadlines.cancel(join_key(group))
        turn.deadlines.cancel(sync_key(group))
        del self.groups[group.group_id]

    def _answer_waiting(self, group: Group, turn: Turn, code: ErrorCode) -> None:
        for member in group.members.values():
            answer_join(group, member, turn, member.member_id, code)
            answer_sync(member, turn, SyncGroupResponse(error_code=code))

    # -- outcomes

    def failed(self, outcome: Outcome, code: ErrorCode, *, now_ms: int) -> list[Reply]:
        """Nothing of this outcome could be appended: take its changes back, and say so.

        To be called at once, before any other event, with the code that the append ended in. What
        is not undone is what the next coordinator would find out by itself: that members have left
        or failed. Records that were appended but not committed in time are another matter: they
        may yet be, so the state stays, and only the clients are told (`refused`).
        """
        turn = self._turn(now_ms)
        told = coordinator_code(code)
        for undo in reversed(outcome.undo):
            undo(turn, told)
        assert not turn.outcome.records
        replies = [(token, refused(message, told)) for token, message in outcome.replies]
        return replies + turn.outcome.replies

    def turn(self, now_ms: int) -> Turn:
        """An event for groups that handle their requests themselves."""
        return self._turn(now_ms)

    def _turn(self, now_ms: int) -> Turn:
        return Turn(
            now_ms,
            outcome=Outcome(self.partition),
            deadlines=self._deadlines,
            config=self.config,
            topics=self.topics,
            groups=self.groups,
        )
