"""Kafka frames as plain bytes, built once and sent many times.

The raw load must cost next to nothing per request, or it would measure itself; so it encodes
nothing while it runs. Old, fixed-length layouts are chosen on purpose (Produce v7, ListOffsets v1,
Metadata v4, ApiVersions v0): both brokers serve them, and a reply's size is known beforehand.
Written apart from ottla.wire, so that a fault there cannot hide behind the same fault here.
"""

from __future__ import annotations

import struct
import time

from crc32c import crc32c

CLIENT_ID = b"bench"
CORRELATION_ID = 7

PRODUCE, PRODUCE_VERSION = 0, 7
LIST_OFFSETS, LIST_OFFSETS_VERSION = 2, 1
METADATA, METADATA_VERSION = 3, 4
API_VERSIONS, API_VERSIONS_VERSION = 18, 0

_HEADER = struct.Struct(">hhih")
_BATCH_HEAD = struct.Struct(">qiibI")
_BATCH_TAIL = struct.Struct(">hiqqqhii")


def produce_frame(topic: str, partition: int, *, value: bytes, acks: int = 1) -> bytes:
    """One Produce request that carries one batch of one record without a key."""
    batch = one_record_batch(value)
    name = topic.encode()
    body = (
        struct.pack(">hhii", -1, acks, 30_000, 1)
        + _string(name)
        + struct.pack(">iii", 1, partition, len(batch))
        + batch
    )
    return _frame(PRODUCE, PRODUCE_VERSION, body)


def one_record_batch(value: bytes) -> bytes:
    record = b"\0" + varint(0) + varint(0) + varint(-1) + varint(len(value)) + value + varint(0)
    now_ms = int(time.time() * 1000)
    tail = _BATCH_TAIL.pack(0, 0, now_ms, now_ms, -1, -1, -1, 1) + varint(len(record)) + record
    return _BATCH_HEAD.pack(0, len(tail) + 9, -1, 2, crc32c(tail)) + tail


def produce_reply_size(topic: str) -> int:
    """The whole frame of a reply about one partition, with the four bytes of its length."""
    return 4 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4 + 2 + 8 + 8 + 8 + 4


def produce_error_position(topic: str) -> int:
    """The position of the error code in such a reply."""
    return 4 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4


def produce_error(topic: str, frame: bytes) -> int:
    return int(struct.unpack_from(">h", frame, produce_error_position(topic))[0])


def metadata_frame(topic: str) -> bytes:
    """A Metadata request for one topic, which lets the broker create it."""
    body = struct.pack(">i", 1) + _string(topic.encode()) + b"\1"
    return _frame(METADATA, METADATA_VERSION, body)


def api_versions_frame() -> bytes:
    return _frame(API_VERSIONS, API_VERSIONS_VERSION, b"")


def end_offset_frame(topic: str, partition: int) -> bytes:
    body = (
        struct.pack(">ii", -1, 1) + _string(topic.encode()) + struct.pack(">iiq", 1, partition, -1)
    )
    return _frame(LIST_OFFSETS, LIST_OFFSETS_VERSION, body)


def end_offset(topic: str, frame: bytes) -> int:
    """The offset in a ListOffsets v1 reply about one partition; raises for an error code."""
    at = 4 + 4 + 4 + 2 + len(topic.encode()) + 4
    _, error, _, offset = struct.unpack_from(">ihqq", frame, at)
    if error:
        raise ValueError(f"ListOffsets answered with error {error}")
    return int(offset)


def varint(number: int) -> bytes:
    """A zigzag varint, as in the fields of records."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _string(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def _frame(api_key: int, version: int, body: bytes) -> bytes:
    header = _HEADER.pack(api_key, version, CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(header) + len(body)) + header + body
