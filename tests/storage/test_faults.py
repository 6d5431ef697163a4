"""A full disk and a failing disk: written records stay intact."""

from __future__ import annotations

import errno

import pytest
from storage_kit import NOW, PATH, append, batch, close, marker, open_memory_log, read_all, values

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin
from ottla.storage.log import Log, LogConfig
from ottla.testing.memory_files import MemoryFiles

ONE = len(batch(b"v" * 50))
LOG = f"{PATH}/00000000000000000000.log"


def refused(log: Log, data: bytes) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        append(log, data)
    return error.value.code


def test_a_full_disk_is_an_error_to_the_producer_and_harms_nothing() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(b"a"))
    before = bytes(files.nodes[LOG].data)
    files.fill(20)
    for _ in range(3):
        assert refused(log, batch(b"b")) is ErrorCode.KAFKA_STORAGE_ERROR
        files.fill(20)
    assert files.nodes[LOG].data == before
    assert not log.dir.offline
    assert values(log) == [b"a"]
    files.heal()
    assert append(log, batch(b"c")).first_offset == 1
    assert values(log) == [b"a", b"c"]


def test_a_full_disk_does_not_use_up_a_sequence() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    data = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    files.fill(0)
    assert refused(log, data) is ErrorCode.KAFKA_STORAGE_ERROR
    files.heal()
    assert not append(log, data).duplicate
    assert append(log, data).duplicate


def test_a_short_write_is_undone() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(b"a"))
    files.short_write(size=30)
    assert refused(log, batch(b"b")) is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(files.nodes[LOG].data) == log.size
    append(log, batch(b"c"))
    assert values(log) == [b"a", b"c"]


def test_a_full_disk_prevents_a_roll() -> None:
    files = MemoryFiles()
    log = open_memory_log(files, config=LogConfig(segment_bytes=2 * ONE))
    append(log, batch(b"a" * 50))
    append(log, batch(b"b" * 50))
    files.fail("open", error=errno.ENOSPC)
    assert refused(log, batch(b"c" * 50)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(log.segments) == 1
    files.heal()
    append(log, batch(b"d" * 50))
    assert len(log.segments) == 2
    assert values(log) == [b"a" * 50, b"b" * 50, b"d" * 50]


def test_a_roll_succeeds_without_room_for_index_and_snapshot() -> None:
    files = MemoryFiles()
    config = LogConfig(segment_bytes=2 * ONE, index_interval_bytes=1)
    log = open_memory_log(files, config=config)
    for index in range(2):
        append(log, batch(b"%d" % index * 50, timestamp=NOW + index))
    files.fill(ONE)
    for _ in range(2):
        with pytest.raises(KafkaError):
            append(log, batch(b"x" * 100, timestamp=NOW + 2))
        files.fill(0)
    files.heal()
    append(log, batch(b"2" * 50, timestamp=NOW + 3))
    close(log)
    log = open_memory_log(files, config=config)
    assert values(log) == [b"0" * 50, b"1" * 50, b"2" * 50]
    assert log.offset_for_time(NOW + 1, end_offset=3) == (1, NOW + 1, 0)


def test_too_many_open_files_keep_the_directory_online() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(b"a"))
    close(log)
    log = open_memory_log(files)
    files.fail("open", error=errno.EMFILE)
    with pytest.raises(KafkaError) as error:
        log.read(0, size_max=100, end_offset=1)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.dir.offline
    files.heal()
    assert values(log) == [b"a"]


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.ENODEV])
def test_a_write_error_takes_the_directory_offline(code: int) -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    received: list[str] = []
    log.dir.on_offline = lambda directory: received.append(directory.path)
    append(log, batch(b"a"))
    files.fail("pwrite", error=code)
    assert refused(log, batch(b"b")) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.dir.offline
    assert received == ["/data"]
    files.heal()
    assert refused(log, batch(b"b")) is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError) as error:
        log.read(0, size_max=100, end_offset=1)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    files.kill()
    assert values(open_memory_log(files, clean=False)) == [b"a"]


def test_a_read_error_takes_the_directory_offline() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    for _ in range(300):
        append(log, batch(b"a"))
    files.fail("pread", error=errno.EIO)
    with pytest.raises(KafkaError) as error:
        log.read(0, size_max=100, end_offset=300)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.dir.offline


def test_a_flush_that_fails_does_not_move_the_recovery_point() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(b"a"))
    files.fail("sync", error=errno.EIO)
    with pytest.raises(KafkaError):
        log.flush(NOW)
    assert log.recovery_point == 0
    assert log.dir.offline


