"""All logs of a broker, over one or several directories (`log.dirs`).

    <dir>/meta.properties .lock .kafka_cleanshutdown recovery-point-offset-checkpoint ...
    <dir>/<topic>-<partition>/00000000000000000000.log ...
    <dir>/<topic>-<partition>.<uuid>-delete/              a deleted log, until its files are removed

A new log goes to the directory that has the fewest. A directory that fails is out of use until the
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
from ottla.storage.directory import LogDir, RemoveJob
from ottla.storage.files import DiskFiles, Files, Lock, LockedError
from ottla.storage.flush import FlushJob
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.recovery import Opening, open_log
from ottla.storage.residents import OPEN_FILES_MAX, Residents

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
IGNORED_SUFFIXES = ("-future", STRAY_SUFFIX)
IGNORED_NAMES = ("__cluster_metadata-0",)  # a KRaft quorum's own log, which is none of ours
NAME_MAX = 255  # of a directory, on every file system of note
FLUSH_THREADS = 8  # at a clean end
FLUSH_JOBS_MAX = 64  # at once, each with up to 16 files open

_log = logging.getLogger("ottla.storage")
_LOG_NAME = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)\Z")


class StoreError(Exception):
    """The directories cannot be used as configured; the message says which and why."""


class CheckpointJob:
    """Checkpoint files to be written; their bytes were put together in the loop's thread."""

    __slots__ = ("_errors", "_writes", "_written")

    def __init__(
        self, writes: list[tuple[LogDir, str, bytes]], written: dict[tuple[str, str], bytes]
    ) -> None:
        self._writes = writes
        self._written = written
        self._errors: list[tuple[LogDir, str, OSError]] = []

    def run(self) -> None:
        """In any thread. One that cannot be written leaves the older one, which is safe."""
        for directory, name, data in self._writes:
            try:
                directory.files.replace(f"{directory.path}/{name}", data, sync=True)
            except OSError as error:
                self._errors.append((directory, name, error))

    def done(self) -> None:
        """In the loop's thread, after `run`. What failed is tried again with the next job."""
        for directory, name, data in self._writes:
            self._written[directory.path, name] = data
        for directory, name, error in self._errors:
            del self._written[directory.path, name]
            directory.failed(error, name)


