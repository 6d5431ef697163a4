"""Batch headers: what is read, what is refused and with which code, what is written in place."""

from __future__ import annotations

import struct

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import (
    BATCH_OVERHEAD,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    ZSTD,
    AppendOrigin,
    BatchHeader,
    build_batch,
    check_batches,
    patch,
    read_header,
    rewrite_timestamps,
    uses_zstd,
    write_batch,
)
from ottla.records.checksum import crc32c
from ottla.records.record import Record, read_records

SIZE_MAX = 1_048_588
NOW_MS = 1_700_000_000_000
RECORDS = [Record(timestamp=NOW_MS + n, key=b"k%d" % n, value=b"v" * n) for n in range(3)]

FIELDS = {  # name: (position, format)
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "record_count": (57, ">i"),
}


def changed(data: bytes, **fields: int) -> bytes:
    """`data` with other header fields, and a checksum that is right for them."""
    out = bytearray(data)
    for name, value in fields.items():
        position, layout = FIELDS[name]
        struct.pack_into(layout, out, position, value)
    struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


def refused(
    data: bytes, origin: AppendOrigin = AppendOrigin.CLIENT, size_max: int = SIZE_MAX
) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        check_batches(data, batch_size_max=size_max, origin=origin)
    return caught.value.code


def taken(data: bytes, origin: AppendOrigin) -> list[BatchHeader]:
    return check_batches(data, batch_size_max=SIZE_MAX, origin=origin)


def test_check_gives_the_header_of_a_good_batch() -> None:
    data = build_batch(RECORDS, producer_id=7, producer_epoch=2, base_sequence=40)
    [header] = check_batches(data, batch_size_max=SIZE_MAX)
    assert (header.position, header.size, header.magic) == (0, len(data), 2)
    assert (header.base_offset, header.last_offset, header.next_offset) == (0, 2, 3)
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS + 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 40)
    assert header.has_producer
    assert header.last_sequence == 42
    assert header.record_count == 3
    assert header.crc == crc32c(data[21:])
    assert not header.control
    assert not header.transactional
    assert not header.log_append_time
    assert header.delete_horizon_ms is None


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_check_reads_any_buffer(kind: type[bytes]) -> None:
    data = build_batch(RECORDS)
    assert len(check_batches(kind(data), batch_size_max=SIZE_MAX)) == 1


def test_check_reads_a_slice_in_the_middle_of_a_frame() -> None:
    data = build_batch(RECORDS)
    frame = memoryview(b"head" + data + b"tail")[4 : 4 + len(data)]
    assert check_batches(frame, batch_size_max=SIZE_MAX)[0].size == len(data)


def test_check_refuses_a_bad_checksum() -> None:
    data = bytearray(build_batch(RECORDS))
    data[-1] ^= 1
    assert refused(bytes(data)) is ErrorCode.CORRUPT_MESSAGE


def test_check_refuses_an_empty_payload() -> None:
    assert refused(b"") is ErrorCode.INVALID_RECORD
    assert refused(b"", AppendOrigin.COORDINATOR) is ErrorCode.INVALID_RECORD
    assert taken(b"", AppendOrigin.LEADER) == []


def test_check_refuses_two_batches_of_a_client_only() -> None:
    data = build_batch(RECORDS)
    second = build_batch(RECORDS, base_offset=3)
    assert refused(data + data) is ErrorCode.INVALID_RECORD
    for origin in (AppendOrigin.COORDINATOR, AppendOrigin.LEADER):
        headers = taken(data + second, origin)
        assert [h.position for h in headers] == [0, len(data)]
        assert [h.base_offset for h in headers] == [0, 3]


def test_check_refuses_a_torn_batch_but_drops_a_leaders() -> None:
    data = build_batch(RECORDS)
    for cut in (1, 16, 17, 60, 61, len(data) - 1):
        assert refused(data[:cut]) is ErrorCode.CORRUPT_MESSAGE
        assert refused(data + data[:cut], AppendOrigin.COORDINATOR) is ErrorCode.CORRUPT_MESSAGE
        assert [h.size for h in taken(data + data[:cut], AppendOrigin.LEADER)] == [len(data)]


def test_check_reports_a_torn_tail_after_a_whole_batch() -> None:
    assert refused(build_batch(RECORDS) + b"\0" * 9) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("origin", list(AppendOrigin))
