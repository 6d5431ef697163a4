"""The raw load's frames, read back by kio and by a socket pair."""

from __future__ import annotations

import socket
import threading

import pytest
from crc32c import crc32c

from benchmarks import frames, raw_load


def test_produce_frame_is_what_kio_reads() -> None:
    from kio.schema.produce.v7.request import ProduceRequest
    from kio.serial import entity_reader

    frame = frames.produce_frame("topic", 3, value=b"x" * 100)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header_size = 4 + 2 + 2 + 4 + 2 + len(frames.CLIENT_ID)
    request, size = entity_reader(ProduceRequest)(frame, header_size)
    assert header_size + size == len(frame)
    assert request.acks == 1
    assert request.topic_data[0].name == "topic"
    assert request.topic_data[0].partition_data[0].index == 3
    records = request.topic_data[0].partition_data[0].records
    assert records is not None
    assert records.endswith(b"x" * 100 + frames.varint(0))


def test_batch_has_a_right_size_and_checksum() -> None:
    batch = frames.one_record_batch(b"value")
    assert int.from_bytes(batch[8:12], "big") == len(batch) - 12
    assert int.from_bytes(batch[17:21], "big") == crc32c(batch[21:])
    assert batch.endswith(frames.varint(5) + b"value" + frames.varint(0))


def test_error_code_and_size_of_a_produce_reply_are_found() -> None:
    reply = produce_reply("topic", error=6)
    assert len(reply) == frames.produce_reply_size("topic")
    assert frames.produce_error("topic", reply) == 6


def test_end_offset_refuses_an_error() -> None:
    assert frames.end_offset("topic", offsets_reply("topic", error=0, offset=42)) == 42
    with pytest.raises(ValueError, match="error 3"):
        frames.end_offset("topic", offsets_reply("topic", error=3, offset=-1))


def test_varints_are_zigzag() -> None:
    assert [frames.varint(n) for n in (0, -1, 1, -64, 64)] == [
        b"\x00",
        b"\x01",
        b"\x02",
        b"\x7f",
        b"\x80\x01",
    ]


def test_percentile_is_the_nearest_rank() -> None:
    ordered = list(range(1, 1001))
    assert raw_load.percentile(ordered, 0.5) == 501
    assert raw_load.percentile(ordered, 0.999) == 1000
    assert raw_load.percentile([], 0.5) == 0.0


def test_lane_counts_whole_chunks_however_the_bytes_arrive() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        lane = raw_load.LoadConnection(ours, "t", 0, 2, b"v")
        lane.send()
        replies = produce_reply("t", error=0) * 2
        theirs.sendall(replies[:7])
        assert lane.receive() == 0
        theirs.sendall(replies[7:])
        assert lane.receive() == 1
        assert lane.done()


def test_call_reads_one_whole_reply() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reply = produce_reply("t", error=0)
        answering = threading.Thread(target=lambda: (theirs.recv(100), theirs.sendall(reply)))
        answering.start()
        assert raw_load.call(ours, b"request") == reply
        answering.join()


def produce_reply(topic: str, *, error: int) -> bytes:
    body = (
        (7).to_bytes(4, "big")
        + (1).to_bytes(4, "big")
        + len(topic).to_bytes(2, "big")
        + topic.encode()
        + (1).to_bytes(4, "big")
        + (0).to_bytes(4, "big")
        + error.to_bytes(2, "big")
        + bytes(8 + 8 + 8 + 4)
    )
    return len(body).to_bytes(4, "big") + body


def offsets_reply(topic: str, *, error: int, offset: int) -> bytes:
    body = (
        (7).to_bytes(4, "big")
        + (1).to_bytes(4, "big")
        + len(topic).to_bytes(2, "big")
        + topic.encode()
        + (1).to_bytes(4, "big")
        + (0).to_bytes(4, "big")
        + error.to_bytes(2, "big")
        + bytes(8)
        + offset.to_bytes(8, "big", signed=True)
    )
    return len(body).to_bytes(4, "big") + body
