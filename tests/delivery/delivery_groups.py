"""`__consumer_offsets` read back: the assignments of each generation, and the committed offsets.

Kafka's record formats (keys 0 and 1 offsets, 2 classic groups, 8 a member of KIP-848) are decoded
here independently of the broker, as far as the checks need them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from delivery_log import COMMIT, Batch, Record

OFFSET_KEYS, GROUP_KEY, MEMBER_KEY = (0, 1), 2, 8
Owned = tuple[bytes, int]
"""A topic's name (classic) or id (KIP-848), and a partition of it."""


@dataclass(slots=True)
class GroupLog:
    """The history of the groups, in the order of the log."""

    offsets: dict[tuple[str, str, int], list[int]] = field(default_factory=dict)
    """By group, topic and partition: every offset that took effect; -1 where it was removed."""
    generations: list[tuple[str, int, dict[str, list[Owned]]]] = field(default_factory=list)
    """Classic: group, generation, and each member's assignment."""
    holders: dict[tuple[str, Owned], set[str]] = field(default_factory=dict)
    """KIP-848: the members that have this partition (assigned, or pending revocation)."""
    shared: list[str] = field(default_factory=list)
    """KIP-848: each moment at which two members had a partition."""
    epochs: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """KIP-848: the epochs of each member."""

    def read(self, batches: Iterable[Batch]) -> GroupLog:
        pending: dict[int, list[Record]] = {}
        for batch in batches:
            if batch.marker is not None:
                ended = pending.pop(batch.producer_id, [])
                for record in ended if batch.marker == COMMIT else []:
                    self._take(record)
            elif batch.transactional:
                pending.setdefault(batch.producer_id, []).extend(batch.records)
            else:
                for record in batch.records:
                    self._take(record)
        return self

    def _take(self, record: Record) -> None:
        assert record.key is not None
        (kind,) = struct.unpack_from(">h", record.key)
        if kind in OFFSET_KEYS:
            key = Reader(record.key, 2)
            place = key.text(), key.text(), key.number(">i")
            offset = -1 if record.value is None else struct.unpack_from(">hq", record.value)[1]
            self.offsets.setdefault(place, []).append(offset)
        elif kind == GROUP_KEY and record.value is not None:
            group = Reader(record.key, 2).text()
            generation, members = classic_members(record.value)
            self.generations.append((group, generation, members))
        elif kind == MEMBER_KEY:
            key = Reader(record.key, 2)
            self._member(key.text(), key.text(), record)

    def _member(self, group: str, member: str, record: Record) -> None:
        for holders in self.holders.values():
            holders.discard(member)
        if record.value is None:
            self.epochs.pop((group, member), None)
            return
        epoch, held = current_assignment(record.value)
        self.epochs.setdefault((group, member), []).append(epoch)
        for partition in held:
            holders = self.holders.setdefault((group, partition), set())
            holders.add(member)
            if len(holders) > 1:
                names = ", ".join(sorted(holders))
                self.shared.append(f"offset {record.offset}: {group} gives {partition} to {names}")


class Reader:
    """Fields of a record, one after another."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def number(self, form: str) -> int:
        value: int = struct.unpack_from(form, self.data, self.position)[0]
        self.position += struct.calcsize(form)
        return value

    def bytes(self, size: int) -> bytes:
        self.position += size
        return self.data[self.position - size : self.position]

    def text(self) -> str:
        size = self.number(">h")
        return self.bytes(size).decode() if size >= 0 else ""

    def uvarint(self) -> int:
        shift = value = 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def skip_tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self.bytes(self.uvarint())


def classic_members(value: bytes) -> tuple[int, dict[str, list[Owned]]]:
    """GroupMetadataValue v0 to v3: the generation, and each member's partitions."""
    reader = Reader(value)
    version = reader.number(">h")
    assert version <= 3, f"GroupMetadataValue v{version}"
    reader.text()  # protocol type
    generation = reader.number(">i")
    reader.text()  # protocol
    reader.text()  # leader
    if version >= 2:
        reader.number(">q")
    members: dict[str, list[Owned]] = {}
    for _ in range(reader.number(">i")):
        name = reader.text()
        if version >= 3:
            reader.text()  # group.instance.id
        reader.text()
        reader.text()  # client id and host
        reader.number(">i")
        if version >= 1:
            reader.number(">i")
        reader.bytes(reader.number(">i"))  # subscription
        members[name] = classic_assignment(reader.bytes(reader.number(">i")))
    return generation, members


def classic_assignment(data: bytes) -> list[Owned]:
    """ConsumerProtocolAssignment."""
    if not data:
        return []
    reader = Reader(data, 2)
    owned: list[Owned] = []
    for _ in range(reader.number(">i")):
        topic = reader.text().encode()
        owned += [(topic, reader.number(">i")) for _ in range(reader.number(">i"))]
    return owned


def current_assignment(value: bytes) -> tuple[int, list[Owned]]:
    """ConsumerGroupCurrentMemberAssignmentValue: the epoch and the member's partitions."""
    reader = Reader(value, 2)
    epoch = reader.number(">i")
    reader.number(">i")  # previous epoch
    reader.number(">b")  # state
    held: list[Owned] = []
    for _ in range(2):  # assigned, and pending revocation
        for _ in range(reader.uvarint() - 1):
            topic = reader.bytes(16)
            held += [(topic, reader.number(">i")) for _ in range(reader.uvarint() - 1)]
            reader.skip_tags()
    return epoch, held
