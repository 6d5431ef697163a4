"""Scheduled tasks: failures, slow background jobs, and the shutdown."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable, Iterable

import pytest
from data_path_broker import until

from ottla.broker.scheduler import BackgroundJob, Scheduler


def keep(test: Callable[[Scheduler], Awaitable[None]]) -> None:
    async def main() -> None:
        chores = Scheduler(lambda: 42)
        try:
            await test(chores)
        finally:
            await chores.stop()

    asyncio.run(main())


def test_a_failed_task_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    async def test(chores: Scheduler) -> None:
        calls: list[int] = []

        def chore(now_ms: int) -> None:
            calls.append(now_ms)
            if len(calls) == 1:
                raise RuntimeError("a bug")

        chores.every(0, "test", chore)  # 0 is taken for the shortest there is
        await until(lambda: len(calls) == 3)
        assert calls == [42] * 3

    keep(test)
    assert caplog.text.count("Periodic task test failed; it runs again after its interval") == 1


def test_jobs_run_off_the_loop_and_complete_on_it(caplog: pytest.LogCaptureFixture) -> None:
    async def test(chores: Scheduler) -> None:
        here = threading.get_ident()
        ran: list[int] = []
        answer: list[OSError | None] = []

        def run() -> None:
            ran.append(threading.get_ident())

        def fail() -> None:
            raise OSError(errno.EIO, "the disk")

        def break_() -> None:
            raise RuntimeError("a bug")

        def done(error: OSError | None) -> None:
            assert threading.get_ident() == here
            answer.append(error)

        jobs = [
            BackgroundJob(run, done),
            BackgroundJob(fail, done),
            BackgroundJob(break_, done),
            BackgroundJob(run),
            BackgroundJob(run, done),
        ]
        chores.every(1, "test", lambda _: [jobs.pop(0)] if jobs else None)
        await until(lambda: len(answer) == 3)
        first, second, third = answer
        assert (first, third) == (None, None)
        assert isinstance(second, OSError)
        assert len(ran) == 3
        assert here not in ran

    keep(test)
    assert "job of test failed" in caplog.text
    assert "a bug" in caplog.text


def test_a_task_with_unfinished_jobs_is_skipped() -> None:
    async def test(chores: Scheduler) -> None:
        gate = threading.Event()
        slow, quick = 0, 0

        def hold_up(now_ms: int) -> Iterable[BackgroundJob]:
            nonlocal slow
            slow += 1
            return [BackgroundJob(gate.wait), BackgroundJob(gate.wait)]

        def go_on(now_ms: int) -> None:
            nonlocal quick
            quick += 1

        chores.every(1, "slow", hold_up)
        chores.every(1, "quick", go_on)
        await until(lambda: quick >= 5)
        assert slow == 1
        gate.set()
        await until(lambda: slow > 1)

    keep(test)


def test_the_shutdown_waits_for_running_jobs() -> None:
    async def main() -> None:
        chores = Scheduler(lambda: 42)
        began, gate = threading.Event(), threading.Event()
        answer: list[OSError | None] = []

        def run() -> None:
            began.set()
            gate.wait()

        chores.every(1, "test", lambda _: [BackgroundJob(run, answer.append)])
        await until(began.is_set)
        ending = asyncio.ensure_future(chores.stop())
        await asyncio.sleep(0.01)
        assert not ending.done()
        gate.set()
        await ending
        assert answer == [None]

    asyncio.run(main())
