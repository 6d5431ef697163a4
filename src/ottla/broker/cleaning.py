"""The log cleaner beside the broker: a process which reads and writes, while this only swaps.

One task for each of log.cleaner.threads takes the filthiest log, sends its plan to a process of its
own, and puts each segment that comes back in the place of its sources. The process is started when
something is dirty and ends when nothing is, so that a broker without compacted topics has none.

A log that was cut, deleted or reconfigured meanwhile keeps what it has: the swap looks first, and a
cleaning that can no longer be of use is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

from ottla.errors import KafkaError
from ottla.storage.cleaner import Cleaner, Limits, Task
from ottla.storage.cleaner_plan import Finished, read_answer

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.config import ServerConfig
    from ottla.storage.log import Log

MODULE: Final = "ottla.broker.cleaner_process"
LOOK_INTERVAL_S: Final = 1.0  # how often to see whether a cleaning is still of use
PAUSE_S_MIN: Final = 0.01  # a log.cleaner.backoff.ms of 0 would keep the loop from everything else
DEATHS_MAX: Final = 3  # of the process, over one log, before that log is left alone
ANSWER_SIZE_MAX: Final = 16 * 1024 * 1024  # a line: a group may have very many segments
RATE_MAX: Final = 1e15  # bytes a second; Kafka's default is the largest double: no limit

log = logging.getLogger("ottla.broker")


class Worker:
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
    async def start(cls) -> Worker:
        return await cls.connect(*spawn())

    @classmethod
    async def connect(cls, process: subprocess.Popen[bytes], line: socket.socket) -> Worker:
        reader, writer = await asyncio.open_unix_connection(sock=line, limit=ANSWER_SIZE_MAX)
        return cls(process, reader, writer)

    def send(self, task: Task) -> None:
        self._writer.write(task.plan.write())

    def end(self) -> None:
        """At once: what it was writing is void, and the next one begins by removing it."""
        self._writer.close()
        self._process.kill()
        self._process.wait()


def spawn() -> tuple[subprocess.Popen[bytes], socket.socket]:
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


class Cleaning:
    """Keeps compacted logs compact, until it is stopped."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._cleaner = Cleaner(self._stable_offset)
        self._tasks: list[asyncio.Task[None]] = []
        self._deaths: Counter[str] = Counter()

    def start(self) -> None:
        if self._broker.config.log_cleaner_enable:
            for _ in range(self._broker.config.log_cleaner_threads):
                self._tasks.append(asyncio.get_running_loop().create_task(self._run()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        worker: Worker | None = None
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
                pause_s = self._broker.config.log_cleaner_backoff_ms / 1000
                await asyncio.sleep(max(PAUSE_S_MIN, pause_s))
        finally:
            if worker is not None:
                worker.end()

    def _next(self) -> Task | None:
        broker = self._broker
        try:
            return self._cleaner.next_task(
                broker.store.logs(), limits(broker.config), broker.clock.now_ms()
            )
        except Exception:  # a timer that ends for good would not be noticed
            log.exception("the cleaner cannot choose; it will try again")
            return None

    async def _clean(self, worker: Worker | None, task: Task) -> Worker | None:
        """Clean one log. The worker if all went well, and None if it had to be ended."""
        done = False
        try:
            if worker is None:
                worker = await Worker.start()
            worker.send(task)
            done = await self._follow(worker, task)
        except ConnectionError:
            self._died(task)
        except (OSError, KafkaError) as error:  # of a directory that is offline now, or no process
            log.error("%s: cleaning failed: %s", task.log.name, error)
        except Exception as error:  # or the others would not be cleaned either
            log.exception("%s: cleaning failed", task.log.name)
            self._cleaner.give_up(task.log, str(error))
        finally:
            self._cleaner.end(task)
            if not done and worker is not None:
                worker.end()
                task.discard()
        return worker if done else None

    async def _follow(self, worker: Worker, task: Task) -> bool:
        """Swap in what the worker has made, until it is finished; False if it did not get there."""
        while True:
            line = b""
            with contextlib.suppress(TimeoutError):
                line = await asyncio.wait_for(worker.reader.readline(), LOOK_INTERVAL_S)
                if not line:
                    self._died(task)
                    return False
            if task.is_void:
                log.info("%s: cleaning ended, as the log has changed", task.log.name)
                return False
            if not line:
                continue
            answer = read_answer(line)
            if answer.cleaned is not None:
                task.swap(answer.cleaned, self._broker.clock.now_ms())
            if answer.finished is not None:
                return self._finished(task, answer.finished)

    def _finished(self, task: Task, finished: Finished) -> bool:
        self._deaths.pop(task.log.name, None)
        if not finished.failure:
            task.finish(finished)
            return True
        if task.has_lost_sources:
            log.info("%s: cleaning ended, as some of it was deleted", task.log.name)
            return False
        if finished.passing:
            log.error("%s: cleaning failed: %s", task.log.name, finished.failure)
            return False
        task.discard()
        self._cleaner.give_up(task.log, finished.failure)
        return True

    def _died(self, task: Task) -> None:
        name = task.log.name
        self._deaths[name] += 1
        log.error("%s: the cleaner's process ended in the middle of it", name)
        if self._deaths[name] >= DEATHS_MAX:
            self._cleaner.give_up(task.log, f"the process ended {DEATHS_MAX} times")

    def _stable_offset(self, of: Log) -> int:
        partition = self._broker.partitions.of_topic(of.topic).get(of.partition)
        return -1 if partition is None else partition.last_stable_offset


def limits(config: ServerConfig) -> Limits:
    """What one process may use: memory and disk are shared by all of them."""
    threads = max(1, config.log_cleaner_threads)
    table_size = config.log_cleaner_dedupe_buffer_size * config.log_cleaner_io_buffer_load_factor
    rate = config.log_cleaner_io_max_bytes_per_second / threads
    return Limits(
        table_size=int(table_size / threads),
        buffer_size=config.log_cleaner_io_buffer_size // threads // 2,  # one to read, one to write
        bytes_per_second=rate if rate < RATE_MAX else None,
    )
