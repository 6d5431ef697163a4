"""Appending to a log, and reading what was appended."""

from __future__ import annotations

import dataclasses

import pytest
from storage_kit import (
    NOW,
    PATH,
    append,
    batch,
    close,
    marker,
    open_memory_log,
    read_all,
    values,
    whole_records,
)

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin, build_batch, read_header
from ottla.records.record import Record
from ottla.storage.log import Log, LogConfig
from ottla.storage.open_segment_cache import OpenSegmentCache
from ottla.storage.rewrite import RECORDS_LOOKED_AT_MAX, UNPACKED_SIZE_MAX
from ottla.testing.memory_files import MemoryFiles


def code(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


def test_append_gives_offsets_and_writes_the_bytes_with_offset_and_epoch() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    first = append(log, batch(b"a", b"b"), leader_epoch=4)
    second = append(log, batch(b"c"), leader_epoch=4)
    assert (first.first_offset, first.last_offset, first.record_count) == (0, 1, 2)
    assert (second.first_offset, second.last_offset) == (2, 2)
    assert (log.start_offset, log.end_offset) == (0, 3)
    stored = files.nodes[f"{PATH}/00000000000000000000.log"].data
    assert stored == batch(b"a", b"b", leader_epoch=4) + batch(b"c", base_offset=2, leader_epoch=4)
    assert log.size == len(stored)
    assert values(log) == [b"a", b"b", b"c"]


def test_a_batch_with_a_bad_checksum_is_refused_and_leaves_no_trace() -> None:
    log = open_memory_log()
    data = bytearray(batch(b"a"))
    data[-1] ^= 1
    with pytest.raises(KafkaError) as error:
        append(log, bytes(data))
    assert code(error) is ErrorCode.CORRUPT_MESSAGE
    assert log.end_offset == 0
    assert log.size == 0


def test_a_batch_larger_than_the_topic_allows_is_refused() -> None:
    log = open_memory_log(config=LogConfig(max_message_bytes=100))
    with pytest.raises(KafkaError) as error:
        append(log, batch(b"x" * 100))
    assert code(error) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    log = open_memory_log(config=LogConfig(segment_bytes=100))
    with pytest.raises(KafkaError) as error:
        append(log, batch(b"x" * 100))
    assert code(error) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_timestamp_too_far_ahead_is_refused() -> None:
    log = open_memory_log(config=LogConfig(message_timestamp_after_max_ms=1000))
    append(log, batch(timestamp=NOW + 1000))
    with pytest.raises(KafkaError) as error:
        append(log, batch(timestamp=NOW + 1001))
    assert code(error) is ErrorCode.INVALID_TIMESTAMP
    assert log.end_offset == 1


def test_a_timestamp_too_old_is_refused_where_the_topic_says_so() -> None:
    log = open_memory_log(config=LogConfig(message_timestamp_before_max_ms=1000))
    append(log, batch(timestamp=NOW - 1000))
    with pytest.raises(KafkaError) as error:
        append(log, batch(timestamp=NOW - 1001))
    assert code(error) is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_is_written_into_the_batch() -> None:
    log = open_memory_log(config=LogConfig(message_timestamp_type="LogAppendTime"))
    appended = append(log, batch(b"a", b"b", timestamp=5), now_ms=NOW)
    assert appended.append_time_ms == NOW
    assert [record.timestamp for record in read_all(log)] == [NOW, NOW]
    piece = log.read(0, size_max=1000, end_offset=2)
    assert piece is not None
    assert read_header(piece.read()).log_append_time


def test_a_compacted_topic_needs_keys() -> None:
    log = open_memory_log(config=LogConfig(cleanup_policy=frozenset(("compact",))))
    append(log, batch(b"a"))
    with pytest.raises(KafkaError) as error:
        append(log, build_batch([Record(timestamp=NOW, value=b"v")]))
    assert code(error) is ErrorCode.INVALID_RECORD
    append(log, marker(7, commit=True), origin=AppendOrigin.COORDINATOR)
    assert log.end_offset == 2


def test_the_number_of_inspected_records_is_limited() -> None:
    """A batch of 25 KB with 50,001 records, which would block other clients."""
    log = open_memory_log(config=LogConfig(cleanup_policy=frozenset(("compact",))))
    record = Record(timestamp=NOW, key=b"k", value=b"")
    with pytest.raises(KafkaError) as error:
        append(log, build_batch([record] * (RECORDS_LOOKED_AT_MAX + 1), compression=4))
    assert code(error) is ErrorCode.MESSAGE_TOO_LARGE
    assert log.end_offset == 0


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_decompression_bomb_is_refused(codec: int) -> None:
    log = open_memory_log(config=LogConfig(cleanup_policy=frozenset(("compact",))))
    large = Record(timestamp=NOW, key=b"k", value=bytes(UNPACKED_SIZE_MAX))
    bomb = build_batch([large], compression=codec)
    log.reconfigure(dataclasses.replace(log.config, max_message_bytes=len(bomb)))
    with pytest.raises(KafkaError) as error:
        append(log, bomb)
    assert code(error) is ErrorCode.MESSAGE_TOO_LARGE
    assert log.end_offset == 0


@pytest.mark.parametrize(
    ("name", "codec"), [("uncompressed", 0), ("gzip", 1), ("lz4", 3), ("zstd", 4)]
)
def test_a_topic_may_require_another_compression(name: str, codec: int) -> None:
    log = open_memory_log(config=LogConfig(compression_type=name))
    append(log, batch(b"a" * 500, b"b" * 500, compression=2))
    append(log, batch(b"c"))
    piece = log.read(0, size_max=10_000, end_offset=3)
    assert piece is not None
    assert read_header(piece.read()).compression == codec
    assert values(log) == [b"a" * 500, b"b" * 500, b"c"]


def test_a_repeated_batch_is_answered_with_its_offset_and_not_written() -> None:
    log = open_memory_log()
    data = batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, batch(b"x"))
    append(log, data)
    again = append(log, data)
    assert again.duplicate
    assert (again.first_offset, again.last_offset, again.record_count) == (1, 2, 2)
    assert log.end_offset == 3


