"""After a crash: every batch before the damage stays, and each cut is logged."""

from __future__ import annotations

import logging

import pytest
from storage_kit import NOW, PATH, append, batch, close, marker, open_memory_log, read_all, values

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin
from ottla.storage.log import Log, LogConfig
from ottla.testing.memory_files import MemoryFiles

ONE = len(batch(b"v" * 50))
CONFIG = LogConfig(segment_bytes=3 * ONE)
LOG = f"{PATH}/00000000000000000000.log"


def filled(files: MemoryFiles, count: int, config: LogConfig = CONFIG) -> Log:
    log = open_memory_log(files, config=config)
    for index in range(count):
        append(log, batch(b"%02d" % index * 25, timestamp=NOW + index))
    return log


def reopen(files: MemoryFiles, **options: object) -> Log:
    files.kill()
    return open_memory_log(files, clean=False, config=CONFIG, **options)


def expected(count: int) -> list[bytes]:
    return [b"%02d" % index * 25 for index in range(count)]


def test_everything_written_is_there_after_kill_9() -> None:
    files = MemoryFiles()
    filled(files, 8)
    log = reopen(files)
    assert values(log) == expected(8)
    assert log.end_offset == 8
    assert log.epochs.entries() == [(0, 0)]
    assert append(log, batch(b"next")).first_offset == 8


def test_a_torn_tail_is_truncated_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    filled(files, 2)
    del files.nodes[LOG].data[-10:]
    with caplog.at_level(logging.WARNING, "ottla.storage"):
        log = reopen(files)
    assert values(log) == expected(1)
    assert len(files.nodes[LOG].data) == ONE
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        f"t-0: segment 00000000000000000000.log: cut {ONE - 10} bytes at position {ONE}: "
        "the batch is cut off; the log ends at offset 1"
    )


