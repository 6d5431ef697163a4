"""What a broker does on its own, from time to time: retention, flushing, checkpoints, expiry.

Each chore is a plain function that runs on the loop's thread and is quick; what may take long
(fsync, removing files) comes back as jobs, which run one after the other on a helper thread that
never sees a Log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

Job = Callable[[], object]
Chore = Callable[[int], Iterable[Job] | None]  # takes now_ms

log = logging.getLogger("ottla.broker")


class Housekeeping:
    """A timer for each chore, and one thread for the slow part of all of them."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ottla-housekeeping")
        self._pending: set[asyncio.Future[object]] = set()
        self._stopped = False

    def every(self, interval_ms: int, name: str, chore: Chore) -> None:
        """Run `chore` each interval. A chore whose jobs are still running is left out once."""
        if not self._stopped:
            self._timers[name] = self._loop.call_later(
                interval_ms / 1000, self._run, interval_ms, name, chore
            )

    def _run(self, interval_ms: int, name: str, chore: Chore) -> None:
        try:
            for job in chore(self._now_ms()) or ():
                self.do(job)
        except Exception:
            log.exception("housekeeping: %s failed; it will be tried again", name)
        self.every(interval_ms, name, chore)

    def do(self, job: Job) -> None:
        future = self._loop.run_in_executor(self._thread, job)
        self._pending.add(future)
        future.add_done_callback(self._done)

    def _done(self, future: asyncio.Future[object]) -> None:
        self._pending.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            log.error("housekeeping: a background job failed", exc_info=error)

    async def stop(self) -> None:
        """No new chores; jobs under way are finished."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        if self._pending:
            await asyncio.wait(self._pending)
        self._thread.shutdown()
