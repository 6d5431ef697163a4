"""Consumer groups rebuilt from the last record of each key."""

from __future__ import annotations

from dataclasses import replace

from ottla.coordinator.consumer import records
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import ConsumerGroupMember, PartitionSet
from ottla.coordinator.consumer.records import ConsumerGroupKey, CurrentAssignmentValue
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import READ_ERRORS, MalformedError


class ConsumerGroupReplay:
    """Takes records in any order, as compaction leaves them; `groups` puts them together."""

    __slots__ = ("_currents", "_groups", "_members", "_targets")

    def __init__(self) -> None:
        self._groups: dict[str, ConsumerGroup] = {}
        self._members: dict[str, dict[str, ConsumerGroupMember]] = {}
        self._targets: dict[str, dict[str, PartitionSet]] = {}
        self._currents: dict[str, dict[str, CurrentAssignmentValue]] = {}

    def put(self, key: ConsumerGroupKey, value: bytes) -> None:
        """KafkaError CORRUPT_MESSAGE for a value that cannot be read."""
        try:
            self._put(key, value)
        except (MalformedError, *READ_ERRORS) as error:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"a record of group {key.group_id} has {error}"
            ) from error

    def _put(self, key: ConsumerGroupKey, value: bytes) -> None:
        group_id, name = key.group_id, key.name
        match key.type:
            case records.METADATA:
                metadata = records.read_metadata(value)
                group = self._group(group_id)
                group.epoch, group.metadata_hash = metadata
            case records.MEMBER:
                member = records.read_member(name, value)
                self._members.setdefault(group_id, {})[name] = member
            case records.TARGET:
                target_metadata = records.read_target(value)
                group = self._group(group_id)
                group.target_epoch, group.target_timestamp_ms = target_metadata
            case records.TARGET_MEMBER:
                target = records.read_target_member(value)
                self._targets.setdefault(group_id, {})[name] = target
            case records.CURRENT:
                current = records.read_current(value)
                self._currents.setdefault(group_id, {})[name] = current
            case records.REGEX:
                resolved = records.read_regex(value)
                self._group(group_id).regexes[name] = resolved

    def groups(self) -> dict[str, ConsumerGroup]:
        """A member without a record of what it owns has just joined."""
        for group_id, members in self._members.items():
            group = self._group(group_id)
            targets = self._targets.get(group_id, {})
            currents = self._currents.get(group_id, {})
            for member_id, member in members.items():
                current = currents.get(member_id)
                if current is not None:
                    member = replace(
                        member,
                        member_epoch=current.member_epoch,
                        previous_epoch=current.previous_epoch,
                        state=current.state,
                        assigned=current.assigned,
                        revoking=current.revoking,
                    )
                group.swap(member_id, member)
                if member_id in targets:
                    group.targets[member_id] = targets[member_id]
        return self._groups

    def _group(self, group_id: str) -> ConsumerGroup:
        return self._groups.setdefault(group_id, ConsumerGroup(group_id))