def test_a_marker_on_a_full_disk_can_be_written_again() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    files.fill(5)
    with pytest.raises(KafkaError) as error:
        append(log, marker(7, commit=False), origin=AppendOrigin.COORDINATOR)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.first_unstable_offset == 0
    files.heal()
    append(log, marker(7, commit=False), origin=AppendOrigin.COORDINATOR)
    assert log.first_unstable_offset is None
    assert log.aborted(0, 2) == [(7, 0)]


def test_a_marker_may_fit_without_its_index_entry() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    end = marker(7, commit=False)
    files.fill(len(end) + 10)
    append(log, end, origin=AppendOrigin.COORDINATOR)
    assert log.aborted(0, 2) == [(7, 0)]
    files.heal()
    close(log)
    assert open_memory_log(files).aborted(0, 2) == [(7, 0)]


def test_a_full_disk_does_not_keep_a_log_from_being_recovered() -> None:
    files = MemoryFiles()
    config = LogConfig(segment_bytes=2 * ONE, index_interval_bytes=1)
    log = open_memory_log(files, config=config)
    for index in range(5):
        append(log, batch(b"%d" % index * 50, timestamp=NOW + index))
    del files.nodes[f"{PATH}/00000000000000000004.log"].data[-1:]
    files.kill()
    files.fill(0)
    log = open_memory_log(files, clean=False, config=config)
    assert values(log) == [b"%d" % index * 50 for index in range(4)]
    assert log.offset_for_time(NOW + 3, end_offset=4) == (3, NOW + 3, 0)
    assert refused(log, batch(b"4" * 50)) is ErrorCode.KAFKA_STORAGE_ERROR
    files.heal()
    append(log, batch(b"4" * 50))
    close(log)
    assert len(read_all(open_memory_log(files, config=config))) == 5


def test_flush_every_message_is_on_disk_before_the_answer() -> None:
    files = MemoryFiles()
    log = open_memory_log(files, config=LogConfig(flush_messages=1))
    for value in (b"a", b"b"):
        append(log, batch(value))
    assert log.recovery_point == 2
    files.crash()
    log = open_memory_log(files, clean=False)
    assert values(log) == [b"a", b"b"]


def test_without_a_flush_a_power_cut_loses_the_unflushed_only() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(b"a"))
    log.flush(NOW)
    append(log, batch(b"b"))
    files.crash()
    log = open_memory_log(files, clean=False, recovery_point=1)
    assert values(log) == [b"a"]


def test_flush_is_due_after_flush_ms() -> None:
    log = open_memory_log(config=LogConfig(flush_ms=1000))
    assert not log.flush_is_due(NOW + 5000)
    append(log, batch(b"a"))
    assert not log.flush_is_due(NOW + 999)
    assert log.flush_is_due(NOW + 1000)
    log.flush(NOW + 1000)
    append(log, batch(b"a"))
    assert not log.flush_is_due(NOW + 1999)


def test_a_flush_job_moves_the_recovery_point_when_it_is_done() -> None:
    files = MemoryFiles()
    log = open_memory_log(files, config=LogConfig(segment_bytes=2 * ONE))
    for index in range(5):
        append(log, batch(b"%d" % index * 50))
    job = log.flush_job(NOW, active=False)
    assert job is not None
    append(log, batch(b"5" * 50))
    job.run()
    assert log.recovery_point == 0
    job.done()
    assert log.recovery_point == 4
    assert log.flush_job(NOW, active=False) is None
    files.crash()
    log = open_memory_log(files, clean=False, recovery_point=4)
    assert len(read_all(log)) == 4


def test_a_flush_job_takes_a_bounded_number_of_segments() -> None:
    log = open_memory_log(config=LogConfig(segment_bytes=ONE))
    for index in range(40):
        append(log, batch(b"%02d" % index * 25))
    job = log.flush_job(NOW, active=True)
    assert job is not None
    assert job.end_offset == 16
    log.flush(NOW)
    assert log.recovery_point == 40


def test_a_flush_begun_before_a_truncation_does_not_count() -> None:
    log = open_memory_log()
    append(log, batch(b"a"))
    append(log, batch(b"b"))
    job = log.flush_job(NOW, active=True)
    assert job is not None
    job.run()
    log.truncate_to(1, NOW)
    append(log, batch(b"c"))
    job.done()
    assert log.recovery_point == 0


def test_a_flush_job_survives_the_removal_of_its_segments() -> None:
    files = MemoryFiles()
    log = open_memory_log(files, config=LogConfig(segment_bytes=ONE, retention_bytes=0))
    for index in range(4):
        append(log, batch(b"%d" % index * 50))
    job = log.flush_job(NOW, active=True)
    assert job is not None
    log.retain(NOW)
    for name in [name for name in files.nodes if name.endswith(".deleted")]:
        files.remove(name)
    job.run()
    job.done()
    assert log.recovery_point == 4
