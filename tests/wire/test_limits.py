"""Counts that a message may claim: Kafka 4.4's limits (CVE-2026-111108, CVE-2026-111115)."""

from __future__ import annotations

import struct
import time
import tracemalloc

import pytest

from ottla.wire.apis import APIS, ApiKey
from ottla.wire.connection import (
    FRAME_BYTES_MAX_OF_OTHERS,
    LARGE_REQUESTS,
    READ_BYTES_MAX,
    Connection,
    ProtocolError,
    UnreadBody,
)
from ottla.wire.fields import (
    ARRAY_COUNT_MAX,
    STRING_BYTES_MAX,
    TAG_COUNT_MAX,
    MalformedError,
    Writer,
    read_compact_count,
    read_compact_string,
    read_count,
    read_tag_count,
    skip_tags,
    write_uvarint,
)
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

SOCKET_REQUEST_MAX_BYTES = 100 * 1024 * 1024


def uvarint(value: int) -> bytes:
    buffer = bytearray()
    write_uvarint(buffer, value)
    return bytes(buffer)


def test_cve_2026_111108_arrays_have_at_most_a_million_elements() -> None:
    room = bytes(ARRAY_COUNT_MAX + 10)
    most = struct.pack(">i", ARRAY_COUNT_MAX)
    assert read_count(most + room, 0) == (ARRAY_COUNT_MAX, 4)
    assert read_compact_count(uvarint(ARRAY_COUNT_MAX + 1) + room, 0)[0] == ARRAY_COUNT_MAX
    for read, data in (
        (read_count, struct.pack(">i", ARRAY_COUNT_MAX + 1)),
        (read_compact_count, uvarint(ARRAY_COUNT_MAX + 2)),
    ):
        with pytest.raises(MalformedError):
            read(data + room, 0)


def test_cve_2026_111115_a_structure_has_at_most_ten_thousand_tagged_fields() -> None:
    tags = b"".join(uvarint(number) + b"\0" for number in range(TAG_COUNT_MAX + 1))
    assert read_tag_count(uvarint(TAG_COUNT_MAX), 0)[0] == TAG_COUNT_MAX
    skip_tags(uvarint(TAG_COUNT_MAX) + tags, 0)
    with pytest.raises(MalformedError):
        skip_tags(uvarint(TAG_COUNT_MAX + 1) + tags, 0)


def test_strings_have_at_most_32767_bytes() -> None:
    text, _ = read_compact_string(uvarint(STRING_BYTES_MAX + 1) + b"x" * STRING_BYTES_MAX, 0)
    assert len(text) == STRING_BYTES_MAX
    with pytest.raises(MalformedError):
        read_compact_string(uvarint(STRING_BYTES_MAX + 2) + b"x" * (STRING_BYTES_MAX + 1), 0)


def test_known_tagged_fields_are_counted_too() -> None:
    writer = Writer()
    FetchRequest().write(writer, 16)
    assert writer.buffer[-1] == 0  # no tagged fields
    tags = b"".join(uvarint(number + 100) + b"\0" for number in range(TAG_COUNT_MAX + 1))
    data = bytes(writer.buffer[:-1]) + uvarint(TAG_COUNT_MAX + 1) + tags
    with pytest.raises(MalformedError):
        FetchRequest.read(data, 0, 16)


def frame(api_key: int, version: int, body: bytes, size: int | None = None) -> bytes:
    header = struct.pack(">hhih", api_key, version, 1, -1)
    real = len(header) + len(body)
    return struct.pack(">i", real if size is None else size) + header + body


def connection() -> Connection:
    served = {int(key): (api.version_min, api.version_max) for key, api in APIS.items()}
    return Connection(served, frame_bytes_max=SOCKET_REQUEST_MAX_BYTES)


def feed(wire: Connection, data: bytes) -> None:
    position = 0
    while position < len(data):
        room = wire.get_buffer(65536)
        count = min(len(room), len(data) - position)
        room[:count] = data[position : position + count]
        wire.received(count)
        position += count
        while (request := wire.next_request()) is not None:
            if isinstance(request.body, UnreadBody):
                request.body.read()


def test_twenty_million_empty_names_are_refused_at_the_first_bytes() -> None:
    """One request of 40 MB blocked every other client for 19.7 s, and took 1.6 GB."""
    head = frame(ApiKey.METADATA, 1, struct.pack(">i", 20_000_000), size=40_000_014)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="40000014 bytes for API 3"):
            feed(connection(), head)
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()


def test_as_many_names_as_fit_are_refused_by_their_count() -> None:
    count = (FRAME_BYTES_MAX_OF_OTHERS - 100) // 2
    data = frame(ApiKey.METADATA, 1, struct.pack(">i", count) + bytes(2 * count))
    began = time.thread_time()
    with pytest.raises(ProtocolError, match="a length or count of"):
        feed(connection(), data)
    assert time.thread_time() - began < 1  # reading them all would take several seconds


def test_requests_whose_bulk_is_bytes_may_be_large() -> None:
    for key in APIS:
        wire = connection()
        start = frame(key, APIS[key].version_max, b"", size=FRAME_BYTES_MAX_OF_OTHERS + 1)
        if key in LARGE_REQUESTS:
            feed(wire, start)
        else:
            with pytest.raises(ProtocolError, match="are the most"):
                feed(wire, start)


def test_a_large_request_is_parsed_later_with_the_same_result() -> None:
    names = [MetadataRequestTopic(name=f"topic-{number}") for number in range(10_000)]
    request = MetadataRequest(topics=names)
    writer = Writer()
    request.write(writer, 9)
    data = frame(ApiKey.METADATA, 9, b"\0" + bytes(writer.buffer))
    assert len(data) > READ_BYTES_MAX
    wire = connection()
    room = wire.get_buffer(len(data))
    while data:
        count = min(len(room), len(data))
        room[:count] = data[:count]
        wire.received(count)
        data = data[count:]
        found = wire.next_request()
        room = wire.get_buffer(len(data))
    assert found is not None
    room[:] = bytes(len(room))  # its bytes are its own
    assert isinstance(found.body, UnreadBody)
    assert found.body.read() == request


@pytest.mark.parametrize("version", [8, 13])
@pytest.mark.parametrize(
    ("topics", "partitions", "fits"),
    [
        (1, 3_999, True),
        (1, 4_000, False),
        (100, 39, True),
        (100, 40, False),
        (4_001, 0, False),
    ],
)
def test_the_number_of_partitions_of_a_produce_is_limited(
    version: int, topics: int, partitions: int, fits: bool
) -> None:
    data = [PartitionProduceData(index) for index in range(partitions)]
    request = ProduceRequest(topic_data=[TopicProduceData(partition_data=data)] * topics)
    writer = Writer()
    request.write(writer, version)
    if fits:
        assert ProduceRequest.read(bytes(writer.buffer), 0, version)[0] == request
    else:
        with pytest.raises(MalformedError):
            ProduceRequest.read(bytes(writer.buffer), 0, version)


def test_a_request_within_the_limits_is_read() -> None:
    writer = Writer()
    MetadataRequest(topics=[]).write(writer, 9)
    feed(connection(), frame(ApiKey.METADATA, 9, b"\0" + bytes(writer.buffer)))
