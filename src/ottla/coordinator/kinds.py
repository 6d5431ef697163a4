"""The kinds of groups that a shard can hold, and what it asks of every one of them.

A group id names one group, whatever its kind: classic (its members agree among themselves),
consumer (KIP-848: the coordinator assigns), share (KIP-932: members share partitions) or streams
(KIP-1071: the coordinator assigns the tasks of a Kafka Streams application). Offsets, deletion,
listing and expiry are the shard's; what differs by kind is asked of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from ottla.coordinator.group import Group
    from ottla.coordinator.outcome import RecordBytes, Turn
    from ottla.errors import ErrorCode

Kind: TypeAlias = Literal["classic", "consumer", "share", "streams"]

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"


class TopicView(NamedTuple):
    """As much of a topic as assigning its partitions takes."""

    id: bytes
    partition_count: int


class Topics:
    """The topics of the cluster at one moment. Immutable: another image has other `Topics`."""

    __slots__ = ("by_name", "names")

    def __init__(self, by_name: Mapping[str, TopicView] | None = None) -> None:
        self.by_name: Mapping[str, TopicView] = by_name or {}
        self.names: Mapping[bytes, str] = {view.id: name for name, view in self.by_name.items()}


NO_TOPICS: Final = Topics()


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Of what is known about these topics; another partition makes it another number."""
    known = sorted((name, topics.by_name[name]) for name in names if name in topics.by_name)
    if not known:
        return 0
    digest = blake2b(digest_size=8)
    for name, view in known:
        digest.update(name.encode() + b"\0" + view.id + view.partition_count.to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)


class Commit(NamedTuple):
    """Who commits offsets, as which member; `epoch` is a generation or a member's epoch.

    `partitions` gives topic and index of each, to the kind of group that looks at them.
    """

    member_id: str
    group_instance_id: str | None
    epoch: int
    version: int
    transactional: bool
    partitions: Callable[[], Iterable[tuple[str, int]]]
    topics: Topics = NO_TOPICS


class ModernGroup(Protocol):
    """What the shard asks of a group whose assignments are the coordinator's."""

    @property
    def kind(self) -> Kind: ...

    @property
    def group_id(self) -> str: ...

    @property
    def state_name(self) -> str:
        """The word that ListGroups uses."""

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members; only then can it be deleted."""

    # -- offsets

    def check_commit(self, commit: Commit) -> ErrorCode: ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode: ...

    def check_offset_delete(self) -> ErrorCode: ...

    def subscribes(self, topic: str) -> bool: ...

    def expiry_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """From when the retention of an offset counts; None: it does not at the moment."""

    # -- its life in the shard

    def tombstones(self) -> Iterable[RecordBytes]:
        """The records that delete this group, without its offsets."""

    def start(self, turn: Turn) -> None:
        """It was loaded: members' sessions begin anew."""

    def stop(self, turn: Turn, code: ErrorCode) -> None:
        """It is gone from here: answer whoever waits with this code, cancel its deadlines."""

    def expire(self, what: str, member_id: str, turn: Turn) -> None:
        """The deadline (what, group id, member id) is over."""


AnyGroup: TypeAlias = "Group | ModernGroup"