def test_check_refuses_old_magic(magic: int, origin: AppendOrigin) -> None:
    data = changed(build_batch(RECORDS), magic=magic)
    assert refused(data, origin) is ErrorCode.INVALID_RECORD


def test_check_recognises_an_old_message_shorter_than_a_batch_header() -> None:
    message = struct.pack(">qiIbbqi", 0, 26, 0, 1, 0, NOW_MS, -1) + struct.pack(">i", 4) + b"data"
    assert len(message) < BATCH_OVERHEAD
    assert refused(message) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [-1, 3, 127])
def test_check_refuses_unknown_magic(magic: int) -> None:
    assert refused(changed(build_batch(RECORDS), magic=magic)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-(2**31), -13, -12, -1, 0, 48])
@pytest.mark.parametrize("origin", list(AppendOrigin))
def test_check_refuses_a_size_below_a_header(length: int, origin: AppendOrigin) -> None:
    assert (
        refused(changed(build_batch(RECORDS), length=length), origin) is ErrorCode.CORRUPT_MESSAGE
    )


def test_check_refuses_a_batch_above_the_limit_before_its_checksum() -> None:
    data = build_batch(RECORDS)
    assert check_batches(data, batch_size_max=len(data))
    assert refused(data, size_max=len(data) - 1) is ErrorCode.MESSAGE_TOO_LARGE
    assert refused(data[:-1] + b"?", size_max=len(data) - 1) is ErrorCode.MESSAGE_TOO_LARGE
    assert check_batches(data, batch_size_max=1, origin=AppendOrigin.LEADER)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_check_refuses_an_unknown_codec(codec: int) -> None:
    data = changed(build_batch(RECORDS), attributes=codec)
    for origin in AppendOrigin:
        assert refused(data, origin) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(("count", "delta"), [(0, -1), (0, 0), (-1, -2), (3, 3), (2, 2), (4, 2)])
def test_check_refuses_counts_that_contradict_each_other(count: int, delta: int) -> None:
    data = changed(build_batch(RECORDS), record_count=count, last_offset_delta=delta)
    assert refused(data) is ErrorCode.INVALID_RECORD
    assert refused(data, AppendOrigin.COORDINATOR) is ErrorCode.INVALID_RECORD


def test_check_accepts_a_compacted_batch_from_a_leader() -> None:
    data = changed(build_batch(RECORDS), record_count=0, last_offset_delta=9)
    assert taken(data, AppendOrigin.LEADER)[0].next_offset == 10


@pytest.mark.parametrize(("count", "delta"), [(1, -1), (-1, 0), (2**31 - 1, -(2**31))])
def test_check_refuses_negative_counts_of_a_leader(count: int, delta: int) -> None:
    data = changed(build_batch(RECORDS), record_count=count, last_offset_delta=delta)
    assert refused(data, AppendOrigin.LEADER) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "fields",
    [
        {"base_offset": 1},
        {"attributes": CONTROL_BIT},
        {"attributes": CONTROL_BIT | TRANSACTIONAL_BIT, "producer_id": 1, "producer_epoch": 0},
        {"attributes": TRANSACTIONAL_BIT},
        {"producer_id": 0},
        {"producer_id": 5, "producer_epoch": 0},
        {"producer_id": 5, "base_sequence": 0},
    ],
)
def test_check_refuses_control_batches_of_clients(fields: dict[str, int]) -> None:
    data = changed(build_batch(RECORDS), **fields)
    assert refused(data) is ErrorCode.INVALID_RECORD
    assert taken(data, AppendOrigin.COORDINATOR)
    assert taken(data, AppendOrigin.LEADER)


@pytest.mark.parametrize("base_offset", [-1, -(2**63), 2**63 - 1, 2**63 - 3])
def test_check_refuses_offsets_of_a_leader_that_have_no_room(base_offset: int) -> None:
    """The checksum does not cover the base offset: a flipped bit on a disk goes unnoticed."""
    data = build_batch(RECORDS, base_offset=base_offset)
    assert refused(data, AppendOrigin.LEADER) is ErrorCode.CORRUPT_MESSAGE
    assert refused(data) is ErrorCode.INVALID_RECORD
    assert taken(build_batch(RECORDS, base_offset=2**63 - 4), AppendOrigin.LEADER)


