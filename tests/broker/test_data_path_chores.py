"""Housekeeping: chores that fail, jobs that take their time, and the end of it all."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable, Iterable

import pytest
from data_path_broker import until

from ottla.broker.housekeeping import Housekeeping, Job


def keep(test: Callable[[Housekeeping], Awaitable[None]]) -> None:
    async def main() -> None:
        chores = Housekeeping(lambda: 42)
        try:
            await test(chores)
        finally:
            await chores.stop()

    asyncio.run(main())


def test_a_chore_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def test(chores: Housekeeping) -> None:
        calls: list[int] = []

        def chore(now_ms: int) -> None:
            calls.append(now_ms)
            if len(calls) == 1:
                raise RuntimeError("a bug")

        chores.every(0, "test", chore)  # 0 is taken for the shortest there is
        await until(lambda: len(calls) == 3)
        assert calls == [42] * 3

    keep(test)
    assert caplog.text.count("housekeeping: test failed; it will be tried again") == 1


def test_jobs_run_elsewhere_and_are_done_here(caplog: pytest.LogCaptureFixture) -> None:
    async def test(chores: Housekeeping) -> None:
        here = threading.get_ident()
        ran: list[int] = []
        told: list[OSError | None] = []

        def run() -> None:
            ran.append(threading.get_ident())

        def fail() -> None:
            raise OSError(errno.EIO, "the disk")

        def break_() -> None:
            raise RuntimeError("a bug")

        def done(error: OSError | None) -> None:
            assert threading.get_ident() == here
            told.append(error)

        jobs = [Job(run, done), Job(fail, done), Job(break_, done), Job(run), Job(run, done)]
        chores.every(1, "test", lambda _: [jobs.pop(0)] if jobs else None)
        await until(lambda: len(told) == 3)
        first, second, third = told
        assert (first, third) == (None, None)
        assert isinstance(second, OSError)
        assert len(ran) == 3
        assert here not in ran

    keep(test)
    assert "a job of test failed" in caplog.text
    assert "a bug" in caplog.text


def test_a_chore_whose_jobs_are_not_done_is_left_out() -> None:
    async def test(chores: Housekeeping) -> None:
        gate = threading.Event()
        slow, quick = 0, 0

        def hold_up(now_ms: int) -> Iterable[Job]:
            nonlocal slow
            slow += 1
            return [Job(gate.wait), Job(gate.wait)]

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


def test_the_end_waits_for_what_is_under_way() -> None:
    async def main() -> None:
        chores = Housekeeping(lambda: 42)
        began, gate = threading.Event(), threading.Event()
        told: list[OSError | None] = []

        def run() -> None:
            began.set()
            gate.wait()

        chores.every(1, "test", lambda _: [Job(run, told.append)])
        await until(began.is_set)
        ending = asyncio.ensure_future(chores.stop())
        await asyncio.sleep(0.01)
        assert not ending.done()
        gate.set()
        await ending
        assert told == [None]

    asyncio.run(main())
