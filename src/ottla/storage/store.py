"""All logs of a broker, over one or several directories (`log.dirs`).

    <dir>/meta.properties .lock .kafka_cleanshutdown recovery-point-offset-checkpoint ...
    <dir>/<topic>-<partition>/00000000000000000000.log ...
    <dir>/<topic>-<partition>.<uuid>-delete/              a deleted log, until its files are removed

A new log goes to the directory with the fewest logs. A directory that fails is offline until the
next start; the others go on. Nothing here runs by itself: the broker calls `flush_jobs`, `retain`,
`remove_job` and `checkpoint_job` on its timers, and runs the jobs in a helper thread.
"""

from __future__ import annotations

import logging
import os
import re
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence

from ottla.errors import ErrorCode, KafkaError
from ottla.storage import checkpoints
from ottla.storage.checkpoints import DamagedError, MetaProperties, TopicPartition
from ottla.storage.files import DiskFiles, Files, Lock, LockedError
from ottla.storage.flush import FlushJob
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dir import LogDir, RemoveJob
from ottla.storage.open_segment_cache import OPEN_FILES_MAX, OpenSegmentCache
from ottla.storage.recovery import LoadLogParams, open_log

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
IGNORED_SUFFIXES = ("-future", STRAY_SUFFIX)
IGNORED_NAMES = ("__cluster_metadata-0",)  # the log of a KRaft quorum, which Ottla does not have
NAME_MAX = 255  # of a directory, on every file system of note
FLUSH_THREADS = 8  # at a clean shutdown
FLUSH_JOBS_MAX = 64  # at once, each with up to 16 files open

_log = logging.getLogger("ottla.storage")
_LOG_NAME = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)\Z")


class LogStoreError(Exception):
    """The directories cannot be used as configured; the message says which and why."""


class CheckpointJob:
    """Checkpoint files to write; the loop's thread has put their bytes together."""

    __slots__ = ("_errors", "_writes", "_written")

    def __init__(
        self, writes: list[tuple[LogDir, str, bytes]], written: dict[tuple[str, str], bytes]
    ) -> None:
        self._writes = writes
        self._written = written
        self._errors: list[tuple[LogDir, str, OSError]] = []

    def run(self) -> None:
        """In any thread. A file that cannot be written keeps its older content, which is safe.

        Between truncations recovery points and high watermarks only rise: an older one means more
        work at the next start, not less than is needed.
        """
        for directory, name, data in self._writes:
            try:
                directory.files.replace(f"{directory.path}/{name}", data, sync=True)
            except OSError as error:
                self._errors.append((directory, name, error))

    def done(self) -> None:
        """In the loop's thread, after `run`. The next job tries again what failed."""
        for directory, name, data in self._writes:
            self._written[directory.path, name] = data
        for directory, name, error in self._errors:
            del self._written[directory.path, name]
            directory.failed(error, name)


