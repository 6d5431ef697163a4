"""Runs periodic tasks: retention, flushing, checkpoints, expiry.

A task is a plain function that runs on the loop's thread and is quick. What may take long (fsync,
removing files) it returns as background jobs, which run one after another on a helper thread that
never sees a Log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

INTERVAL_MS_MIN: Final = 10  # with an interval of 0 the loop would do nothing else

log = logging.getLogger("ottla.broker")


def ignore_outcome(error: OSError | None) -> None:
    """For a job whose outcome does not matter."""


class BackgroundJob(NamedTuple):
    """`run` on the helper thread, then `done` on the loop's, with the disk's error if any."""

    run: Callable[[], object]
    done: Callable[[OSError | None], object] = ignore_outcome


ScheduledTask = Callable[[int], Iterable[BackgroundJob] | None]  # takes now_ms


class Scheduler:
    """A timer for each task, and one thread for the slow parts of all of them."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ottla-housekeeping")
        self._pending: set[asyncio.Future[object]] = set()
        self._running: Counter[str] = Counter()  # jobs of each task
        self._stopped = False

    def every(self, interval_ms: int, name: str, chore: ScheduledTask) -> None:
        """Run `chore` once in each interval; skip it while its jobs are still running."""
        if not self._stopped:
            self._timers[name] = self._loop.call_later(
                max(interval_ms, INTERVAL_MS_MIN) / 1000, self._run, interval_ms, name, chore
            )

    def _run(self, interval_ms: int, name: str, chore: ScheduledTask) -> None:
        try:
            if not self._running[name]:
                for job in chore(self._now_ms()) or ():
                    self._do(name, job)
        except Exception:
            log.exception("Periodic task %s failed; it runs again after its interval", name)
        self.every(interval_ms, name, chore)

    def _do(self, name: str, job: BackgroundJob) -> None:
        future: asyncio.Future[object] = self._loop.run_in_executor(self._thread, job.run)
        self._running[name] += 1
        self._pending.add(future)
        future.add_done_callback(partial(self._done, name, job))

    def _done(self, name: str, job: BackgroundJob, future: asyncio.Future[object]) -> None:
        self._running[name] -= 1
        self._pending.discard(future)
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            log.error("Background job of %s failed", name, exc_info=error)
        if error is None or isinstance(error, OSError):
            job.done(error)

    async def stop(self) -> None:
        """Start no more tasks, and wait for the jobs that are running."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        if self._pending:
            await asyncio.wait(self._pending)
        self._thread.shutdown()