class LogStore:
    def __init__(self, dirs: list[LogDir], residents: Residents) -> None:
        self.dirs = dirs
        self.defaults = LogConfig()
        self.meta: MetaProperties | None = None
        self._residents = residents
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
        """Open every log there is; recover those of a directory that was not closed cleanly.

        StoreError if a directory is in use by another process, or belongs to another cluster or
        broker, or if none can be used at all. `configs` are those of topics with settings of their
        own.
        """
        files = files or DiskFiles()
        paths = [os.path.abspath(path) for path in log_dirs]
        dirs = [LogDir(files, path) for path in dict.fromkeys(paths)]
        store = cls(dirs, Residents(files_max=open_files_max or _open_files_max()))
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
            raise StoreError(f"no usable log directory among {', '.join(paths)}")
        return store

    # The logs

    def get(self, topic: str, partition: int) -> Log | None:
        return self._logs.get((topic, partition))

    def logs(self) -> Iterator[Log]:
        return iter(self._logs.values())

    def __len__(self) -> int:
        return len(self._logs)

    def high_watermark(self, topic: str, partition: int) -> int:
        """As it was when it was last written down; 0 if never."""
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
        """An empty log. One that is not new to the cluster may lie in a directory which is offline:

        then it is not made again elsewhere, but KAFKA_STORAGE_ERROR raised.
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
        """Gone at once for everybody; its files are removed after file.delete.delay.ms."""
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
            self._unreadable[topic, partition] = (log.dir, log.path)  # in a new one's way
            raise log.dir.failed(error, f"delete {topic}-{partition}") from error
        log.dir.remove_later(target, now_ms + log.config.file_delete_delay_ms)

    def set_aside(self, topic: str, partition: int) -> None:
        """A log of no known topic: kept under another name, for somebody to look at."""
        log = self._logs.pop((topic, partition))
        log.close()
        log.dir.log_count -= 1
        if log.dir.offline:
            return
        _log.warning("%s belongs to no topic", log.path)
        _rename_stray(log.dir, log.path, topic, partition)

    def _make_way(self, topic: str, partition: int, is_new: bool) -> None:
        """A log that could not be opened is not begun anew, unless by a new topic of that name."""
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
        """Logs whose flush.ms is over, and segments that were rolled since the last time."""
        jobs = []
        for log in self._logs.values():
            try:
                job = log.flush_job(now_ms, active=log.flush_is_due(now_ms))
            except KafkaError:
                continue  # said and acted upon by the directory
            if job is not None:
                jobs.append(job)
        return jobs

    def retain(
        self, now_ms: int, high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> int:
        """Retention in every log; gives the number of segments that went."""
        count = 0
        for name, log in list(self._logs.items()):
            limit = None if high_watermarks is None else high_watermarks.get(name)
            try:
                count += log.retain(now_ms, high_watermark=limit)
            except KafkaError as error:
                _log.error("%s-%d: retention: %s", log.topic, log.partition, error)
        return count

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        return sum(log.expire_producers(now_ms, expiration_ms) for log in self._logs.values())

    def remove_job(self, now_ms: int) -> RemoveJob | None:
        """The removal of files that are due; for a helper thread, as large ones take a while."""
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
        """Recovery points, start offsets and high watermarks, where they have changed.

        One job at a time: the next is asked for when this one is done, and so is `close`.
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
        """A clean end. Without `sync` it is clean for a process that ends, not for a power cut."""
        # A log that could not be opened may yet need its recovery, at a start that can do it.
        broken = {directory.path for directory, _ in self._unreadable.values()}
        for log in self._logs.values():
            try:
                log.save()
            except KafkaError:
                broken.add(log.dir.path)  # said by the directory
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
            directory.offline = True  # whoever still holds a log of ours does not write to it
        self._logs.clear()
        self._unlock()

    def abandon(self) -> None:
        """An end as by kill -9, in a process that goes on: what was not written stays unwritten."""
        for directory in self.dirs:
            directory.offline = True
        for log in self._logs.values():
            log.close()
        self._logs.clear()
        self._unlock()

    def _flush_all(self, now_ms: int) -> set[str]:
        """Everything onto the disk; gives the directories in which that failed.

        Several at a time, since a file system writes down the syncs of many files in one go.
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
            points = self._read_checkpoint(directory, checkpoints.RECOVERY_POINTS)
            starts = self._read_checkpoint(directory, checkpoints.START_OFFSETS)
            dirty = self._read_checkpoint(directory, checkpoints.CLEANER_OFFSETS)
            if dirty:  # to be written again, even when it becomes empty
                self._written[path, checkpoints.CLEANER_OFFSETS] = b""
            self._high_watermarks |= self._read_checkpoint(directory, checkpoints.HIGH_WATERMARKS)
            for name in sorted(entry.name for entry in names if entry.is_dir):
                if name.endswith(DELETE_SUFFIX):
                    directory.remove_later(f"{path}/{name}", now_ms)
                    continue
                found = _LOG_NAME.match(name)
                if found is None or name.endswith(IGNORED_SUFFIXES) or name in IGNORED_NAMES:
                    _log.warning("%s/%s is not a log and is left alone", path, name)
                    continue
                key = (found[1], int(found[2]))
                opening = Opening(
                    directory=directory,
                    path=f"{path}/{name}",
                    topic=key[0],
                    partition=key[1],
                    config=configs.get(key[0], self.defaults),
                    residents=self._residents,
                    now_ms=now_ms,
                    clean=clean,
                    recovery_point=max(0, points.get(key, 0)),
                    start_offset=max(0, starts.get(key, 0)),
                    first_dirty_offset=max(0, dirty.get(key, 0)),
                )
                self._adopt(key, opening)
        except LockedError:
            raise StoreError(
                f"{path} is in use by another process, which holds {path}/{checkpoints.LOCK}"
            ) from None
        except OSError as error:
            directory.failed(error, "open")
            directory.offline = True

    def _adopt(self, key: TopicPartition, opening: Opening) -> None:
        other = self._logs.get(key)
        if other is not None:
            raise StoreError(f"{other.path} and {opening.path} are the same partition")
        try:
            self._logs[key] = open_log(opening)
        except (DamagedError, KafkaError) as damage:  # costs this partition, not the broker
            _log.error("%s cannot be opened and is left as it is: %s", opening.path, damage)
            self._unreadable[key] = (opening.directory, opening.path)
            return
        opening.directory.log_count += 1

    def _take_clean_shutdown(self, directory: LogDir, names: set[str]) -> bool:
        """The file counts once: it is gone, for good, before anything is written."""
        if checkpoints.CLEAN_SHUTDOWN not in names:
            return False
        directory.files.remove(f"{directory.path}/{checkpoints.CLEAN_SHUTDOWN}")
        directory.files.sync(directory.path)
        return True

    def _read_checkpoint(self, directory: LogDir, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(directory.files.read(f"{directory.path}/{name}"))
        except FileNotFoundError:
            return {}
        except DamagedError as damage:
            _log.warning("%s/%s is done without: %s", directory.path, name, damage)
            return {}

    def _check_meta(self, directory: LogDir, node_id: int | None, cluster_id: str | None) -> None:
        path = f"{directory.path}/{checkpoints.META_PROPERTIES}"
        known: MetaProperties | None = None
        try:
            known = checkpoints.read_meta_properties(directory.files.read(path))
        except FileNotFoundError:
            pass
        except DamagedError as damage:
            _log.warning("%s is written anew: %s", path, damage)
        if known is not None:
            _compare(path, "cluster.id", known.cluster_id, cluster_id)
            _compare(path, "node.id", known.node_id, node_id)
        meta = MetaProperties(
            cluster_id=cluster_id if known is None else known.cluster_id or cluster_id,
            node_id=node_id if known is None or known.node_id is None else known.node_id,
            directory_id=(known.directory_id if known else None)
            or checkpoints.uuid_text(checkpoints.random_uuid()),
        )
        if meta != known:
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
                Opening(
                    directory=directory,
                    path=path,
                    topic=topic,
                    partition=partition,
                    config=config or self.defaults,
                    residents=self._residents,
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
        points = {key: log.recovery_point for key, log in logs.items()}
        yield checkpoints.RECOVERY_POINTS, checkpoints.write_offsets(points)
        starts = {
            key: log.start_offset
            for key, log in logs.items()
            if log.start_offset > log.segments.first_offset
        }
        yield checkpoints.START_OFFSETS, checkpoints.write_offsets(starts)
        dirty = {key: log.first_dirty_offset for key, log in logs.items() if log.first_dirty_offset}
        if dirty or (directory.path, checkpoints.CLEANER_OFFSETS) in self._written:
            yield checkpoints.CLEANER_OFFSETS, checkpoints.write_offsets(dirty)
        if high_watermarks is not None:
            marks = {key: high_watermarks[key] for key in logs if key in high_watermarks}
            yield checkpoints.HIGH_WATERMARKS, checkpoints.write_offsets(marks)

    def _unlock(self) -> None:
        for lock in self._locks:
            lock.release()
        self._locks.clear()


def _open_files_max() -> int:
    """At most half of what the process may open: the rest is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_MAX if soft < 0 else min(OPEN_FILES_MAX, soft // 2)


def _compare(path: str, name: str, known: object, wanted: object) -> None:
    if known is not None and wanted is not None and known != wanted:
        raise StoreError(f"{path} says {name}={known}, but this broker's is {wanted}")


def _rename_stray(directory: LogDir, path: str, topic: str, partition: int) -> None:
    """Under a name that no start takes for a log's, for somebody to look at."""
    name = _deleted_name(topic, partition).removesuffix(DELETE_SUFFIX) + STRAY_SUFFIX
    _log.warning("%s is renamed to %s", path, name)
    try:
        directory.files.rename(path, f"{directory.path}/{name}")
    except OSError as error:
        raise directory.failed(error, f"set aside {topic}-{partition}") from error


def _deleted_name(topic: str, partition: int) -> str:
    suffix = f"-{partition}.{checkpoints.random_uuid().hex()}{DELETE_SUFFIX}"
    return topic[: NAME_MAX - len(suffix)] + suffix