def test_read_gives_the_whole_batch_for_an_offset_inside_it() -> None:
    log = open_memory_log()
    append(log, batch(b"a", b"b", b"c"))
    append(log, batch(b"d"))
    piece = log.read(1, size_max=1 << 20, end_offset=4)
    assert piece is not None
    assert [record.value for record in whole_records(piece.read())] == [b"a", b"b", b"c", b"d"]


def test_read_never_goes_beyond_the_end_offset_that_it_is_given() -> None:
    log = open_memory_log()
    for value in (b"a", b"b", b"c", b"d"):
        append(log, batch(value))
    for end in range(5):
        piece = log.read(0, size_max=1 << 20, end_offset=end)
        found = [] if piece is None else [record.value for record in whole_records(piece.read())]
        assert found == [b"a", b"b", b"c", b"d"][:end]


def test_an_end_offset_inside_a_batch_leaves_the_batch_out() -> None:
    log = open_memory_log()
    append(log, batch(b"a"))
    append(log, batch(b"b", b"c"))
    piece = log.read(0, size_max=1 << 20, end_offset=2)
    assert piece is not None
    assert [record.value for record in whole_records(piece.read())] == [b"a"]


def test_the_first_batch_is_given_whole_even_if_it_is_larger_than_asked_for() -> None:
    log = open_memory_log()
    append(log, batch(b"a" * 1000))
    append(log, batch(b"b" * 1000))
    piece = log.read(0, size_max=10, end_offset=2)
    assert piece is not None
    assert [record.value for record in whole_records(piece.read())] == [b"a" * 1000]
    assert log.read(0, size_max=10, end_offset=2, whole_first_batch=False) is None


def test_a_read_stops_at_the_requested_size() -> None:
    log = open_memory_log()
    for _ in range(1000):
        append(log, batch(b"x" * 100))
    piece = log.read(0, size_max=50_000, end_offset=1000)
    assert piece is not None
    assert 45_000 < piece.size <= 50_000


def test_reading_at_the_end_gives_nothing_and_outside_is_an_error() -> None:
    log = open_memory_log()
    append(log, batch(b"a"))
    assert log.read(1, size_max=100, end_offset=1) is None
    for offset in (-1, 2):
        with pytest.raises(KafkaError) as error:
            log.read(offset, size_max=100, end_offset=1)
        assert code(error) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_every_offset_of_a_large_log_is_found_after_reopening() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    for index in range(2000):
        append(log, batch(*[b"%d" % index] * (1 + index % 3)))
    end = log.end_offset
    close(log)
    log = open_memory_log(files)
    assert log.end_offset == end
    for offset in range(0, end, 17):
        piece = log.read(offset, size_max=300, end_offset=end)
        assert piece is not None
        header = read_header(piece.read())
        assert header.base_offset <= offset <= header.last_offset


def test_an_append_after_reopening_continues_the_log() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(b"a"))
    close(log)
    log = open_memory_log(files)
    assert append(log, batch(b"b")).first_offset == 1
    assert values(log) == [b"a", b"b"]


def test_segments_roll_by_size() -> None:
    files = MemoryFiles()
    log = open_memory_log(files, config=LogConfig(segment_bytes=300))
    for index in range(10):
        append(log, batch(b"%d" % index * 50))
    assert len(log.segments) == 5
    assert f"{PATH}/00000000000000000004.log" in files.nodes
    assert f"{PATH}/00000000000000000004.snapshot" in files.nodes
    assert values(log) == [b"%d" % index * 50 for index in range(10)]


