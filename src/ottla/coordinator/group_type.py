"""The types of groups that a shard can hold, and what it calls on each of them.

A group id names one group, whatever its type: classic (the members agree among themselves),
consumer (KIP-848: the coordinator assigns), share (KIP-932: members share partitions) or streams
(KIP-1071: the coordinator assigns the tasks of a Kafka Streams application). Offsets, deletion,
listing and expiry belong to the shard; it calls the group for what differs by type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.coordinator.classic.group import ClassicGroup
    from ottla.coordinator.group_event import GroupEvent
    from ottla.coordinator.result import RecordBytes

GroupType: TypeAlias = Literal["classic", "consumer", "share", "streams"]

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"


class TopicMetadata(NamedTuple):
    """What an assignor needs to know of a topic."""

    id: bytes
    partition_count: int


class TopicsImage:
    """The topics of the cluster at one moment. Immutable: a later image is another object."""

    __slots__ = ("by_name", "names")

    def __init__(self, by_name: Mapping[str, TopicMetadata] | None = None) -> None:
        self.by_name: Mapping[str, TopicMetadata] = by_name or {}
        self.names: Mapping[bytes, str] = {view.id: name for name, view in self.by_name.items()}


NO_TOPICS_IMAGE: Final = TopicsImage()


def metadata_hash(names: Iterable[str], topics: TopicsImage) -> int:
    """A number that changes when any of these topics does, as far as they exist. 0: none does.

    Kafka's is another function. A group that comes from there has its epoch raised once.
    """
    known = sorted((name, topics.by_name[name]) for name in names if name in topics.by_name)
    if not known:
        return 0
    digest = blake2b(digest_size=8)
    for name, view in known:
        digest.update(name.encode() + b"\0" + view.id + view.partition_count.to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)


class OffsetCommit(NamedTuple):
    """A member that commits offsets; `epoch` is a generation or a member's epoch.

    `partitions` yields topic and index of each, for the types of groups that look at them.
    """

    member_id: str
    group_instance_id: str | None
    epoch: int
    version: int
    transactional: bool
    partitions: Callable[[], Iterable[tuple[str, int]]]
    topics: TopicsImage = NO_TOPICS_IMAGE


class ModernGroup(Protocol):
    """What the shard calls on a group whose assignments the coordinator computes."""

    @property
    def kind(self) -> GroupType: ...

    @property
    def group_id(self) -> str: ...

    @property
    def state_name(self) -> str:
        """As ListGroups says it."""

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def is_empty(self) -> bool:
        """True if it has no members; only then can it be deleted."""

    # -- offsets

    def check_commit(self, commit: OffsetCommit) -> ErrorCode: ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode: ...

    def check_offset_delete(self) -> ErrorCode: ...

    def subscribes(self, topic: str) -> bool: ...

    def expiry_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """When the retention of an offset began; None if it does not expire at the moment."""

    # -- life cycle

    def tombstones(self) -> Iterable[RecordBytes]:
        """The records that delete this group, without its offsets."""

    def start(self, event: GroupEvent) -> None:
        """It was loaded: start the sessions of its members."""

    def stop(self, event: GroupEvent, code: ErrorCode) -> None:
        """It is unloaded: reply to waiting requests with this code, and cancel its timers."""

    def expire(self, what: str, member_id: str, event: GroupEvent) -> None:
        """The timer (what, group id, member id) is due."""


Group: TypeAlias = "ClassicGroup | ModernGroup"
G = TypeVar("G")


def find_group(
    groups: Mapping[str, Group],
    group_id: str,
    group_class: type[G],
    group_type: GroupType,
    *,
    word: str = "Group",
) -> G:
    """The group; GROUP_ID_NOT_FOUND, in Kafka's words, if there is none of this type."""
    group = groups.get(group_id)
    if isinstance(group, group_class):
        return group
    why = f"{word} {group_id} not found."
    if group is not None:
        why = f"Group {group_id} is not a {group_type} group."
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, why)
