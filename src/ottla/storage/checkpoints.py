"""The small text files of a log directory, in Kafka's formats.

    recovery-point-offset-checkpoint   per partition: everything below this offset is on the disk
    log-start-offset-checkpoint        per partition: the log starts here, inside a segment
    replication-offset-checkpoint      per partition: the high watermark
    cleaner-offset-checkpoint          per partition: compacted up to here
    leader-epoch-checkpoint            in a partition's directory: epoch, first offset
    partition.metadata                 in a partition's directory: the topic id
    meta.properties                    which cluster and which broker the directory belongs to
    .kafka_cleanshutdown               everything was written before the process ended

A checkpoint is a version (0), a count, and that many lines. Any other file raises `DamagedError`,
and the caller does without it: a bit may have flipped, or the end may be missing.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"

VERSION = 0
META_VERSION = 1

TopicPartition = tuple[str, int]


class DamagedError(Exception):
    """A file does not contain the bytes that were written."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Whose directory this is. `directory_id` tells a broker's directories apart (KIP-858)."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None = None


def write_offset_checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _write_lines(
        [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    )


def read_offset_checkpoint(data: bytes) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for line in _read_lines(data):
        fields = line.split()
        if len(fields) != 3:
            raise DamagedError(f"{line!r} is not a topic, a partition and an offset")
        offsets[fields[0], _number(fields[1])] = _number(fields[2])
    return offsets


def write_epoch_checkpoint(epochs: Sequence[tuple[int, int]]) -> bytes:
    return _write_lines([f"{epoch} {start_offset}" for epoch, start_offset in epochs])


def read_epoch_checkpoint(data: bytes) -> list[tuple[int, int]]:
    """(epoch, start offset), which must both rise from line to line."""
    epochs: list[tuple[int, int]] = []
    for line in _read_lines(data):
        fields = line.split()
        if len(fields) != 2:
            raise DamagedError(f"{line!r} is not an epoch and an offset")
        entry = (_number(fields[0]), _number(fields[1]))
        if epochs and (entry[0] <= epochs[-1][0] or entry[1] < epochs[-1][1]):
            raise DamagedError(f"{line!r} does not follow {epochs[-1]}")
        epochs.append(entry)
    return epochs


def write_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: {VERSION}\ntopic_id: {uuid_text(topic_id)}".encode()


def read_partition_metadata(data: bytes) -> bytes:
    """The topic id, as 16 bytes."""
    fields = {}
    for line in _text(data).splitlines():
        name, colon, value = line.partition(": ")
        if not colon:
            raise DamagedError(f"{line!r} is not a name and a value")
        fields[name] = value
    if fields.get("version") != str(VERSION) or "topic_id" not in fields:
        raise DamagedError("not version 0 with a topic_id")
    return uuid_bytes(fields["topic_id"])


def write_meta_properties(meta: MetaProperties) -> bytes:
    fields = {"cluster.id": meta.cluster_id, "directory.id": meta.directory_id}
    if meta.node_id is not None:
        fields["node.id"] = str(meta.node_id)
    fields["version"] = str(META_VERSION)
    lines = ["#", *(f"{name}={value}" for name, value in fields.items() if value is not None)]
    return ("\n".join(lines) + "\n").encode()


def read_meta_properties(data: bytes) -> MetaProperties:
    """Reads version 1, and version 0 from ZooKeeper days, which says broker.id for node.id."""
    fields = {}
    for line in _text(data).splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            name, equals, value = line.partition("=")
            if not equals:
                raise DamagedError(f"{line!r} is not a property")
            fields[name.strip()] = value.strip()
    if fields.get("version", "0") not in ("0", "1"):
        raise DamagedError(f"unknown version {fields['version']!r}")
    node_id = fields.get("node.id", fields.get("broker.id"))
    return MetaProperties(
        cluster_id=fields.get("cluster.id"),
        node_id=None if node_id is None else _number(node_id),
        directory_id=fields.get("directory.id"),
    )


def write_clean_shutdown(broker_epoch: int = -1) -> bytes:
    return f'{{"version":{VERSION},"brokerEpoch":{broker_epoch}}}'.encode()


def random_uuid() -> bytes:
    """A UUID of version 4 whose text has no leading dash: Kafka's tools take that for an option."""
    while True:
        uuid = bytearray(os.urandom(16))
        uuid[6] = uuid[6] & 0x0F | 0x40
        uuid[8] = uuid[8] & 0x3F | 0x80
        if not uuid_text(uuid).startswith("-"):
            return bytes(uuid)


def uuid_text(uuid: bytes | bytearray) -> str:
    """Kafka writes a UUID as 22 letters of base64."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    try:
        uuid = base64.b64decode(text.encode() + b"==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise DamagedError(f"{text!r} is not a UUID: {error}") from None
    if len(uuid) != 16:
        raise DamagedError(f"{text!r} is not a UUID")
    return uuid


def _write_lines(lines: list[str]) -> bytes:
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode()


def _read_lines(data: bytes) -> list[str]:
    """An empty file was created and never written: it has no lines."""
    if not data:
        return []
    text = _text(data)
    lines = text.split("\n")
    if lines.pop() != "":
        raise DamagedError("the last line has no end")
    if not lines or _number(lines[0]) != VERSION:
        raise DamagedError("not version 0")
    if len(lines) < 2 or _number(lines[1]) != len(lines) - 2:
        raise DamagedError("the count is not that of the lines")
    return lines[2:]


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DamagedError(f"not text: {error.reason}") from None


def _number(text: str) -> int:
    if not text.isascii() or not text.removeprefix("-").isdigit():
        raise DamagedError(f"{text[:40]!r} is not a number")
    number = int(text[:20])
    if len(text) > 20 or not -(1 << 63) <= number < 1 << 63:
        raise DamagedError(f"{text[:40]!r} is too large")
    return number