def test_a_segment_rolls_when_its_first_record_is_too_old() -> None:
    log = open_memory_log(config=LogConfig(segment_ms=1000))
    append(log, batch(timestamp=NOW))
    append(log, batch(timestamp=NOW + 1000))
    assert len(log.segments) == 1
    append(log, batch(timestamp=NOW + 1001))
    assert len(log.segments) == 2


def test_a_reopened_segment_rolls_by_its_first_record_too() -> None:
    files = MemoryFiles()
    log = open_memory_log(files, config=LogConfig(segment_ms=1000))
    append(log, batch(timestamp=NOW))
    close(log)
    log = open_memory_log(files, config=LogConfig(segment_ms=1000))
    append(log, batch(timestamp=NOW + 1001))
    assert len(log.segments) == 2


def test_without_timestamps_a_segment_rolls_by_its_own_age() -> None:
    log = open_memory_log(config=LogConfig(segment_ms=1000))
    append(log, batch(timestamp=-1))
    append(log, batch(timestamp=-1), now_ms=NOW + 1000)
    assert len(log.segments) == 1
    append(log, batch(timestamp=-1), now_ms=NOW + 1001)
    assert len(log.segments) == 2


def test_jitter_rolls_earlier_and_is_bounded() -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=500)
    log = open_memory_log(config=config)
    append(log, batch(timestamp=NOW))
    rolled_at = next(later for later in range(0, 1100, 10) if _rolled(log, NOW + later))
    assert 500 <= rolled_at <= 1010


def _rolled(log: Log, timestamp: int) -> bool:
    append(log, batch(timestamp=timestamp))
    return len(log.segments) == 2


def test_a_segment_rolls_when_its_index_is_full() -> None:
    log = open_memory_log(config=LogConfig(index_interval_bytes=1, segment_index_bytes=80))
    for index in range(30):
        append(log, batch(timestamp=NOW + index))
    assert len(log.segments) > 1
    for segment in log.segments:
        assert segment.offset_index.file.count() * 8 <= 80
        assert segment.time_index.file.count() * 12 <= 80
    assert len(read_all(log)) == 30


def test_a_new_limit_applies_from_the_next_append() -> None:
    log = open_memory_log()
    append(log, batch(b"a" * 100))
    log.reconfigure(LogConfig(segment_bytes=200))
    append(log, batch(b"b" * 100))
    assert len(log.segments) == 2


def test_few_descriptors_suffice_for_many_segments() -> None:
    open_segments = OpenSegmentCache(files_max=3)
    log = open_memory_log(config=LogConfig(segment_bytes=200), open_segments=open_segments)
    for index in range(50):
        append(log, batch(b"%d" % index * 30))
    assert len(log.segments) > 20
    assert len(read_all(log)) == 50
    assert sum(segment.file is not None for segment in log.segments) <= 3


def test_a_slice_outlives_the_descriptor_and_the_segment() -> None:
    open_segments = OpenSegmentCache(files_max=1)
    config = LogConfig(segment_bytes=200, retention_bytes=0)
    log = open_memory_log(config=config, open_segments=open_segments)
    for index in range(10):
        append(log, batch(b"%d" % index * 30))
    piece = log.read(0, size_max=1000, end_offset=10)
    assert piece is not None
    log.retain(NOW)
    assert log.start_offset == 10
    assert next(iter(whole_records(piece.read()))).value == b"0" * 30


def test_indexes_of_old_segments_are_evicted() -> None:
    open_segments = OpenSegmentCache(index_size_max=200)
    config = LogConfig(segment_bytes=2000, index_interval_bytes=1)
    log = open_memory_log(config=config, open_segments=open_segments)
    for index in range(500):
        append(log, batch(b"%d" % index))
    for offset in range(0, 500, 7):
        log.read(offset, size_max=100, end_offset=500)
    assert open_segments.index_size <= 200 + 2000


def test_leader_epochs_are_remembered() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(), leader_epoch=1)
    append(log, batch(), leader_epoch=1)
    append(log, batch(), leader_epoch=5)
    assert log.epoch_end_offset(1) == (1, 2)
    assert log.epoch_end_offset(5) == (5, 3)
    assert log.epoch_at(1) == 1
    close(log)
    assert open_memory_log(files).epoch_end_offset(1) == (1, 2)


def test_a_follower_keeps_offsets_and_epochs() -> None:
    log = open_memory_log()
    data = batch(b"a", leader_epoch=3) + batch(b"b", base_offset=10, leader_epoch=4)
    torn = batch(b"c", base_offset=11)[:-1]
    appended = log.append_as_follower(memoryview(bytearray(data + torn)), now_ms=NOW)
    assert (appended.first_offset, appended.last_offset) == (0, 10)
    assert log.end_offset == 11
    assert [record.offset for record in read_all(log)] == [0, 10]
    assert log.epochs.entries() == [(3, 0), (4, 10)]
    assert log.size == len(data)


