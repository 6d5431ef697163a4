"""A group changes its kind while its members go on: classic to consumer, and back (KIP-848).

The first ConsumerGroupHeartbeat that wants to join a classic group makes a consumer group of it, in
which its members stay as they are, with what they were assigned. When the last member that speaks
the new protocol goes, what is left becomes a classic group again. group.consumer.migration.policy
says which of the two may happen.
"""

from __future__ import annotations

from collections.abc import Set

from ottla.coordinator.consumer import records
from ottla.coordinator.consumer.embedded import (
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import ClassicProtocol, ConsumerMember
from ottla.coordinator.consumer.subscription import hash_of
from ottla.coordinator.group import Group, State
from ottla.coordinator.kinds import CONSUMER
from ottla.coordinator.member import Member
from ottla.coordinator.outcome import Turn
from ottla.coordinator.rebalance import (
    answer_join,
    answer_sync,
    join_key,
    prepare_rebalance,
    prolong_session,
    session_key,
    sync_key,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.sync_group import SyncGroupResponse
from ottla.wire.primitives import MalformedError

# -- classic to consumer


def upgrade(classic: Group, turn: Turn) -> ConsumerGroup:
    """KafkaError, and nothing has changed, if this group cannot become a consumer group."""
    _check_upgrade(classic, turn)
    try:
        group = _converted(classic, turn)
    except MalformedError as error:
        raise _cannot(classic, "the embedded consumer protocol is malformed") from error
    for member in classic.members.values():
        code = ErrorCode.REBALANCE_IN_PROGRESS
        answer_join(classic, member, turn, member.member_id, code)
        answer_sync(member, turn, SyncGroupResponse(error_code=code))
    for member_id in classic.pending_join:
        turn.deadlines.cancel(session_key(classic, member_id))
    turn.deadlines.cancel(join_key(classic))
    turn.deadlines.cancel(sync_key(classic))
    for record in [*classic.tombstones(), *_all_records(group)]:
        turn.record(*record)
    for each in group.members.values():
        group.prolong(each, turn)
    turn.groups[group.group_id] = group
    turn.undo(lambda undo, code: _restore_classic(classic, undo))
    return group


def _check_upgrade(classic: Group, turn: Turn) -> None:
    config = turn.config.consumer
    if not config.upgrades:
        raise _cannot(classic, "online upgrade is disabled")
    if classic.protocol_type != CONSUMER:
        raise _cannot(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > config.max_size:
        raise _cannot(classic, "the group exceeds the consumer group maximum size")


def _cannot(classic: Group, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}.",
    )


def _converted(classic: Group, turn: Turn) -> ConsumerGroup:
    group = ConsumerGroup(classic.group_id)
    epoch = classic.generation
    for old in classic.members.values():
        subscription = read_subscription(_metadata(classic, old))
        target = read_assignment(old.assignment, turn.topics)
        member = ConsumerMember(
            old.member_id,
            member_epoch=epoch,
            previous_epoch=epoch,
            instance_id=old.group_instance_id,
            rack_id=subscription.rack_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            topics=frozenset(subscription.topics),
            classic=ClassicProtocol(old.session_timeout_ms, old.protocols),
            assigned={each: epoch for each in sorted(target) if each not in group.owners},
        )
        group.swap(old.member_id, member)
        group.targets[old.member_id] = target
    group.epoch = group.target_epoch = epoch
    group.metadata_hash = hash_of(group.subscribed_names(), turn.topics)
    return group


def _metadata(classic: Group, member: Member) -> bytes:
    """Who came since the last generation need not speak the protocol that was chosen for it."""
    for name, metadata in member.protocols:
        if name == classic.protocol_name:
            return metadata
    return member.protocols[0][1]


def _all_records(group: ConsumerGroup) -> list[tuple[bytes, bytes | None]]:
    """The whole group, in the order in which Kafka writes it."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(records.member_record(group_id, member) for member in members),
        records.metadata_record(group_id, group.epoch, group.metadata_hash),
        *(
            records.target_member_record(group_id, member.member_id, target)
            for member in members
            for target in [group.target_of(member.member_id)]
        ),
        records.target_record(group_id, group.target_epoch, group.target_timestamp_ms),
        *(records.current_record(group_id, member) for member in members),
    ]


def _restore_classic(classic: Group, turn: Turn) -> None:
    """It could not be stored: the group is what it was, and whoever waited joins again."""
    turn.groups[classic.group_id] = classic
    for member in classic.members.values():
        prolong_session(classic, member, turn)
    classic.pending_join.clear()
    if not classic.members:  # it waited for those alone; that it is empty now is stored in its time
        turn.deadlines.set(join_key(classic), turn.now_ms)
    elif classic.state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE):
        classic.state = State.STABLE
        prepare_rebalance(classic, turn)


# -- consumer to classic


def may_downgrade(group: ConsumerGroup, leaving: Set[str], turn: Turn) -> bool:
    """Whether only members that speak the classic protocol would be left, and that is allowed."""
    left = len(group.members) - len(leaving)
    if left <= 0 or not turn.config.consumer.downgrades or left > turn.config.max_size:
        return False
    going = sum(group.members[each].classic is not None for each in leaving)
    return group.classic_count - going == left


def downgrade(group: ConsumerGroup, leaving: Set[str], turn: Turn) -> Group:
    """The classic group of those who stay. They are asked to rejoin, as somebody left."""
    for record in group.tombstones():
        turn.record(*record)
    for member_id in group.members:
        group.cancel_timers(member_id, turn)
    classic = Group(group.group_id, turn.now_ms)
    for member in group.members.values():
        if member.member_id not in leaving:
            classic.add(_classic_member(group, member, turn), CONSUMER)
    classic.generation = group.epoch
    classic.protocol_name = classic.select_protocol()
    classic.subscribed_topics = classic.find_subscribed_topics()
    classic.state = State.STABLE
    turn.record(*classic.record())
    for each in classic.members.values():
        prolong_session(classic, each, turn)
    turn.groups[group.group_id] = classic
    turn.undo(lambda undo, code: _restore_consumer(group, classic, undo, code))
    prepare_rebalance(classic, turn)
    return classic


def _classic_member(group: ConsumerGroup, member: ConsumerMember, turn: Turn) -> Member:
    assert member.classic is not None
    protocols = member.classic.protocols
    return Member(
        member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=protocols,
        assignment=write_assignment(
            group.target_of(member.member_id), turn.topics, version_of(protocols[0][1])
        ),
    )


def _restore_consumer(group: ConsumerGroup, classic: Group, turn: Turn, code: ErrorCode) -> None:
    """It could not be stored: the group is what it was. Who already waits in the classic one is the
    member whose coming made it."""
    for member in classic.members.values():
        answer_join(classic, member, turn, member.member_id, code)
    turn.deadlines.cancel(join_key(classic))
    turn.groups[group.group_id] = group
    group.start(turn)
