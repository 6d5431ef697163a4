"""The records of MirrorMaker's internal topics, byte for byte."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from ottla.client.record import TopicPartition

FORMAT_VERSION: Final = 0
SHORT: Final = struct.Struct(">h")
INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")


class OffsetSync(NamedTuple):
    """Source records before offset `upstream` are before offset `downstream` in the target."""

    partition: TopicPartition  # in the source
    upstream: int
    downstream: int

    def key(self) -> bytes:
        return _string(self.partition.topic) + INT.pack(self.partition.partition)

    def value(self) -> bytes:
        return LONG.pack(self.upstream) + LONG.pack(self.downstream)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> OffsetSync:
        topic, at = _read_string(key, 0)
        (partition,) = INT.unpack_from(key, at)
        (upstream,), (downstream,) = LONG.unpack_from(value, 0), LONG.unpack_from(value, 8)
        return cls(TopicPartition(topic, partition), upstream, downstream)


class MirrorCheckpoint(NamedTuple):
    """The committed offset of a group, in the source and translated to the target."""

    group: str
    partition: TopicPartition  # in the target
    upstream: int
    downstream: int
    metadata: str = ""

    def key(self) -> bytes:
        partition = _string(self.partition.topic) + INT.pack(self.partition.partition)
        return _string(self.group) + partition

    def value(self) -> bytes:
        offsets = LONG.pack(self.upstream) + LONG.pack(self.downstream)
        return SHORT.pack(FORMAT_VERSION) + offsets + _string(self.metadata)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> MirrorCheckpoint:
        group, at = _read_string(key, 0)
        topic, at = _read_string(key, at)
        (partition,) = INT.unpack_from(key, at)
        (upstream,), (downstream,) = LONG.unpack_from(value, 2), LONG.unpack_from(value, 10)
        metadata, _ = _read_string(value, 18)
        return cls(group, TopicPartition(topic, partition), upstream, downstream, metadata)


class MirrorHeartbeat(NamedTuple):
    source: str
    target: str
    timestamp_ms: int

    def key(self) -> bytes:
        return _string(self.source) + _string(self.target)

    def value(self) -> bytes:
        return SHORT.pack(FORMAT_VERSION) + LONG.pack(self.timestamp_ms)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> MirrorHeartbeat:
        source, at = _read_string(key, 0)
        target, _ = _read_string(key, at)
        return cls(source, target, LONG.unpack_from(value, 2)[0])


def _string(text: str) -> bytes:
    data = text.encode()
    return SHORT.pack(len(data)) + data


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    (size,) = SHORT.unpack_from(data, at)
    return data[at + 2 : at + 2 + size].decode(), at + 2 + size