def test_a_follower_accepts_gaps_but_no_earlier_offset() -> None:
    log = open_memory_log()
    log.append_as_follower(memoryview(bytearray(batch(base_offset=500))), now_ms=NOW)
    assert log.end_offset == 501
    with pytest.raises(KafkaError) as error:
        log.append_as_follower(memoryview(bytearray(batch(base_offset=500))), now_ms=NOW)
    assert code(error) is ErrorCode.OFFSET_OUT_OF_RANGE
    piece = log.read(3, size_max=1000, end_offset=501)
    assert piece is not None
    assert read_header(piece.read()).base_offset == 500


def test_a_gap_too_large_for_an_index_starts_a_new_segment() -> None:
    log = open_memory_log()
    log.append_as_follower(memoryview(bytearray(batch(base_offset=1 << 33))), now_ms=NOW)
    assert [segment.base_offset for segment in log.segments] == [1 << 33]
    log.append_as_follower(memoryview(bytearray(batch(base_offset=1 << 34))), now_ms=NOW)
    assert [segment.base_offset for segment in log.segments] == [1 << 33, 1 << 34]


def test_offsets_are_found_by_time() -> None:
    files = MemoryFiles()
    config = LogConfig(segment_bytes=600)
    log = open_memory_log(files, config=config)
    for index in range(30):
        append(log, batch(b"v" * 50, timestamp=NOW + index * 10), leader_epoch=2)
    for _ in range(2):
        assert log.offset_for_time(NOW, end_offset=30) == (0, NOW, 2)
        assert log.offset_for_time(NOW + 95, end_offset=30) == (10, NOW + 100, 2)
        assert log.offset_for_time(NOW + 290, end_offset=30) == (29, NOW + 290, 2)
        assert log.offset_for_time(NOW + 291, end_offset=30) is None
        assert log.offset_for_time(NOW + 290, end_offset=29) is None
        assert log.max_timestamp(end_offset=30) == (29, NOW + 290, 2)
        close(log)
        log = open_memory_log(files, config=config)


def test_a_time_inside_a_batch_finds_its_record() -> None:
    log = open_memory_log()
    records = [Record(timestamp=NOW + index, value=b"v") for index in range(5)]
    append(log, build_batch(records))
    assert log.offset_for_time(NOW + 3, end_offset=5) == (3, NOW + 3, 0)
    log.delete_records(4)
    assert log.offset_for_time(NOW + 3, end_offset=5) == (4, NOW + 4, 0)


def test_the_largest_timestamp_need_not_be_the_last() -> None:
    log = open_memory_log()
    append(log, batch(timestamp=NOW))
    append(log, batch(timestamp=NOW + 100))
    append(log, batch(timestamp=NOW + 50))
    assert log.max_timestamp(end_offset=3) == (1, NOW + 100, 0)
    assert open_memory_log().max_timestamp(end_offset=0) is None


def test_the_largest_timestamp_is_known_after_a_flush_and_a_clean_end() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(timestamp=NOW))
    log.flush(NOW)
    append(log, batch(timestamp=NOW + 100))
    log.flush(NOW)
    close(log)
    assert open_memory_log(files).max_timestamp(end_offset=2) == (1, NOW + 100, 0)


def test_aborted_transactions_are_listed_where_their_marker_is() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    append(log, batch(producer_id=8, producer_epoch=0, base_sequence=0, transactional=True))
    assert log.first_unstable_offset == 0
    producer = log.producer(7)
    assert producer is not None
    assert producer.in_transaction(0)
    assert not producer.in_transaction(1)
    append(log, marker(7, commit=False), origin=AppendOrigin.COORDINATOR)
    assert log.first_unstable_offset == 1
    log.roll(NOW)
    append(log, marker(8, commit=True), origin=AppendOrigin.COORDINATOR)
    assert log.first_unstable_offset is None
    assert log.unstable_offset(3) == 1
    assert log.unstable_offset(4) is None
    assert log.aborted(0, 4) == [(7, 0)]
    assert log.aborted(3, 4) == []
    assert f"{PATH}/00000000000000000000.txnindex" in files.nodes
    close(log)
    assert open_memory_log(files).aborted(0, 4) == [(7, 0)]


def test_producers_are_known_after_a_clean_restart() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    data = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, data)
    close(log)
    log = open_memory_log(files)
    assert append(log, data).duplicate
    with pytest.raises(KafkaError) as error:
        append(log, batch(producer_id=7, producer_epoch=0, base_sequence=5))
    assert code(error) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.expire_producers(NOW + 100_000_000) == 1
    assert log.producers() == []
