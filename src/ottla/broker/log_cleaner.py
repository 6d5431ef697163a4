"""The log cleaner: another process compacts, and the broker swaps in what it has written.

Each of log.cleaner.threads tasks takes the dirtiest log, sends a plan to its process, and swaps in
each segment that comes back for its sources. A process is started when a log is dirty and ends when
none is, so a broker without compacted topics has none.

A log that was truncated, deleted or reconfigured meanwhile stays as it is: the swap checks first,
and a cleaning that cannot be used any more is aborted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.errors import KafkaError
from ottla.storage.cleaner import Cleaner, CleanerConfig, CleanerTask
from ottla.storage.cleaner_plan import CleanerStats, read_report

if TYPE_CHECKING:
    from ottla.clock import Clock
    from ottla.config import ServerConfig
    from ottla.replica.partitions import Partitions
    from ottla.storage.log import Log
    from ottla.storage.store import LogStore

MODULE: Final = "ottla.broker.cleaner_process"
LOOK_INTERVAL_S: Final = 1.0  # how often to check that a cleaning is still of use
PAUSE_S_MIN: Final = 0.01  # with a log.cleaner.backoff.ms of 0 the loop would do nothing else
DEATHS_MAX: Final = 3  # of the process, while cleaning one log, before that log is skipped
ANSWER_SIZE_MAX: Final = 16 * 1024 * 1024  # a line: a group may have very many segments
RATE_MAX: Final = 1e15  # bytes a second; Kafka's default is the largest double: no limit

log = logging.getLogger("ottla.broker")


class CleanerProcess:
    """The cleaner's process, and the socket to it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._writer = writer
        self.reader = reader

    @classmethod
    async def start(cls) -> CleanerProcess:
        return await cls.connect(*start_process())

    @classmethod
    async def connect(cls, process: subprocess.Popen[bytes], line: socket.socket) -> CleanerProcess:
        reader, writer = await asyncio.open_unix_connection(sock=line, limit=ANSWER_SIZE_MAX)
        return cls(process, reader, writer)

    def send(self, task: CleanerTask) -> None:
        self._writer.write(task.plan.write())

    def end(self) -> None:
        """Kill it. What it was writing is void, and the next process removes it first."""
        self._writer.close()
        self._process.kill()
        self._process.wait()


def start_process() -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        descriptor = theirs.fileno()
        command = [sys.executable, "-m", MODULE, str(descriptor)]
        try:
            process = subprocess.Popen(command, pass_fds=(descriptor,), stdin=subprocess.DEVNULL)
        except BaseException:
            ours.close()
            raise
    return process, ours


class LogCleaner:
    """Compacts logs until it is stopped, with log.cleaner.threads processes at most."""

    def __init__(
        self,
        store: LogStore,
        partitions: Partitions,
        *,
        config: Callable[[], ServerConfig],
        clock: Clock,
    ) -> None:
        self._partitions = partitions
        self._store = store
        self._config = config
        self._clock = clock
        self._cleaner = Cleaner(self._stable_offset)
        self._tasks: list[asyncio.Task[None]] = []
        self._deaths: Counter[str] = Counter()

    def start(self) -> None:
        config = self._config()
        if config.log_cleaner_enable:
            for _ in range(config.log_cleaner_threads):
                self._tasks.append(asyncio.get_running_loop().create_task(self._run()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _stable_offset(self, of: Log) -> int:
        """Up to where a log may be cleaned; -1 if not at all."""
        partition = self._partitions.of_topic(of.topic).get(of.partition)
        return -1 if partition is None else partition.last_stable_offset

    async def _run(self) -> None:
        worker: CleanerProcess | None = None
        try:
            while True:
                task = self._next()
                if task is not None:
                    worker = await self._clean(worker, task)
                    if worker is not None:
                        continue
                elif worker is not None:
                    worker.end()
                    worker = None
                pause_s = self._config().log_cleaner_backoff_ms / 1000
                await asyncio.sleep(max(PAUSE_S_MIN, pause_s))
        finally:
            if worker is not None:
                worker.end()

    def _next(self) -> CleanerTask | None:
        try:
            return self._cleaner.next_task(
                self._store.logs(), limits(self._config()), self._clock.now_ms()
            )
        except Exception:  # or the task would end, unnoticed
            log.exception("Choosing a log to clean failed; retrying")
            return None

    async def _clean(
        self, worker: CleanerProcess | None, task: CleanerTask
    ) -> CleanerProcess | None:
        """Clean one log. Returns the process, or None if it had to be killed."""
        done = False
        try:
            if worker is None:
                worker = await CleanerProcess.start()
            worker.send(task)
            done = await self._follow(worker, task)
        except ConnectionError:
            self._died(task)
        except (OSError, KafkaError) as error:  # of a directory that is offline now, or no process
            log.error("%s: cleaning failed: %s", task.log.name, error)
        except Exception as error:  # or the others would not be cleaned either
            log.exception("%s: cleaning failed", task.log.name)
            self._cleaner.mark_uncleanable(task.log, str(error))
        finally:
            self._cleaner.end(task)
            if not done and worker is not None:
                worker.end()
                task.discard()
        return worker if done else None

    async def _follow(self, worker: CleanerProcess, task: CleanerTask) -> bool:
        """Swap in segments as the process finishes them; False if it stopped before the end."""
        while True:
            line = b""
            with contextlib.suppress(TimeoutError):
                line = await asyncio.wait_for(worker.reader.readline(), LOOK_INTERVAL_S)
                if not line:
                    self._died(task)
                    return False
            if task.is_void:
                log.info("%s: cleaning aborted, because the log has changed", task.log.name)
                return False
            if not line:
                continue
            answer = read_report(line)
            if answer.cleaned is not None:
                task.swap(answer.cleaned, self._clock.now_ms())
            if answer.finished is not None:
                return self._finished(task, answer.finished)

    def _finished(self, task: CleanerTask, finished: CleanerStats) -> bool:
        self._deaths.pop(task.log.name, None)
        if not finished.failure:
            task.finish(finished)
            return True
        if task.has_lost_sources:
            log.info("%s: cleaning aborted, because segments were deleted", task.log.name)
            return False
        if finished.passing:
            log.error("%s: cleaning failed: %s", task.log.name, finished.failure)
            return False
        task.discard()
        self._cleaner.mark_uncleanable(task.log, finished.failure)
        return True

    def _died(self, task: CleanerTask) -> None:
        name = task.log.name
        self._deaths[name] += 1
        log.error("%s: the cleaner process died while cleaning it", name)
        if self._deaths[name] >= DEATHS_MAX:
            self._cleaner.mark_uncleanable(task.log, f"the process ended {DEATHS_MAX} times")


def limits(config: ServerConfig) -> CleanerConfig:
    """The limits of one process: memory and disk bandwidth are divided between all of them."""
    threads = max(1, config.log_cleaner_threads)
    table_size = config.log_cleaner_dedupe_buffer_size * config.log_cleaner_io_buffer_load_factor
    rate = config.log_cleaner_io_max_bytes_per_second / threads
    return CleanerConfig(
        table_size=int(table_size / threads),
        buffer_size=config.log_cleaner_io_buffer_size // threads // 2,  # one to read, one to write
        bytes_per_second=rate if rate < RATE_MAX else None,
    )
