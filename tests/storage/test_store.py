"""All logs of a broker: directories, checkpoints, clean and unclean ends."""

from __future__ import annotations

import errno
import logging
import re

import pytest
from storage_kit import NOW, append, batch, values

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.checkpoints import DamagedError
from ottla.storage.log import Log, LogConfig
from ottla.storage.recovery import LoadLogParams, open_log
from ottla.storage.store import LogStore, LogStoreError
from ottla.testing.memory_files import MemoryFiles

ID = bytes(range(16))
ONE = len(batch(b"v" * 50))


def open_store(files: MemoryFiles, *dirs: str, **options: object) -> LogStore:
    config = options.pop("config", LogConfig())
    return LogStore.open(dirs or ("/a",), config, NOW, files=files, **options)


def text(files: MemoryFiles, path: str) -> str:
    return files.nodes[path].data.decode()


def test_a_log_is_created_with_kafkas_file_names() -> None:
    files = MemoryFiles()
    store = open_store(files, node_id=1, cluster_id="abc")
    log = store.create("my.topic", 3, ID, now_ms=NOW)
    append(log, batch(b"a"))
    assert store.get("my.topic", 3) is log
    assert store.get("my.topic", 4) is None
    assert log.topic_id == ID
    store.close(NOW)
    assert sorted(files.nodes) == [
        "/a/.kafka_cleanshutdown",
        "/a/log-start-offset-checkpoint",
        "/a/meta.properties",
        "/a/my.topic-3/00000000000000000000.index",
        "/a/my.topic-3/00000000000000000000.log",
        "/a/my.topic-3/00000000000000000000.timeindex",
        "/a/my.topic-3/00000000000000000001.snapshot",
        "/a/my.topic-3/leader-epoch-checkpoint",
        "/a/my.topic-3/partition.metadata",
        "/a/recovery-point-offset-checkpoint",
    ]
    assert text(files, "/a/recovery-point-offset-checkpoint") == "0\n1\nmy.topic 3 1\n"


def test_logs_are_there_after_a_clean_restart() -> None:
    files = MemoryFiles()
    store = open_store(files)
    for partition in range(3):
        append(store.create("t", partition, ID, now_ms=NOW), batch(b"%d" % partition))
    store.close(NOW)
    store = open_store(files)
    assert len(store) == 3
    assert [values(log) for log in store.logs()] == [[b"0"], [b"1"], [b"2"]]
    assert all(log.topic_id == ID for log in store.logs())
    assert all(log.recovery_point == 1 for log in store.logs())


def test_the_clean_shutdown_file_counts_once() -> None:
    files = MemoryFiles()
    store = open_store(files)
    append(store.create("t", 0, ID, now_ms=NOW), batch(b"a"))
    store.close(NOW)
    assert "/a/.kafka_cleanshutdown" in files.nodes
    open_store(files)
    assert "/a/.kafka_cleanshutdown" not in files.nodes


