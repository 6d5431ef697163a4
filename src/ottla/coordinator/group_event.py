"""An event of the group coordinator, with what groups of every type look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.result import CoordinatorEvent
from ottla.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.coordinator.classic.group import GroupCoordinatorConfig
    from ottla.coordinator.group_type import Group, TopicsImage
    from ottla.coordinator.timer import CoordinatorTimer


class GroupEvent(CoordinatorEvent):
    """`groups` are those of the shard, where one group may take the place of another."""

    __slots__ = ("config", "groups", "topics")

    def __init__(
        self,
        now_ms: int,
        *,
        partition: int,
        timer: CoordinatorTimer,
        config: GroupCoordinatorConfig,
        topics: TopicsImage,
        groups: dict[str, Group],
    ) -> None:
        super().__init__(now_ms, partition=partition, timer=timer)
        self.config = config
        self.topics = topics
        self.groups = groups

    def put_group(self, group: Group) -> None:
        """A new group, in the place of one that has just been deleted if there is one."""
        group_id = group.group_id
        before = self.groups.get(group_id)
        self.groups[group_id] = group

        def take_back(undo: GroupEvent, code: ErrorCode) -> None:
            if before is None:
                del undo.groups[group_id]
            else:
                undo.groups[group_id] = before

        self.undo(take_back)
