"""On a real disk: descriptors, locks, a killed process, a file size limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from storage_kit import NOW, append, batch, read_all, values, whole_records

from ottla.storage.files import DiskFiles, LockedError
from ottla.storage.log import LogConfig
from ottla.storage.store import LogStore, LogStoreError

ID = bytes(range(16))


def open_store(path: Path, **settings: int) -> LogStore:
    return LogStore.open([str(path)], LogConfig(**settings), NOW)


def run(code: str, *args: str) -> subprocess.Popen[bytes]:
    """A separate process that can import the kit."""
    here = os.path.dirname(__file__)
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": here},
    )


def test_a_log_on_disk_is_written_closed_and_read_again(tmp_path: Path) -> None:
    store = open_store(tmp_path, segment_bytes=2000, index_interval_bytes=100)
    log = store.create("t", 0, ID, now_ms=NOW)
    for index in range(100):
        append(log, batch(b"%d" % index, timestamp=NOW + index))
    store.close(NOW)
    store = open_store(tmp_path, segment_bytes=2000)
    again = store.get("t", 0)
    assert again is not None
    assert values(again) == [b"%d" % index for index in range(100)]
    for index in range(100):
        assert again.offset_for_time(NOW + index, end_offset=100) == (index, NOW + index, 0)
    store.close(NOW)


def test_a_slice_has_a_descriptor_for_sendfile(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create("t", 0, ID, now_ms=NOW)
    append(log, batch(b"a"))
    piece = log.read(0, size_max=1000, end_offset=1)
    assert piece is not None
    assert os.pread(piece.file.fileno(), piece.size, piece.position) == piece.read()
    store.delete("t", 0, now_ms=NOW)
    removal = store.remove_job(NOW + 100_000)
    assert removal is not None
    removal.run()
    assert [record.value for record in whole_records(piece.read())] == [b"a"]
    store.close(NOW)


def test_descriptors_are_closed_with_the_last_reference(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    store = LogStore.open([str(tmp_path)], LogConfig(segment_bytes=200), NOW, open_files_max=5)
    for partition in range(4):
        log = store.create("t", partition, ID, now_ms=NOW)
        for index in range(20):
            append(log, batch(b"%d" % index * 20))
        assert len(read_all(log)) == 20
    assert len(os.listdir("/proc/self/fd")) <= before + 5 + 1  # the lock
    store.close(NOW)
    assert len(os.listdir("/proc/self/fd")) == before


def test_after_kill_9_everything_acknowledged_is_there(tmp_path: Path) -> None:
    process = run(
        """
        import sys
        from storage_kit import *
        from ottla.storage.store import LogStore
        store = LogStore.open([sys.argv[1]], LogConfig(segment_bytes=10_000), NOW)
        log = store.create("t", 0, bytes(16), now_ms=NOW)
        while True:
            offset = append(log, batch(b"value %d" % log.end_offset)).last_offset
            print(offset, flush=True)
        """,
        str(tmp_path),
    )
    assert process.stdout is not None
    last = -1
    for line in process.stdout:
        last = int(line)
        if last == 500:
            break
    process.send_signal(signal.SIGKILL)
    last = max([last, *(int(line) for line in process.stdout.read().split())])
    process.stdout.close()
    process.wait()
    store = open_store(tmp_path)
    log = store.get("t", 0)
    assert log is not None
    assert log.end_offset in (last + 1, last + 2)
    assert values(log) == [b"value %d" % index for index in range(log.end_offset)]
    store.close(NOW)


def test_a_file_size_limit_is_an_error_and_harms_nothing(tmp_path: Path) -> None:
    process = run(
        """
        import resource, sys
        from storage_kit import *
        from ottla.storage.store import LogStore
        store = LogStore.open([sys.argv[1]], LogConfig(), NOW)
        log = store.create("t", 0, bytes(16), now_ms=NOW)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        done = 0
        try:
            while True:
                append(log, batch(b"%03d" % done * 20))
                done += 1
        except KafkaError as error:
            assert error.code.name == "KAFKA_STORAGE_ERROR", error
        assert values(log) == [b"%03d" % index * 20 for index in range(done)]
        assert not log.dir.offline
        assert log.segments.active.file.size() == log.size
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        append(log, batch(b"room again"))
        store.close(NOW)
        print(done)
        """.replace(
            "from storage_kit", "from ottla.errors import KafkaError\n        from storage_kit"
        ),
        str(tmp_path),
    )
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    done = int(output)
    assert done > 3
    store = open_store(tmp_path)
    log = store.get("t", 0)
    assert log is not None
    assert values(log) == [*(b"%03d" % index * 20 for index in range(done)), b"room again"]
    store.close(NOW)


def test_a_second_process_gets_a_clear_error(tmp_path: Path) -> None:
    process = run(
        """
        import sys
        from storage_kit import *
        from ottla.storage.store import LogStore
        store = LogStore.open([sys.argv[1]], LogConfig(), NOW)
        print("open", flush=True)
        sys.stdin.read()
        """,
        str(tmp_path),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"open\n"
    with pytest.raises(LogStoreError, match="in use by another process"):
        open_store(tmp_path)
    process.kill()
    process.wait()
    process.stdout.close()
    open_store(tmp_path).close(NOW)


def test_one_process_cannot_open_a_directory_twice(tmp_path: Path) -> None:
    files = DiskFiles()
    lock = files.lock(str(tmp_path / ".lock"))
    with pytest.raises(LockedError):
        files.lock(str(tmp_path / ".lock"))
    lock.release()
    files.lock(str(tmp_path / ".lock")).release()


def test_replace_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    files = DiskFiles()
    path = str(tmp_path / "file")
    files.replace(path, b"old", sync=True)
    files.replace(path, b"new", sync=False)
    assert files.read(path) == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_directory_that_cannot_be_created_is_logged(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LogStoreError, match="no usable log directory"):
        open_store(tmp_path / "file" / "dir")


def test_the_volume_has_a_size(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    total, free = store.dirs[0].space()
    assert total >= free > 0
    store.close(NOW)