@pytest.mark.parametrize("position", range(0, 2 * ONE, 7))
def test_a_flipped_byte_ends_the_log_before_its_batch(position: int) -> None:
    files = MemoryFiles()
    filled(files, 3)
    files.flip(LOG, position)
    log = reopen(files)
    # No checksum protects a batch's leader epoch.
    harmless = position % ONE in range(12, 16)
    assert values(log) == expected(3 if harmless else position // ONE)
    assert append(log, batch(b"next")).first_offset == log.end_offset - 1


def test_segments_after_the_damage_are_deleted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    filled(files, 8)
    files.flip(LOG, ONE + 70)
    with caplog.at_level(logging.WARNING, "ottla.storage"):
        log = reopen(files)
    assert values(log) == expected(1)
    text = caplog.text
    assert f"cut {2 * ONE} bytes at position {ONE}: wrong checksum" in text
    assert f"deleted segment 00000000000000000003.log of {3 * ONE} bytes" in text
    assert f"deleted segment 00000000000000000006.log of {2 * ONE} bytes" in text
    append(log, batch(b"next"))
    close(log)
    assert values(open_memory_log(files)) == [*expected(1), b"next"]


def test_only_segments_past_the_recovery_point_are_read() -> None:
    files = MemoryFiles()
    log = filled(files, 8)
    log.flush(NOW)
    assert log.recovery_point == 8
    files.flip(LOG, 70)
    log = reopen(files, recovery_point=4)
    assert log.end_offset == 8
    assert log.recovery_point == 4


def test_zeros_at_the_end_are_truncated() -> None:
    files = MemoryFiles()
    filled(files, 2)
    files.nodes[LOG].data += bytes(5000)
    assert values(reopen(files)) == expected(2)


def test_a_length_that_leads_far_beyond_the_end_is_damage() -> None:
    files = MemoryFiles()
    filled(files, 2)
    files.nodes[LOG].data[ONE + 8] = 0x7F
    assert values(reopen(files)) == expected(1)


def test_offsets_that_do_not_rise_are_damage() -> None:
    files = MemoryFiles()
    filled(files, 3)
    files.nodes[LOG].data[2 * ONE + 7] = 0
    assert values(reopen(files)) == expected(2)


def test_an_empty_active_segment_survives() -> None:
    files = MemoryFiles()
    log = filled(files, 3)
    log.roll(NOW)
    log = reopen(files)
    assert log.end_offset == 3
    assert append(log, batch(b"next")).first_offset == 3


def test_lost_index_files_are_built_again() -> None:
    for clean in (True, False):
        files = MemoryFiles()
        log = filled(files, 8)
        close(log)
        for name in [name for name in files.nodes if name.endswith("index")]:
            files.remove(name)
        log = open_memory_log(files, clean=clean, config=CONFIG, recovery_point=8)
        assert values(log) == expected(8)
        assert log.max_timestamp(end_offset=8) == (7, NOW + 7, 0)


def test_an_index_without_a_log_is_removed(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    close(filled(files, 2))
    files.open(f"{PATH}/00000000000000000099.index", create=True)
    with caplog.at_level(logging.WARNING, "ottla.storage"):
        open_memory_log(files)
    assert f"{PATH}/00000000000000000099.index" not in files.nodes
    assert "00000000000000000099.index, which has no log" in caplog.text


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_wrong_index_is_noticed_and_rebuilt(suffix: str) -> None:
    config = LogConfig(index_interval_bytes=1)
    files = MemoryFiles()
    log = filled(files, 20, config)
    log.roll(NOW)
    append(log, batch(b"last", timestamp=NOW + 20))
    close(log)
    name = f"{PATH}/00000000000000000000.{suffix}"
    whole = bytes(files.nodes[name].data)
    for position in range(len(whole)):
        files.nodes[name].data[:] = whole
        files.flip(name, position, 0x40)
        log = open_memory_log(files, config=config)
        assert values(log) == [*expected(20), b"last"]
        for offset in range(20):
            assert log.offset_for_time(NOW + offset, end_offset=21) == (offset, NOW + offset, 0)
        assert log.max_timestamp(end_offset=21) == (20, NOW + 20, 0)


def test_a_truncated_log_is_recovered_even_after_a_clean_stop() -> None:
    files = MemoryFiles()
    close(filled(files, 5))
    del files.nodes[f"{PATH}/00000000000000000003.log"].data[-1:]
    assert values(open_memory_log(files, config=CONFIG)) == expected(4)


def test_damage_after_a_clean_stop_fails_only_that_read() -> None:
    files = MemoryFiles()
    log = filled(files, 8)
    close(log)
    files.nodes[LOG].data[ONE + 16] = 9  # magic
    log = open_memory_log(files, config=CONFIG)
    with pytest.raises(KafkaError) as error:
        log.read(2, size_max=100, end_offset=8)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE
    assert [record.offset for record in read_all(log, start=3)] == [3, 4, 5, 6, 7]


def test_damage_in_a_log_is_logged_once_and_searched_for_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = LogConfig(index_interval_bytes=1)
    files = MemoryFiles()
    log = filled(files, 20, config)
    log.roll(NOW)
    append(log, batch(b"last"))
    close(log)
    files.nodes[LOG].data[10 * ONE + 16] = 9  # magic
    log = open_memory_log(files, config=config)
    reads = []
    with caplog.at_level(logging.WARNING, "ottla.storage"):
        for _ in range(5):
            before = files.calls["pread"]
            with pytest.raises(KafkaError):
                log.read(10, size_max=100, end_offset=21)
            reads.append(files.calls["pread"] - before)
    assert reads[1:] == [1, 1, 1, 1]
    assert len(caplog.records) == 2
    assert [record.offset for record in read_all(log, start=11)] == list(range(11, 21))


def test_a_damaged_snapshot_is_rebuilt_from_the_log(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    data = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, data)
    close(log)
    files.flip(f"{PATH}/00000000000000000001.snapshot", 20)
    with caplog.at_level(logging.WARNING, "ottla.storage"):
        log = open_memory_log(files)
    assert append(log, data).duplicate
    assert "00000000000000000001.snapshot removed: wrong checksum" in caplog.text


def test_batches_without_an_answer_are_known_after_a_clean_stop() -> None:
    """Five may have been under way; the snapshot has the last."""
    files = MemoryFiles()
    log = open_memory_log(files)
    sent = {
        producer_id: [
            batch(b"1", b"2", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            for sequence in range(0, 14, 2)
        ]
        for producer_id in (7, 8)
    }
    for pair in zip(*sent.values(), strict=True):
        for data in pair:
            append(log, data)
    close(log)
    log = open_memory_log(files)
    for batches in sent.values():
        for data in batches[-5:]:
            assert append(log, data).duplicate
        with pytest.raises(KafkaError) as refusal:
            append(log, batches[-6])
        assert refusal.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.end_offset == 28


def test_a_batch_of_an_earlier_epoch_is_not_a_duplicate() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    old = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, old)
    append(log, batch(producer_id=7, producer_epoch=1, base_sequence=0))
    close(log)
    log = open_memory_log(files)
    producer = log.producer(7)
    assert producer is not None
    assert [batch.last_offset for batch in producer.batches] == [1]


def test_producers_are_known_after_a_crash() -> None:
    files = MemoryFiles()
    log = open_memory_log(files, config=CONFIG)
    last = b""
    for sequence in range(8):
        last = batch(b"v" * 50, producer_id=7, producer_epoch=0, base_sequence=sequence)
        append(log, last)
    log = reopen(files)
    assert append(log, last).duplicate
    log = reopen(files, recovery_point=8)
    assert append(log, last).duplicate


def test_transactions_are_known_after_a_crash() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    append(log, marker(7, commit=False), origin=AppendOrigin.COORDINATOR)
    append(log, batch(producer_id=8, producer_epoch=0, base_sequence=0, transactional=True))
    log = reopen(files)
    assert log.aborted(0, 3) == [(7, 0)]
    assert log.first_unstable_offset == 2


def test_a_damaged_transaction_index_is_built_again() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    append(log, marker(7, commit=False), origin=AppendOrigin.COORDINATOR)
    close(log)
    files.nodes[f"{PATH}/00000000000000000000.txnindex"].data[1] = 9
    assert open_memory_log(files).aborted(0, 2) == [(7, 0)]


@pytest.mark.parametrize("damage", [b"", b"0\n1\n", b"nonsense", None])
def test_lost_leader_epochs_are_read_from_the_log(damage: bytes | None) -> None:
    files = MemoryFiles()
    log = open_memory_log(files, config=CONFIG)
    for epoch in (0, 0, 1, 1, 1, 4, 4):
        append(log, batch(b"v" * 50), leader_epoch=epoch)
    close(log)
    name = f"{PATH}/leader-epoch-checkpoint"
    if damage is None:
        files.remove(name)
    else:
        files.nodes[name].data[:] = damage
    log = open_memory_log(files, config=CONFIG)
    assert log.epochs.entries() == [(0, 0), (1, 2), (4, 5)]


def test_epochs_beyond_the_recovered_end_are_forgotten() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(b"a"), leader_epoch=0)
    append(log, batch(b"b"), leader_epoch=1)
    log.flush(NOW)
    del files.nodes[LOG].data[-1:]
    log = reopen(files)
    assert log.epochs.entries() == [(0, 0)]


def test_the_start_offset_is_kept() -> None:
    files = MemoryFiles()
    close(filled(files, 5))
    assert open_memory_log(files, start_offset=4).start_offset == 4


def test_a_start_offset_beyond_the_end_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    close(filled(files, 5))
    with caplog.at_level(logging.WARNING, "ottla.storage"):
        log = open_memory_log(files, start_offset=99)
    assert (log.start_offset, log.end_offset) == (0, 5)
    assert "start offset 99 is beyond the log's end 5" in caplog.text


def test_foreign_files_are_left_alone() -> None:
    files = MemoryFiles()
    close(filled(files, 1))
    files.open(f"{PATH}/notes.txt", create=True)
    files.open(f"{PATH}/00000000000000000000.log.cleaned", create=True)
    open_memory_log(files)
    assert f"{PATH}/notes.txt" in files.nodes
    assert f"{PATH}/00000000000000000000.log.cleaned" not in files.nodes


def test_a_second_recovery_gives_the_same_log() -> None:
    files = MemoryFiles()
    filled(files, 8)
    del files.nodes[f"{PATH}/00000000000000000006.log"].data[-1:]
    reopen(files)
    log = reopen(files)
    assert values(log) == expected(7)
