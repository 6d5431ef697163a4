"""Promises: the effects of a callback that raises."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path

import pytest
from data_path_broker import Client, run

from ottla.broker.promise import Promise, all_of
from ottla.coordinator.result import CoordinatorResult


def fail(value: int) -> int:
    raise ValueError(f"a bug at {value}")


def test_a_failing_callback_fails_only_the_promise_derived_from_it() -> None:
    async def act() -> None:
        promise = Promise[int]()
        failing = promise.then(fail).then(str).result()
        reply = promise.then(str).result()
        assert isinstance(failing, asyncio.Future)
        assert isinstance(reply, asyncio.Future)
        promise.resolve(7)
        assert await reply == "7"
        with pytest.raises(ValueError, match="a bug at 7"):
            await failing

    asyncio.run(act())


def test_all_of_fails_when_one_promise_fails() -> None:
    async def act() -> None:
        promises = [Promise[int]() for _ in range(3)]
        waiting = all_of([promises[0], promises[1].then(fail), promises[2].then(fail)]).result()
        assert isinstance(waiting, asyncio.Future)
        for promise in promises:
            promise.resolve(1)
        with pytest.raises(ValueError, match="a bug at 1"):
            await waiting

    asyncio.run(act())


def test_nothing_of_all_that_came_is_left_to_the_garbage_collector() -> None:
    class Value:
        pass

    def play() -> weakref.ref[Value]:
        promises = [Promise[Value]() for _ in range(2)]
        found = all_of(promises).then(len)
        value = Value()
        for promise in promises:
            promise.resolve(value)
        assert found.value == 2
        return weakref.ref(value)

    gc.disable()
    try:
        assert play()() is None
    finally:
        gc.enable()


def test_an_unobserved_failure_is_logged_and_raised_to_later_callers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    promise = Promise[int]()
    made = promise.then(fail)
    promise.resolve(3)
    assert "ValueError: a bug at 3" in caplog.text
    assert not made.is_resolved
    with pytest.raises(ValueError, match="a bug at 3"):
        made.result()
    with pytest.raises(ValueError, match="a bug at 3"):
        made.then(str).result()


def test_a_failing_reply_delays_neither_other_replies_nor_markers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(client: Client) -> None:
        service = client.broker.transactions
        decided: list[CoordinatorResult] = []
        monkeypatch.setattr(service, "decided", lambda result, now_ms: decided.append(result))
        one, twice, other = (Promise[int]() for _ in range(3))
        failing = one.then(fail).result()
        assert isinstance(failing, asyncio.Future)
        twice.resolve(0)
        result = CoordinatorResult(0)
        result.replies += [(one, 1), (twice, 2), (other, 3)]
        service.carry_out(result, client.broker.clock.now_ms())
        assert other.value == 3
        assert decided == [result]
        with pytest.raises(ValueError, match="a bug at 1"):
            await failing

    run(tmp_path, act)
    assert "__transaction_state: the reply int was not sent" in caplog.text