def test_check_refuses_a_client_that_sets_log_append_time() -> None:
    data = build_batch(RECORDS, log_append_time_ms=NOW_MS)
    assert refused(data) is ErrorCode.INVALID_TIMESTAMP
    assert taken(data, AppendOrigin.LEADER)[0].log_append_time


def test_read_header_refuses_sizes_that_lead_to_no_next_batch() -> None:
    data = build_batch(RECORDS)
    for bad, position in (
        (data[:60], 0),
        (data, 1 + len(data) - BATCH_OVERHEAD),
        (data, -1),
        (bytes(100), 0),  # what a preallocated segment ends in
        (changed(data, length=48), 0),
        (changed(data, magic=1), 0),
    ):
        with pytest.raises(KafkaError) as caught:
            read_header(bad, position)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_read_header_does_not_need_the_records() -> None:
    data = build_batch(RECORDS, base_offset=77, leader_epoch=4)
    header = read_header(b"junk" + data[:BATCH_OVERHEAD], 4)
    assert (header.position, header.base_offset, header.leader_epoch) == (4, 77, 4)
    assert header.size == len(data)


def test_last_sequence_wraps_to_zero() -> None:
    data = build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert read_header(data).last_sequence == 0
    assert read_header(build_batch(RECORDS)).last_sequence == -1


def test_delete_horizon_stands_in_the_base_timestamp() -> None:
    header = read_header(changed(build_batch(RECORDS), attributes=DELETE_HORIZON_BIT))
    assert header.delete_horizon_ms == NOW_MS


def test_uses_zstd_looks_at_the_attributes_only() -> None:
    assert uses_zstd(build_batch(RECORDS, compression=ZSTD))
    assert not uses_zstd(build_batch(RECORDS, compression=3))
    assert not uses_zstd(b"")
    assert not uses_zstd(b"\x04" * 22)


def test_patch_keeps_the_checksum_valid() -> None:
    data = bytearray(b"xx" + build_batch(RECORDS))
    patch(memoryview(data), 2, 2**40, 9)
    header = read_header(data, 2)
    assert (header.base_offset, header.leader_epoch) == (2**40, 9)
    assert header.crc == crc32c(data[23:])
    assert [r.offset for r in read_records(data, header)] == [2**40, 2**40 + 1, 2**40 + 2]


def test_rewrite_timestamps_gives_every_record_the_append_time() -> None:
    data = bytearray(build_batch(RECORDS, compression=ZSTD) + b"tail")
    rewrite_timestamps(memoryview(data), 0, NOW_MS + 500)
    [header] = taken(bytes(data), AppendOrigin.LEADER)
    assert header.log_append_time
    assert header.max_timestamp == NOW_MS + 500
    assert header.base_timestamp == NOW_MS
    assert header.compression == ZSTD
    assert {r.timestamp for r in read_records(data, header)} == {NOW_MS + 500}
    assert data.endswith(b"tail")


def test_build_batch_sets_the_given_fields() -> None:
    data = build_batch(
        RECORDS,
        base_offset=10,
        leader_epoch=3,
        producer_id=5,
        producer_epoch=1,
        base_sequence=8,
        transactional=True,
        control=True,
        log_append_time_ms=NOW_MS + 9,
    )
    header = read_header(data)
    assert header.attributes == TRANSACTIONAL_BIT | CONTROL_BIT | LOG_APPEND_TIME_BIT
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (10, 3, 12)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 8)
    assert header.max_timestamp == NOW_MS + 9


def test_build_needs_a_record() -> None:
    with pytest.raises(ValueError):
        build_batch([])


def test_build_finds_the_largest_timestamp() -> None:
    records = [Record(timestamp=t) for t in (5, 9, -1, 7)]
    header = read_header(build_batch(records))
    assert (header.base_timestamp, header.max_timestamp) == (5, 9)


def test_header_shows_its_fields() -> None:
    assert "record_count=3" in repr(read_header(build_batch(RECORDS)))


@pytest.mark.parametrize("codec", [0, 1])
def test_a_count_that_the_bytes_cannot_hold_is_refused(codec: int) -> None:
    header = read_header(build_batch([Record(value=b"a"), Record(value=b"b")], compression=codec))
    empty = write_batch(header, b"")
    with pytest.raises(KafkaError, match="2 records in 0 bytes") as caught:
        check_batches(empty, batch_size_max=1000)
    assert caught.value.code is ErrorCode.INVALID_RECORD