def test_after_a_crash_logs_are_recovered_from_their_recovery_point(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = MemoryFiles()
    store = open_store(files)
    log = store.create("t", 0, ID, now_ms=NOW)
    append(log, batch(b"a"))
    log.flush(NOW)
    store.checkpoint()
    append(log, batch(b"b"))
    del files.nodes["/a/t-0/00000000000000000000.log"].data[-1:]
    files.kill()
    with caplog.at_level(logging.WARNING, "ottla.storage"):
        store = open_store(files)
    log = store.get("t", 0)
    assert log is not None
    assert values(log) == [b"a"]
    assert log.recovery_point == 1
    assert "t-0: segment 00000000000000000000.log: cut" in caplog.text


def test_a_damaged_checkpoint_only_delays_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = MemoryFiles()
    store = open_store(files)
    append(store.create("t", 0, ID, now_ms=NOW), batch(b"a"))
    store.close(NOW)
    files.nodes["/a/recovery-point-offset-checkpoint"].data[0] = 0x58
    del files.nodes["/a/log-start-offset-checkpoint"].data[1:]
    with caplog.at_level(logging.WARNING, "ottla.storage"):
        store = open_store(files)
    assert [values(log) for log in store.logs()] == [[b"a"]]
    assert caplog.text.count("Ignoring damaged checkpoint") == 2


def test_the_start_offset_survives_a_restart() -> None:
    files = MemoryFiles()
    store = open_store(files)
    log = store.create("t", 0, ID, now_ms=NOW)
    for value in (b"a", b"b", b"c"):
        append(log, batch(value))
    log.delete_records(2)
    store.checkpoint()
    files.kill()
    assert text(files, "/a/log-start-offset-checkpoint") == "0\n1\nt 0 2\n"
    log = open_store(files).get("t", 0)
    assert log is not None
    assert log.start_offset == 2
    assert values(log) == [b"c"]


def test_high_watermarks_are_written_down() -> None:
    files = MemoryFiles()
    store = open_store(files)
    store.create("t", 0, ID, now_ms=NOW)
    store.close(NOW, high_watermarks={("t", 0): 17})
    assert text(files, "/a/replication-offset-checkpoint") == "0\n1\nt 0 17\n"
    store = open_store(files)
    assert store.high_watermark("t", 0) == 17
    assert store.high_watermark("t", 1) == 0


def test_checkpoints_are_written_only_when_they_change() -> None:
    files = MemoryFiles()
    store = open_store(files)
    store.create("t", 0, ID, now_ms=NOW)
    job = store.checkpoint_job()
    assert job is not None
    job.run()
    job.done()
    assert store.checkpoint_job() is None


def test_new_logs_go_to_the_directory_with_the_fewest() -> None:
    files = MemoryFiles()
    store = open_store(files, "/a", "/b")
    for partition in range(4):
        store.create("t", partition, ID, now_ms=NOW)
    counts = [sum(log.dir.path == path for log in store.logs()) for path in ("/a", "/b")]
    assert counts == [2, 2]


def test_a_log_is_created_once() -> None:
    store = open_store(MemoryFiles())
    store.create("t", 0, ID, now_ms=NOW)
    with pytest.raises(KafkaError) as error:
        store.create("t", 0, ID, now_ms=NOW)
    assert error.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_deleted_log_disappears_at_once_and_its_files_later() -> None:
    files = MemoryFiles()
    store = open_store(files)
    log = store.create("t", 0, ID, now_ms=NOW)
    append(log, batch(b"a"))
    piece = log.read(0, size_max=100, end_offset=1)
    store.delete("t", 0, now_ms=NOW)
    assert store.get("t", 0) is None
    assert piece is not None
    assert piece.read()
    (name,) = [name for name in files.dirs if "delete" in name]
    assert re.fullmatch(r"/a/t-0\.[0-9a-f]{32}-delete", name)
    again = store.create("t", 0, ID, now_ms=NOW)
    assert again.end_offset == 0
    assert store.remove_job(NOW + 59_999) is None
    removal = store.remove_job(NOW + 60_000)
    assert removal is not None
    assert removal.run() == 1
    assert not any("delete" in name for name in files.dirs | set(files.nodes))


def test_a_deleted_log_is_removed_by_the_next_start_too() -> None:
    files = MemoryFiles()
    store = open_store(files)
    store.create("t", 0, ID, now_ms=NOW)
    store.delete("t", 0, now_ms=NOW)
    store.close(NOW)
    store = open_store(files)
    assert len(store) == 0
    removal = store.remove_job(NOW)
    assert removal is not None
    assert removal.run() == 1
    assert not any("delete" in name for name in files.dirs)


def test_the_name_of_a_deleted_log_fits_into_255_letters() -> None:
    files = MemoryFiles()
    store = open_store(files)
    store.create("t" * 249, 0, ID, now_ms=NOW)
    store.delete("t" * 249, 0, now_ms=NOW)
    (name,) = [name for name in files.dirs if name.endswith("-delete")]
    assert len(name.removeprefix("/a/")) == 255


def test_a_second_process_gets_an_error_for_a_locked_directory() -> None:
    files = MemoryFiles()
    store = open_store(files, "/a")
    with pytest.raises(LogStoreError, match=r"/a is in use by another process.*/a/\.lock"):
        open_store(files, "/b", "/a")
    assert "/b/.lock" not in files.locked
    store.close(NOW)
    open_store(files, "/a")


def test_a_directory_of_another_cluster_or_broker_is_refused() -> None:
    files = MemoryFiles()
    open_store(files, node_id=1, cluster_id="abc").close(NOW)
    with pytest.raises(
        LogStoreError, match=r"meta.properties has cluster.id=abc.*is configured with x"
    ):
        open_store(files, node_id=1, cluster_id="x")
    with pytest.raises(LogStoreError, match=r"node.id=1.*with 2"):
        open_store(files, node_id=2, cluster_id="abc")
    assert open_store(files, node_id=1, cluster_id="abc").meta.cluster_id == "abc"


def test_the_id_of_a_directory_stays() -> None:
    files = MemoryFiles()
    store = open_store(files, "/a", "/b", node_id=1)
    ids = [directory.directory_id for directory in store.dirs]
    store.close(NOW)
    assert ids[0] != ids[1]
    assert [item.directory_id for item in open_store(files, "/a", "/b").dirs] == ids


def test_damaged_meta_properties_are_rewritten() -> None:
    files = MemoryFiles()
    open_store(files, node_id=1, cluster_id="abc").close(NOW)
    files.nodes["/a/meta.properties"].data[:] = b"\xff\xff"
    store = open_store(files, node_id=1, cluster_id="abc")
    assert store.meta is not None
    assert (store.meta.node_id, store.meta.cluster_id) == (1, "abc")


def test_the_same_partition_in_two_directories_is_refused() -> None:
    files = MemoryFiles()
    store = open_store(files, "/a")
    store.create("t", 0, ID, now_ms=NOW)
    store.close(NOW)
    store = open_store(files, "/b")
    store.create("t", 0, ID, now_ms=NOW)
    store.close(NOW)
    with pytest.raises(LogStoreError, match="the same partition"):
        open_store(files, "/a", "/b")


class OneBadDisk(MemoryFiles):
    """Everything below /bad fails once `broken` is set."""

    broken = False

    def check(self, operation: str, path: str) -> None:
        super().check(operation, path)
        if self.broken and path.startswith("/bad"):
            raise OSError(errno.EIO, "Input/output error", path)


def test_a_directory_that_fails_goes_offline_alone() -> None:
    files = OneBadDisk()
    received: list[str] = []
    store = open_store(
        files, "/bad", "/good", on_offline=lambda directory: received.append(directory.path)
    )
    logs = [store.create("t", partition, ID, now_ms=NOW) for partition in range(4)]
    for log in logs:
        append(log, batch(b"a"))
    files.broken = True
    bad = [log for log in logs if log.dir.path == "/bad"]
    good = [log for log in logs if log.dir.path == "/good"]
    assert len(bad) == len(good) == 2
    for log in bad:
        with pytest.raises(KafkaError) as error:
            append(log, batch(b"b"))
        assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    for log in good:
        append(log, batch(b"b"))
        assert values(log) == [b"a", b"b"]
    assert received == ["/bad"]
    assert [directory.path for directory in store.dirs if directory.offline] == ["/bad"]
    assert store.create("t", 9, ID, now_ms=NOW).dir.path == "/good"
    with pytest.raises(KafkaError) as error:
        store.create("t", 10, ID, now_ms=NOW, is_new=False)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    store.retain(NOW)
    store.checkpoint()
    store.close(NOW)
    assert "/good/.kafka_cleanshutdown" in files.nodes
    assert "/bad/.kafka_cleanshutdown" not in files.nodes
    files.broken = False
    files.kill()
    store = open_store(files, "/bad", "/good")
    assert sorted(len(values(log)) for log in store.logs()) == [0, 1, 1, 2, 2]


def test_a_directory_that_fails_at_the_start_does_not_stop_the_others() -> None:
    files = OneBadDisk()
    store = open_store(files, "/bad", "/good")
    for partition in range(2):
        store.create("t", partition, ID, now_ms=NOW)
    store.close(NOW)
    files.broken = True
    store = open_store(files, "/bad", "/good")
    assert [directory.path for directory in store.dirs if directory.offline] == ["/bad"]
    assert len(store) == 1
    with pytest.raises(LogStoreError, match="no usable log directory"):
        open_store(files, "/bad")


def test_a_directory_that_fails_when_a_log_is_created_gives_way_to_the_next() -> None:
    files = OneBadDisk()
    store = open_store(files, "/bad", "/good")
    files.broken = True
    assert store.create("t", 0, ID, now_ms=NOW).dir.path == "/good"
    assert [directory.path for directory in store.dirs if directory.offline] == ["/bad"]


def test_no_room_for_a_new_log_leaves_nothing_behind() -> None:
    files = MemoryFiles()
    store = open_store(files)
    files.fill(3)
    with pytest.raises(KafkaError) as error:
        store.create("t", 0, ID, now_ms=NOW)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "/a/t-0" not in files.dirs
    files.heal()
    store.create("t", 0, ID, now_ms=NOW)


def test_a_full_disk_keeps_the_old_checkpoint() -> None:
    files = MemoryFiles()
    store = open_store(files)
    log = store.create("t", 0, ID, now_ms=NOW)
    append(log, batch(b"a"))
    log.flush(NOW)
    store.checkpoint()
    append(log, batch(b"b"))
    log.flush(NOW)
    files.fill(2)
    store.checkpoint()
    assert text(files, "/a/recovery-point-offset-checkpoint") == "0\n1\nt 0 1\n"
    assert not any(directory.offline for directory in store.dirs)


def test_a_checkpoint_that_failed_is_tried_again() -> None:
    files = MemoryFiles()
    store = open_store(files)
    log = store.create("t", 0, ID, now_ms=NOW)
    append(log, batch(b"a"))
    log.flush(NOW)
    files.fill(0)
    store.checkpoint()
    files.heal()
    store.checkpoint()
    assert text(files, "/a/recovery-point-offset-checkpoint") == "0\n1\nt 0 1\n"


def test_a_log_without_records_has_no_indexes() -> None:
    """They are created with the first batch; a start does not need them, as in Kafka."""
    files = MemoryFiles()
    store = open_store(files)
    log = store.create("t", 0, ID, now_ms=NOW)
    names = {name.removeprefix("/a/t-0/") for name in files.nodes if name.startswith("/a/t-0/")}
    assert names == {"00000000000000000000.log", "partition.metadata"}
    store.close(NOW)
    (log,) = open_store(files).logs()
    append(log, batch(b"a"))
    for suffix in ("index", "timeindex"):
        assert f"/a/t-0/00000000000000000000.{suffix}" in files.nodes
    assert values(log) == [b"a"]


def flushed(store: LogStore, now_ms: int) -> int:
    """Runs the due jobs; returns their number."""
    jobs = store.flush_jobs(now_ms)
    for job in jobs:
        job.run()
        job.done()
    return len(jobs)


def test_flush_jobs_are_made_for_rolled_segments_and_for_flush_ms() -> None:
    files = MemoryFiles()
    store = open_store(files, config=LogConfig(segment_bytes=2 * ONE, flush_ms=1000))
    rolled = store.create("rolled", 0, ID, now_ms=NOW)
    idle = store.create("idle", 0, ID, now_ms=NOW)
    for _ in range(3):
        append(rolled, batch(b"v" * 50))
    append(idle, batch(b"v"))
    assert flushed(store, NOW) == 1
    assert (rolled.recovery_point, idle.recovery_point) == (2, 0)
    assert flushed(store, NOW + 1000) == 2
    assert (rolled.recovery_point, idle.recovery_point) == (3, 1)
    assert flushed(store, NOW + 2000) == 0


def test_retention_runs_over_all_logs() -> None:
    store = open_store(MemoryFiles(), config=LogConfig(segment_bytes=ONE, retention_ms=10))
    for partition in range(3):
        log = store.create("t", partition, ID, now_ms=NOW)
        append(log, batch(b"v" * 50))
        append(log, batch(b"v" * 50))
    assert store.retain(NOW + 11, {("t", 0): 0}) == 4
    assert store.retain(NOW + 11) == 2


def test_topics_have_their_own_configs() -> None:
    files = MemoryFiles()
    store = open_store(files)
    store.create("a", 0, ID, now_ms=NOW)
    store.create("b", 0, ID, LogConfig(retention_ms=1), now_ms=NOW)
    store.close(NOW)
    store = open_store(files, configs={"b": LogConfig(retention_ms=2)})
    assert [log.config.retention_ms for log in store.logs()] == [604_800_000, 2]


def test_a_log_without_a_topic_is_set_aside() -> None:
    files = MemoryFiles()
    store = open_store(files)
    append(store.create("t", 0, ID, now_ms=NOW), batch(b"a"))
    store.set_aside("t", 0)
    assert store.get("t", 0) is None
    store.close(NOW)
    (name,) = [name for name in files.dirs if "stray" in name]
    assert re.fullmatch(r"/a/t-0\.[0-9a-f]{32}-stray", name)
    store = open_store(files)
    assert len(store) == 0
    assert f"{name}/00000000000000000000.log" in files.nodes


def open_with_damage(
    files: MemoryFiles, monkeypatch: pytest.MonkeyPatch, *dirs: str
) -> tuple[LogStore, list[LoadLogParams]]:
    """A store in which the log of t-1 cannot be opened; and the logs that were."""
    opened = []

    def open_or_not(opening: LoadLogParams) -> Log:
        opened.append(opening)
        if opening.name == "t-1":
            raise DamagedError("beyond repair")
        return open_log(opening)

    with monkeypatch.context() as patch:
        patch.setattr("ottla.storage.store.open_log", open_or_not)
        return open_store(files, *dirs), opened


def three_logs(files: MemoryFiles) -> None:
    store = open_store(files)
    for partition in range(3):
        append(store.create("t", partition, ID, now_ms=NOW), batch(b"%d" % partition))
    store.close(NOW)


def test_a_log_that_cannot_be_opened_costs_its_partition_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = MemoryFiles()
    three_logs(files)
    store, _ = open_with_damage(files, monkeypatch)
    assert "Failed to open log /a/t-1, leaving it unchanged: beyond repair" in caplog.text
    assert [log.name for log in store.logs()] == ["t-0", "t-2"]
    with pytest.raises(KafkaError) as error:
        store.create("t", 1, ID, now_ms=NOW, is_new=False)
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    store.close(NOW)
    assert "/a/.kafka_cleanshutdown" not in files.nodes  # it may still have to be recovered
    store, opened = open_with_damage(files, monkeypatch)
    assert [(opening.name, opening.clean) for opening in opened] == [
        ("t-0", False), ("t-1", False), ("t-2", False)
    ]  # fmt: skip
    store.close(NOW)
    log = open_store(files).get("t", 1)
    assert log is not None
    assert values(log) == [b"1"]


def test_a_new_topic_takes_the_place_of_a_log_that_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = MemoryFiles()
    three_logs(files)
    store, _ = open_with_damage(files, monkeypatch)
    log = store.create("t", 1, ID, now_ms=NOW)
    assert log.end_offset == 0
    (name,) = [name for name in files.dirs if "stray" in name]
    assert re.fullmatch(r"/a/t-1\.[0-9a-f]{32}-stray", name)
    assert f"{name}/00000000000000000000.log" in files.nodes
    store.close(NOW)
    assert "/a/.kafka_cleanshutdown" in files.nodes


def test_foreign_folders_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    for name in ("/a/lost+found", "/a/t-0.8f0c-future", "/a/__cluster_metadata-0"):
        files.make_dir(name)
    with caplog.at_level(logging.WARNING, "ottla.storage"):
        store = open_store(files)
    assert len(store) == 0
    assert "/a/lost+found" in files.dirs
    assert caplog.text.count("not the directory of a log") == 3


def test_one_directory_named_twice_is_one_directory() -> None:
    assert len(open_store(MemoryFiles(), "/a", "/a/").dirs) == 1


def test_a_clean_end_without_sync_is_clean_for_the_next_process() -> None:
    files = MemoryFiles()
    store = open_store(files)
    append(store.create("t", 0, ID, now_ms=NOW), batch(b"a"))
    store.close(NOW, sync=False)
    assert [values(log) for log in open_store(files).logs()] == [[b"a"]]


def test_a_recreated_topic_has_no_records_of_an_undeletable_one() -> None:
    files = MemoryFiles()
    store = open_store(files)
    append(store.create("t", 0, ID, now_ms=NOW), batch(b"old"))
    files.fail("rename", error=errno.ENOSPC)
    with pytest.raises(KafkaError):
        store.delete("t", 0, now_ms=NOW)
    files.heal()
    log = store.create("t", 0, ID, now_ms=NOW)
    assert log.end_offset == 0
    assert len([name for name in files.dirs if "stray" in name]) == 1


def test_a_log_of_a_closed_store_refuses_writes() -> None:
    """The next store owns it, maybe in the same process."""
    files = MemoryFiles()
    store = open_store(files)
    log = store.create("t", 0, ID, now_ms=NOW)
    append(log, batch(b"1"))
    store.close(NOW)
    again = open_store(files)
    found = again.get("t", 0)
    assert found is not None
    append(found, batch(b"2"))
    with pytest.raises(KafkaError):
        append(log, batch(b"3"))
    assert values(found) == [b"1", b"2"]
