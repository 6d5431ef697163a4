"""Online migration of a group: from classic to consumer, and back (KIP-848).

The first member that joins a classic group by ConsumerGroupHeartbeat converts it to a consumer
group, in which the classic members stay, with their assignments. When the last member with the new
protocol leaves, the group is converted back. group.consumer.migration.policy allows either or both.
"""

from __future__ import annotations

from collections.abc import Set

from ottla.coordinator.classic.group import ClassicGroup, ClassicGroupState
from ottla.coordinator.classic.member import ClassicGroupMember
from ottla.coordinator.classic.rebalance import (
    join_key,
    prepare_rebalance,
    prolong_session,
    reply_to_join,
    reply_to_sync,
    session_key,
    sync_key,
)
from ottla.coordinator.consumer import records
from ottla.coordinator.consumer.consumer_protocol import (
    consumer_protocol_version,
    read_assignment,
    read_subscription,
    write_assignment,
)
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import ClassicMemberMetadata, ConsumerGroupMember
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.group_type import CONSUMER, metadata_hash
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import MalformedError
from ottla.wire.messages.sync_group import SyncGroupResponse

# -- classic to consumer


def convert_to_consumer_group(classic: ClassicGroup, event: GroupEvent) -> ConsumerGroup:
    """KafkaError, before anything has changed, if this group cannot be converted."""
    _check_upgrade(classic, event)
    try:
        group = _converted(classic, event)
    except MalformedError as error:
        raise _cannot(classic, "the embedded consumer protocol is malformed") from error
    for member in classic.members.values():
        code = ErrorCode.REBALANCE_IN_PROGRESS
        reply_to_join(classic, member, event, member.member_id, code)
        reply_to_sync(member, event, SyncGroupResponse(error_code=code))
    for member_id in classic.pending_join:
        event.timer.cancel(session_key(classic, member_id))
    event.timer.cancel(join_key(classic))
    event.timer.cancel(sync_key(classic))
    for record in [*classic.tombstones(), *_all_records(group)]:
        event.record(*record)
    for converted in group.members.values():
        group.prolong(converted, event)
    event.groups[group.group_id] = group
    event.undo(lambda undo, code: _restore_classic(classic, undo))
    return group


def _check_upgrade(classic: ClassicGroup, event: GroupEvent) -> None:
    config = event.config.consumer
    if not config.upgrades:
        raise _cannot(classic, "online upgrade is disabled")
    if classic.protocol_type != CONSUMER:
        raise _cannot(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > config.max_size:
        raise _cannot(classic, "the group exceeds the consumer group maximum size")


def _cannot(classic: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}.",
    )


def _converted(classic: ClassicGroup, event: GroupEvent) -> ConsumerGroup:
    group = ConsumerGroup(classic.group_id)
    epoch = classic.generation
    for old in classic.members.values():
        subscription = read_subscription(_metadata(classic, old))
        target = read_assignment(old.assignment, event.topics)
        member = ConsumerGroupMember(
            old.member_id,
            member_epoch=epoch,
            previous_epoch=epoch,
            instance_id=old.group_instance_id,
            rack_id=subscription.rack_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            topics=frozenset(subscription.topics),
            classic=ClassicMemberMetadata(old.session_timeout_ms, old.protocols),
            assigned={
                partition: epoch for partition in sorted(target) if partition not in group.owners
            },
        )
        group.swap(old.member_id, member)
        group.targets[old.member_id] = target
    group.epoch = group.target_epoch = epoch
    group.metadata_hash = metadata_hash(group.subscribed_names(), event.topics)
    return group


def _metadata(classic: ClassicGroup, member: ClassicGroupMember) -> bytes:
    """A member that joined since the last generation need not support its chosen protocol."""
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


def _restore_classic(classic: ClassicGroup, event: GroupEvent) -> None:
    """The conversion could not be stored: restore the classic group, whose members rejoin."""
    event.groups[classic.group_id] = classic
    for member in classic.members.values():
        prolong_session(classic, member, event)
    classic.pending_join.clear()
    if not classic.members:  # only new members were joining: it is empty, which is stored soon
        event.timer.schedule(join_key(classic), event.now_ms)
    elif classic.state in (
        ClassicGroupState.PREPARING_REBALANCE,
        ClassicGroupState.COMPLETING_REBALANCE,
    ):
        classic.state = ClassicGroupState.STABLE
        prepare_rebalance(classic, event)


# -- consumer to classic


def may_downgrade(group: ConsumerGroup, leaving: Set[str], event: GroupEvent) -> bool:
    """True if only classic members would stay, and the migration policy allows a downgrade."""
    left = len(group.members) - len(leaving)
    if left <= 0 or not event.config.consumer.downgrades or left > event.config.max_size:
        return False
    going = sum(group.members[member_id].classic is not None for member_id in leaving)
    return group.classic_count - going == left


def convert_to_classic_group(
    group: ConsumerGroup, leaving: Set[str], event: GroupEvent
) -> ClassicGroup:
    """The classic group of the members that stay. They have to rejoin, because others left."""
    for record in group.tombstones():
        event.record(*record)
    for member_id in group.members:
        group.cancel_timers(member_id, event)
    classic = ClassicGroup(group.group_id, event.now_ms)
    for member in group.members.values():
        if member.member_id not in leaving:
            classic.add(_classic_member(group, member, event), CONSUMER)
    classic.generation = group.epoch
    classic.protocol_name = classic.select_protocol()
    classic.subscribed_topics = classic.find_subscribed_topics()
    classic.state = ClassicGroupState.STABLE
    event.record(*classic.record())
    for classic_member in classic.members.values():
        prolong_session(classic, classic_member, event)
    event.groups[group.group_id] = classic
    event.undo(lambda undo, code: _restore_consumer(group, classic, undo, code))
    prepare_rebalance(classic, event)
    return classic


def _classic_member(
    group: ConsumerGroup, member: ConsumerGroupMember, event: GroupEvent
) -> ClassicGroupMember:
    assert member.classic is not None
    protocols = member.classic.protocols
    return ClassicGroupMember(
        member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=protocols,
        assignment=write_assignment(
            group.target_of(member.member_id),
            event.topics,
            consumer_protocol_version(protocols[0][1]),
        ),
    )


def _restore_consumer(
    group: ConsumerGroup, classic: ClassicGroup, event: GroupEvent, code: ErrorCode
) -> None:
    """The conversion could not be stored: restore the consumer group.

    The only request that waits in the classic group is that of the member whose join converted it.
    """
    for member in classic.members.values():
        reply_to_join(classic, member, event, member.member_id, code)
    event.timer.cancel(join_key(classic))
    event.groups[group.group_id] = group
    group.start(event)