class LogStore:
    def __init__(self, dirs: list[LogDir], open_segments: OpenSegmentCache) -> None:
        self.dirs = dirs
        self.defaults = LogConfig()
        self.meta: MetaProperties | None = None
        self._open_segments = open_segments
        self._locks: list[Lock] = []
        self._logs: dict[TopicPartition, Log] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._unreadable: dict[TopicPartition, tuple[LogDir, str]] = {}
        self._written: dict[tuple[str, str], bytes] = {}

    @classmethod
    def open(
        cls,
        log_dirs: Sequence[str],
        defaults: LogConfig,
        now_ms: int,
        *,
        configs: Mapping[str, LogConfig] | None = None,
        node_id: int | None = None,
        cluster_id: str | None = None,
        files: Files | None = None,
        open_files_max: int | None = None,
        on_offline: Callable[[LogDir], None] | None = None,
    ) -> LogStore:
        """Open every log; recover those in a directory that was not shut down cleanly.

        LogStoreError if a directory is in use by another process, or belongs to another cluster or
        broker, or if no directory can be used. `configs` has the topics that override `defaults`.
        """
        files = files or DiskFiles()
        paths = [os.path.abspath(path) for path in log_dirs]
        dirs = [LogDir(files, path) for path in dict.fromkeys(paths)]
        store = cls(dirs, OpenSegmentCache(files_max=open_files_max or _open_files_max()))
        store.defaults = defaults
        try:
            for directory in dirs:
                directory.on_offline = on_offline
                store._open_dir(directory, now_ms, configs or {}, node_id, cluster_id)
        except BaseException:
            store._unlock()
            raise
        if all(directory.offline for directory in dirs):
            store._unlock()
            raise LogStoreError(f"no usable log directory among {', '.join(paths)}")
        return store

    # The logs

    def get(self, topic: str, partition: int) -> Log | None:
        return self._logs.get((topic, partition))

    def logs(self) -> Iterator[Log]:
        return iter(self._logs.values())

    def __len__(self) -> int:
        return len(self._logs)

    def high_watermark(self, topic: str, partition: int) -> int:
        """The checkpointed high watermark; 0 if there is none."""
        return self._high_watermarks.get((topic, partition), 0)

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: bytes | None,
        config: LogConfig | None = None,
        *,
        now_ms: int,
        is_new: bool = True,
    ) -> Log:
        """Create an empty log.

        A partition that is not new to the cluster may have its log in an offline directory. Then
        KAFKA_STORAGE_ERROR is raised: an empty second log could be elected leader, and lose it all.
        """
        if (topic, partition) in self._logs:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"{topic}-{partition} has a log")
        if not is_new and any(directory.offline for directory in self.dirs):
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{partition} may be in an offline directory"
            )
        self._make_way(topic, partition, is_new)
        error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "every log directory is offline")
        for directory in self._by_load():
            try:
                log = self._create_in(directory, topic, partition, topic_id, config, now_ms)
            except OSError as cause:
                error = directory.failed(cause, f"create {topic}-{partition}")
                continue
            self._logs[topic, partition] = log
            directory.log_count += 1
            directory.has_new_names = True
            return log
        raise error

    def delete(self, topic: str, partition: int, *, now_ms: int) -> None:
        """The log is gone at once; its files are deleted after file.delete.delay.ms."""
        log = self._logs.pop((topic, partition), None)
        self._high_watermarks.pop((topic, partition), None)
        if log is None:
            return
        log.close()
        log.dir.log_count -= 1
        if log.dir.offline:
            return
        target = f"{log.dir.path}/{_deleted_name(topic, partition)}"
        try:
            log.dir.files.rename(log.path, target)
        except OSError as error:
            self._unreadable[topic, partition] = (log.dir, log.path)  # in the way of a new log
            raise log.dir.failed(error, f"delete {topic}-{partition}") from error
        log.dir.remove_later(target, now_ms + log.config.file_delete_delay_ms)

    def set_aside(self, topic: str, partition: int) -> None:
        """Rename the log of an unknown topic, so that an operator can look at it."""
        log = self._logs.pop((topic, partition))
        log.close()
        log.dir.log_count -= 1
        if log.dir.offline:
            return
        _log.warning("Found stray log %s: its topic does not exist", log.path)
        _rename_stray(log.dir, log.path, topic, partition)

    def _make_way(self, topic: str, partition: int, is_new: bool) -> None:
        """Move a log that could not be opened out of the way of a new topic's log.

        For an existing topic it stays: an empty log in its place would hide the loss.
        """
        unreadable = self._unreadable.get((topic, partition))
        if unreadable is None:
            return
        if not is_new:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{partition} cannot be read"
            )
        _rename_stray(*unreadable, topic, partition)
        del self._unreadable[topic, partition]

    # What the broker's timers call

    def flush_jobs(self, now_ms: int) -> list[FlushJob]:
        """Flushes of logs whose flush.ms has passed, and of segments rolled since the last call."""
        jobs = []
        for log in self._logs.values():
            try:
                job = log.flush_job(now_ms, active=log.flush_is_due(now_ms))
            except KafkaError:
                continue  # the directory has logged it
            if job is not None:
                jobs.append(job)
        return jobs

    def retain(
        self, now_ms: int, high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> int:
        """Apply retention to every log; returns the number of deleted segments."""
        count = 0
        for name, log in list(self._logs.items()):
            limit = None if high_watermarks is None else high_watermarks.get(name)
            try:
                count += log.retain(now_ms, high_watermark=limit)
            except KafkaError as error:
                _log.error(
                    "Failed to apply retention to %s-%d: %s", log.topic, log.partition, error
                )
        return count

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        return sum(log.expire_producers(now_ms, expiration_ms) for log in self._logs.values())

    def remove_job(self, now_ms: int) -> RemoveJob | None:
        """The deletion of files that are due, for a helper thread: a large file takes a while."""
        due = [
            (directory, path)
            for directory in self.dirs
            if not directory.offline
            for path in directory.take_due(now_ms)
        ]
        return RemoveJob(due) if due else None

    def checkpoint_job(
        self, high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> CheckpointJob | None:
        """Write recovery points, start offsets and high watermarks where they have changed.

        One job at a time: `done` must be called before the next job, and before `close`.
        """
        writes = []
        for directory in self.dirs:
            if directory.offline:
                continue
            for name, data in self._checkpoints(directory, high_watermarks):
                if self._written.get((directory.path, name)) != data:
                    writes.append((directory, name, data))
        return CheckpointJob(writes, self._written) if writes else None

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        job = self.checkpoint_job(high_watermarks)
        if job is not None:
            job.run()
            job.done()

    def close(
        self,
        now_ms: int,
        *,
        high_watermarks: Mapping[TopicPartition, int] | None = None,
        sync: bool = True,
    ) -> None:
        """A clean shutdown. Without `sync` a later power cut may still lose what was written."""
        # A log that could not be opened still needs its recovery, at a start that can do it: no
        # clean shutdown file may tell that start to skip it.
        broken = {directory.path for directory, _ in self._unreadable.values()}
        for log in self._logs.values():
            try:
                log.save()
            except KafkaError:
                broken.add(log.dir.path)  # the directory has logged it
        if sync:
            broken |= self._flush_all(now_ms)
        for log in self._logs.values():
            log.close()
        self.checkpoint(high_watermarks)
        for directory in self.dirs:
            if directory.offline or directory.path in broken:
                continue
            path = f"{directory.path}/{checkpoints.CLEAN_SHUTDOWN}"
            try:
                directory.files.replace(path, checkpoints.write_clean_shutdown(), sync=sync)
            except OSError as error:
                directory.failed(error, "clean shutdown file")
        for directory in self.dirs:
            directory.offline = True  # a reference to a closed log must not write to its files
        self._logs.clear()
        self._unlock()

    def abandon(self) -> None:
        """End as by kill -9, in a process that goes on: what is not written stays unwritten."""
        for directory in self.dirs:
            directory.offline = True
        for log in self._logs.values():
            log.close()
        self._logs.clear()
        self._unlock()

    def _flush_all(self, now_ms: int) -> set[str]:
        """Sync everything to the disk; returns the directories in which that failed.

        Several jobs at a time, because a file system commits the syncs of many files together.
        """
        from concurrent.futures import ThreadPoolExecutor  # not needed to start

        broken: set[str] = set()
        with ThreadPoolExecutor(FLUSH_THREADS) as threads:
            while jobs := self._jobs(now_ms, FLUSH_JOBS_MAX, broken):
                running = [(job, threads.submit(job.run)) for job in jobs]
                for job, result in running:
                    error = result.exception()
                    if error is not None and not isinstance(error, OSError):
                        raise error
                    job.done(error)
                    if error is not None:
                        broken.add(job.directory.path)
        return broken

    def _jobs(self, now_ms: int, count_max: int, broken: set[str]) -> list[FlushJob]:
        jobs: list[FlushJob] = []
        for log in self._logs.values():
            if len(jobs) == count_max:
                break
            if log.dir.path in broken:
                continue
            try:
                job = log.flush_job(now_ms, active=True)
            except KafkaError:
                broken.add(log.dir.path)
                continue
            if job is not None:
                jobs.append(job)
        return jobs

    # Opening

    def _open_dir(
        self,
        directory: LogDir,
        now_ms: int,
        configs: Mapping[str, LogConfig],
        node_id: int | None,
        cluster_id: str | None,
    ) -> None:
        files, path = directory.files, directory.path
        try:
            files.make_dir(path)
            self._locks.append(files.lock(f"{path}/{checkpoints.LOCK}"))
            self._check_meta(directory, node_id, cluster_id)
            names = files.entries(path)
            clean = self._take_clean_shutdown(directory, {entry.name for entry in names})
            recovery_points = self._read_checkpoint(directory, checkpoints.RECOVERY_POINTS)
            start_offsets = self._read_checkpoint(directory, checkpoints.START_OFFSETS)
            cleaner_offsets = self._read_checkpoint(directory, checkpoints.CLEANER_OFFSETS)
            if cleaner_offsets:  # to be written again even if it becomes empty
                self._written[path, checkpoints.CLEANER_OFFSETS] = b""
            self._high_watermarks |= self._read_checkpoint(directory, checkpoints.HIGH_WATERMARKS)
            for name in sorted(entry.name for entry in names if entry.is_dir):
                if name.endswith(DELETE_SUFFIX):
                    directory.remove_later(f"{path}/{name}", now_ms)
                    continue
                match = _LOG_NAME.match(name)
                if match is None or name.endswith(IGNORED_SUFFIXES) or name in IGNORED_NAMES:
                    _log.warning("Ignoring %s/%s: not the directory of a log", path, name)
                    continue
                key = (match[1], int(match[2]))
                params = LoadLogParams(
                    directory=directory,
                    path=f"{path}/{name}",
                    topic=key[0],
                    partition=key[1],
                    config=configs.get(key[0], self.defaults),
                    open_segments=self._open_segments,
                    now_ms=now_ms,
                    clean=clean,
                    recovery_point=max(0, recovery_points.get(key, 0)),
                    start_offset=max(0, start_offsets.get(key, 0)),
                    first_dirty_offset=max(0, cleaner_offsets.get(key, 0)),
                )
                self._adopt(key, params)
        except LockedError:
            raise LogStoreError(
                f"{path} is in use by another process, which holds {path}/{checkpoints.LOCK}"
            ) from None
        except OSError as error:
            directory.failed(error, "open")
            directory.offline = True

    def _adopt(self, key: TopicPartition, params: LoadLogParams) -> None:
        duplicate = self._logs.get(key)
        if duplicate is not None:
            raise LogStoreError(f"{duplicate.path} and {params.path} are the same partition")
        try:
            self._logs[key] = open_log(params)
        except (DamagedError, KafkaError) as damage:  # costs this partition, not the broker
            _log.error("Failed to open log %s, leaving it unchanged: %s", params.path, damage)
            self._unreadable[key] = (params.directory, params.path)
            return
        params.directory.log_count += 1

    def _take_clean_shutdown(self, directory: LogDir, names: set[str]) -> bool:
        """True after a clean shutdown. The file is deleted, and the deletion synced, before any
        write: left behind, it would let the start after a crash skip the recovery."""
        if checkpoints.CLEAN_SHUTDOWN not in names:
            return False
        directory.files.remove(f"{directory.path}/{checkpoints.CLEAN_SHUTDOWN}")
        directory.files.sync(directory.path)
        return True

    def _read_checkpoint(self, directory: LogDir, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offset_checkpoint(
                directory.files.read(f"{directory.path}/{name}")
            )
        except FileNotFoundError:
            return {}
        except DamagedError as damage:
            _log.warning("Ignoring damaged checkpoint %s/%s: %s", directory.path, name, damage)
            return {}

    def _check_meta(self, directory: LogDir, node_id: int | None, cluster_id: str | None) -> None:
        path = f"{directory.path}/{checkpoints.META_PROPERTIES}"
        stored: MetaProperties | None = None
        try:
            stored = checkpoints.read_meta_properties(directory.files.read(path))
        except FileNotFoundError:
            pass
        except DamagedError as damage:
            _log.warning("Rewriting damaged %s: %s", path, damage)
        if stored is not None:
            _compare(path, "cluster.id", stored.cluster_id, cluster_id)
            _compare(path, "node.id", stored.node_id, node_id)
        meta = MetaProperties(
            cluster_id=cluster_id if stored is None else stored.cluster_id or cluster_id,
            node_id=node_id if stored is None or stored.node_id is None else stored.node_id,
            directory_id=(stored.directory_id if stored else None)
            or checkpoints.uuid_text(checkpoints.random_uuid()),
        )
        if meta != stored:
            directory.files.replace(path, checkpoints.write_meta_properties(meta), sync=True)
        directory.directory_id = meta.directory_id
        self.meta = meta

    def _by_load(self) -> list[LogDir]:
        online = [directory for directory in self.dirs if not directory.offline]
        return sorted(online, key=lambda directory: directory.log_count)

    def _create_in(
        self,
        directory: LogDir,
        topic: str,
        partition: int,
        topic_id: bytes | None,
        config: LogConfig | None,
        now_ms: int,
    ) -> Log:
        path = f"{directory.path}/{topic}-{partition}"
        files = directory.files
        try:
            files.make_dir(path)
            if topic_id is not None:
                data = checkpoints.write_partition_metadata(topic_id)
                files.replace(f"{path}/{checkpoints.PARTITION_METADATA}", data, sync=False)
            return open_log(
                LoadLogParams(
                    directory=directory,
                    path=path,
                    topic=topic,
                    partition=partition,
                    config=config or self.defaults,
                    open_segments=self._open_segments,
                    now_ms=now_ms,
                    clean=True,
                )
            )
        except OSError:
            files.remove_tree(path)
            raise

    def _checkpoints(
        self, directory: LogDir, high_watermarks: Mapping[TopicPartition, int] | None
    ) -> Iterator[tuple[str, bytes]]:
        logs = {key: log for key, log in self._logs.items() if log.dir is directory}
        recovery_points = {key: log.recovery_point for key, log in logs.items()}
        yield checkpoints.RECOVERY_POINTS, checkpoints.write_offset_checkpoint(recovery_points)
        start_offsets = {
            key: log.start_offset
            for key, log in logs.items()
            if log.start_offset > log.segments.first_offset
        }
        yield checkpoints.START_OFFSETS, checkpoints.write_offset_checkpoint(start_offsets)
        cleaner_offsets = {
            key: log.first_dirty_offset for key, log in logs.items() if log.first_dirty_offset
        }
        if cleaner_offsets or (directory.path, checkpoints.CLEANER_OFFSETS) in self._written:
            yield checkpoints.CLEANER_OFFSETS, checkpoints.write_offset_checkpoint(cleaner_offsets)
        if high_watermarks is not None:
            checkpointed = {key: high_watermarks[key] for key in logs if key in high_watermarks}
            yield checkpoints.HIGH_WATERMARKS, checkpoints.write_offset_checkpoint(checkpointed)

    def _unlock(self) -> None:
        for lock in self._locks:
            lock.release()
        self._locks.clear()


def _open_files_max() -> int:
    """At most half of what the process may open: the rest is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_MAX if soft < 0 else min(OPEN_FILES_MAX, soft // 2)


def _compare(path: str, name: str, stored: object, configured: object) -> None:
    if stored is not None and configured is not None and stored != configured:
        raise LogStoreError(
            f"{path} has {name}={stored}, but this broker is configured with {configured}"
        )


def _rename_stray(directory: LogDir, path: str, topic: str, partition: int) -> None:
    """Rename a log so that no start opens it, and an operator can look at it."""
    name = _deleted_name(topic, partition).removesuffix(DELETE_SUFFIX) + STRAY_SUFFIX
    _log.warning("Renaming stray log %s to %s", path, name)
    try:
        directory.files.rename(path, f"{directory.path}/{name}")
    except OSError as error:
        raise directory.failed(error, f"set aside {topic}-{partition}") from error


def _deleted_name(topic: str, partition: int) -> str:
    suffix = f"-{partition}.{checkpoints.random_uuid().hex()}{DELETE_SUFFIX}"
    return topic[: NAME_MAX - len(suffix)] + suffix
