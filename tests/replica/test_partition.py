"""One partition: visible records, woken waiters, known epochs."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin, build_batch, check_batches
from ottla.records.control import Marker, build_marker
from ottla.records.record import Record
from ottla.replica.partition import READ_COMMITTED, READ_UNCOMMITTED, LogReadResult, Partition
from ottla.replica.watchers import Watchers
from ottla.storage.log import LogConfig
from ottla.storage.store import LogStore
from ottla.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


def partition(files: MemoryFiles | None = None) -> Partition:
    store = LogStore.open(["/data"], LogConfig(), NOW_MS, files=files or MemoryFiles())
    log = store.create("t", 0, TOPIC_ID, now_ms=NOW_MS)
    return Partition("t", 0, topic_id=TOPIC_ID, leader_epoch=0, log=log)


def batch(value: bytes = b"v", **more: int | bool) -> memoryview:
    record = Record(timestamp=NOW_MS, key=b"k", value=value)
    return memoryview(bytearray(build_batch([record], **more)))  # type: ignore[arg-type]


def read(
    held: Partition,
    offset: int,
    size_max: int = 1 << 20,
    isolation: int = READ_UNCOMMITTED,
    whole: bool = True,
) -> LogReadResult:
    return held.read(offset, size_max=size_max, isolation=isolation, whole_first_batch=whole)


def test_appended_records_are_committed_and_visible() -> None:
    held = partition()
    for number in range(3):
        assert held.append(batch(), NOW_MS).first_offset == number
        assert held.high_watermark == number + 1
    found = read(held, 1)
    assert found.records is not None
    assert found.records.size == 2 * len(batch())
    assert (found.high_watermark, found.last_stable_offset, found.start_offset) == (3, 3, 0)
    assert found.aborted is None


def test_a_reopened_partition_keeps_its_high_watermark() -> None:
    held = partition()
    held.append(batch(), NOW_MS)
    again = Partition("t", 0, topic_id=TOPIC_ID, leader_epoch=0, log=held.log)
    assert again.high_watermark == 1


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_without_room_nothing_is_read(offset: int) -> None:
    files = MemoryFiles()
    held = partition(files)
    for _ in range(2):
        held.append(batch(), NOW_MS)
    files.fail("pread")  # not even a look at the file
    for size_max in (0, -1):
        assert read(held, offset, size_max, whole=False).records is None


def test_without_room_the_first_batch_is_read_whole() -> None:
    held = partition()
    for _ in range(2):
        held.append(batch(), NOW_MS)
    found = read(held, 0, 0, whole=True).records
    assert found is not None
    assert found.size == len(batch())
    assert read(held, 0, 1, whole=False).records is None


@pytest.mark.parametrize("size_max", [0, 1 << 20])
@pytest.mark.parametrize("offset", [-1, 1, 5])
def test_an_unknown_offset_is_out_of_range_with_or_without_room(offset: int, size_max: int) -> None:
    held = partition()
    for _ in range(4):
        held.append(batch(), NOW_MS)
    held.delete_records(2, NOW_MS)
    with pytest.raises(KafkaError) as caught:
        read(held, offset, size_max, whole=False)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_readers_of_committed_records_stop_at_an_open_transaction() -> None:
    held = partition()
    held.append(batch(), NOW_MS)
    open_ = batch(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    held.append(open_, NOW_MS)
    held.append(batch(), NOW_MS)
    assert (held.high_watermark, held.last_stable_offset) == (3, 1)
    found = read(held, 0, isolation=READ_COMMITTED)
    assert found.records is not None
    assert found.records.size == len(batch())
    assert (found.last_stable_offset, found.aborted) == (1, [])
    assert read(held, 1, isolation=READ_COMMITTED).records is None
    marker = build_marker(Marker(False, 0), producer_id=5, producer_epoch=0, timestamp=NOW_MS)
    view = memoryview(bytearray(marker))
    held.log.append(view, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    held.append(batch(), NOW_MS)
    assert held.last_stable_offset == 5
    assert read(held, 0, isolation=READ_COMMITTED).aborted == [(5, 1)]


def test_cut_reads_and_older_segments_are_reported() -> None:
    held = partition()
    for _ in range(3):
        held.append(batch(), NOW_MS)
    whole, cut = read(held, 0).records, read(held, 0, 2 * len(batch())).records
    assert whole is not None
    assert cut is not None
    assert not held.is_cut(whole, READ_UNCOMMITTED)
    assert held.is_cut(cut, READ_UNCOMMITTED)
    assert not held.is_behind(0)
    held.log.roll(NOW_MS)
    held.append(batch(), NOW_MS)
    assert held.is_behind(2)
    assert not held.is_behind(3)


def test_epochs() -> None:
    held = partition()
    held.leader_epoch = 2
    held.append(batch(), NOW_MS)
    held.leader_epoch = 4
    assert held.epoch_end_offset(2) == (2, 1)
    assert held.epoch_end_offset(4) == (4, 1)  # it has no records yet
    assert held.epoch_end_offset(5) == (-1, -1)
    for known, expected in (
        (-1, None),
        (4, None),
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        if expected is None:
            held.check_epoch(known)
            continue
        with pytest.raises(KafkaError) as caught:
            held.check_epoch(known)
        assert caught.value.code is expected


def test_deleted_records_move_the_start_and_their_files_are_removed_later() -> None:
    held = partition()
    for _ in range(2):
        held.append(batch(), NOW_MS)
        held.log.roll(NOW_MS)
    assert held.delete_records(-1, NOW_MS) == 2
    held.append(batch(), NOW_MS)
    assert read(held, 2).start_offset == 2
    for offset in (4, -2):
        with pytest.raises(KafkaError) as caught:
            held.delete_records(offset, NOW_MS)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    delay_ms = held.log.config.file_delete_delay_ms
    assert held.log.dir.take_due(NOW_MS + delay_ms - 1) == []
    assert held.log.dir.take_due(NOW_MS + delay_ms)


def test_a_failed_append_changes_nothing_and_wakes_no_waiter() -> None:
    files = MemoryFiles()
    held = partition(files)
    held.append(batch(), NOW_MS)
    woken: list[int] = []
    held.waiting.add(woken.append)
    files.fail("pwrite", error=errno.ENOSPC)
    with pytest.raises(KafkaError) as caught:
        held.append(batch(), NOW_MS)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (held.high_watermark, woken) == (1, [])
    files.heal()
    held.append(batch(), NOW_MS)
    assert (held.high_watermark, woken) == (2, [len(batch())])


def test_a_batch_above_the_topics_limit_is_refused() -> None:
    held = partition()
    held.log.reconfigure(replace(held.log.config, max_message_bytes=100))
    with pytest.raises(KafkaError) as caught:
        held.append(batch(bytes(200)), NOW_MS)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


# Waiting


def test_waiters_are_called_in_order() -> None:
    waiting = Watchers()
    called: list[str] = []
    calls = [lambda _, name=name: called.append(name) for name in "abc"]
    for call in calls:
        waiting.add(call)
    waiting.add(calls[0])  # a second cancel is harmless
    assert len(waiting) == 3
    waiting.wake_all()
    assert called == ["a", "b", "c"]
    waiting.discard(calls[1])
    waiting.discard(calls[1])
    waiting.wake_all()
    assert called == ["a", "b", "c", "a", "c"]


def test_waiters_may_be_added_and_removed_by_callbacks() -> None:
    waiting = Watchers()
    called: list[str] = []

    def leave(size: int) -> None:
        called.append("leave")
        waiting.discard(leave)
        waiting.add(newcomer)

    def newcomer(size: int) -> None:
        called.append("newcomer")

    waiting.add(leave)
    waiting.wake_all()
    assert called == ["leave"]
    waiting.wake_all()
    assert called == ["leave", "newcomer"]


def test_written_records_count_before_the_disk_confirms_them() -> None:
    files = MemoryFiles()
    held = partition(files)
    held.log.reconfigure(replace(held.log.config, flush_messages=1))
    held.append(batch(), NOW_MS)
    files.fail("sync")
    with pytest.raises(KafkaError):
        held.append(batch(), NOW_MS)
    assert held.high_watermark == held.log.end_offset == 2


def transaction(held: Partition, producer: int, *, commit: bool, size: int = 1) -> None:
    held.append(
        batch(
            bytes(size), producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
        ),
        NOW_MS,
    )
    held.append_marker(
        Marker(commit, 0),
        producer_id=producer,
        producer_epoch=1,
        transaction_version=2,
        now_ms=NOW_MS,
    )


@pytest.mark.parametrize("rolled", [False, True])
def test_aborted_transactions_are_named_up_to_the_read_offset(rolled: bool) -> None:
    """The others come with the batches that they are about."""
    held = partition()
    held.log.reconfigure(replace(held.log.config, index_interval_bytes=1))
    for producer in range(20):
        transaction(held, producer, commit=False, size=100)
    if rolled:
        held.log.roll(NOW_MS)
        held.append(batch(), NOW_MS)
    sequences: dict[int, int] = {}
    offset = 0
    while offset < 40:
        found = read(held, offset, 500, isolation=READ_COMMITTED)
        assert found.records is not None
        assert found.aborted is not None
        data = found.records.read()
        headers = check_batches(memoryview(data), batch_size_max=0, origin=AppendOrigin.LEADER)
        end = headers[-1].next_offset
        needed = {header.producer_id for header in headers if not header.control}
        named = dict(found.aborted)
        assert needed <= set(named) | {-1}
        assert len(named) <= len(needed) + 2  # the index knows to within a batch or two
        sequences |= named
        offset = end
    assert sequences == {producer: 2 * producer for producer in range(20)}


def test_a_transaction_with_a_committed_marker_is_forgotten() -> None:
    held = partition()
    for producer in range(3):
        transaction(held, producer, commit=True)
    assert held.log.unstable_offset(0) is None


def test_an_open_transaction_with_deleted_records_holds_back_later_ones() -> None:
    held = partition()
    open_ = batch(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    held.append(open_, NOW_MS)
    for _ in range(3):
        held.append(batch(), NOW_MS)
    held.delete_records(2, NOW_MS)
    assert (held.log.start_offset, held.last_stable_offset) == (2, 2)


def test_undecided_records_are_invisible_to_read_committed() -> None:
    held = partition()
    held.append(batch(), NOW_MS)
    held.append(batch(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True), NOW_MS)
    found = read(held, 0, isolation=READ_COMMITTED).records
    assert found is not None
    assert held.is_cut(found, READ_UNCOMMITTED)
    assert not held.is_cut(found, READ_COMMITTED)
