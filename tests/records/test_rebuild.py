"""Batches with another payload: recompressed for a topic, or rebuilt by the cleaner."""

from __future__ import annotations

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import (
    BATCH_OVERHEAD,
    AppendOrigin,
    BatchHeader,
    build_batch,
    check_batches,
    read_header,
)
from ottla.records.compression import CODEC_NAMES, NONE, ZSTD
from ottla.records.control import Marker, build_marker
from ottla.records.rebuild import rebuild_batch, recompress
from ottla.records.record import Record, read_payload, read_records

NOW_MS = 1_700_000_000_000
RECORDS = [
    Record(timestamp=NOW_MS + n, key=b"k%d" % n, value=b"v" * 50, headers=[("h", b"x")])
    for n in range(5)
]
KEPT = (
    "base_offset",
    "leader_epoch",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)


def whole(data: bytes) -> BatchHeader:
    [header] = check_batches(data, batch_size_max=1 << 20, origin=AppendOrigin.LEADER)
    return header


@pytest.mark.parametrize("target", range(5))
@pytest.mark.parametrize("source", range(5))
def test_recompress_changes_the_codec_and_nothing_else(source: int, target: int) -> None:
    data = build_batch(
        RECORDS,
        base_offset=100,
        leader_epoch=2,
        compression=source,
        producer_id=4,
        producer_epoch=1,
        base_sequence=30,
        transactional=True,
    )
    before = whole(data)
    out = recompress(b"frame" + data, read_header(b"frame" + data, 5), target)
    if source == target:
        assert out is None
        return
    assert out is not None
    after = whole(out)
    assert after.compression == target
    assert after.transactional
    for name in KEPT:
        assert getattr(after, name) == getattr(before, name), name
    assert read_payload(out, after) == read_payload(data, before)


def test_recompress_leaves_markers_alone() -> None:
    data = build_marker(Marker(True, 1), producer_id=1, producer_epoch=0, timestamp=NOW_MS)
    assert recompress(data, read_header(data), ZSTD) is None


def test_recompress_is_bounded() -> None:
    data = build_batch([Record(value=bytes(1 << 20))], compression=ZSTD)
    with pytest.raises(KafkaError) as caught:
        recompress(data, read_header(data), NONE, size_max=1 << 19)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", range(5), ids=CODEC_NAMES)
def test_rebuild_keeps_offsets_of_the_records_that_stay(codec: int) -> None:
    data = build_batch(
        RECORDS,
        base_offset=100,
        compression=codec,
        producer_id=4,
        producer_epoch=1,
        base_sequence=3,
    )
    before = read_header(data)
    kept = [r for r in read_records(data, before) if r.offset in (101, 103)]
    out = rebuild_batch(before, kept)
    after = whole(out)
    assert read_records(out, after) == kept
    assert (after.base_offset, after.last_offset, after.record_count) == (100, 104, 2)
    assert after.last_sequence == before.last_sequence == 7
    assert after.max_timestamp == NOW_MS + 3
    assert after.compression == codec


def test_rebuild_may_keep_only_the_header() -> None:
    data = build_batch(RECORDS, compression=ZSTD, producer_id=4, producer_epoch=1, base_sequence=3)
    out = rebuild_batch(read_header(data), [])
    after = whole(out)
    assert len(out) == BATCH_OVERHEAD
    assert read_records(out, after) == []
    assert (after.last_offset, after.last_sequence, after.compression) == (4, 7, NONE)
    assert (after.base_timestamp, after.max_timestamp) == (-1, NOW_MS + 4)


def test_rebuild_sets_the_delete_horizon_and_keeps_timestamps() -> None:
    data = build_batch(RECORDS)
    records = read_records(data, read_header(data))
    out = rebuild_batch(read_header(data), records, delete_horizon_ms=NOW_MS + 86_400_000)
    after = whole(out)
    assert after.delete_horizon_ms == NOW_MS + 86_400_000
    assert read_records(out, after) == records
    again = rebuild_batch(after, records[1:])
    assert whole(again).delete_horizon_ms == NOW_MS + 86_400_000
    assert read_records(again, whole(again)) == records[1:]


def test_extreme_timestamps_survive() -> None:
    records = [Record(timestamp=t) for t in (2**63 - 1, -(2**63), 0, -1)]
    data = build_batch(records)
    out = rebuild_batch(
        whole(data), read_records(data, whole(data)), delete_horizon_ms=-(2**63) + 5
    )
    assert [r.timestamp for r in read_records(out, whole(out))] == [r.timestamp for r in records]


def test_rebuild_keeps_the_append_time() -> None:
    data = build_batch(RECORDS, log_append_time_ms=NOW_MS + 999)
    records = read_records(data, read_header(data))
    out = rebuild_batch(read_header(data), records[:1])
    assert whole(out).max_timestamp == NOW_MS + 999
    assert read_records(out, whole(out)) == records[:1]
