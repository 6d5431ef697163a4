"""Serves large requests in portions: between two of them, the loop serves everybody else.

Decoding and encoding a large message is pure, and creates an object for every few bytes: a helper
thread does it. The handler runs on the loop as always, but for one portion at a time (portions.py).
All large requests together get one portion in a turn of the loop, so that many of them hold up
other requests no more than one does. The connection waits, so its requests stay in order.

A Produce is never cut: its number of partitions is limited instead, because a portion that waits
for replicas must hold up neither the rest nor other requests. Requests may wait for a follower's
Fetch, so a Fetch must not wait for them: it does not count among LARGE_REQUESTS_MAX.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from ottla.broker.client_session import ClientSession
from ottla.broker.portions import Portions, check_counts, portions_of
from ottla.wire.apis import ApiKey
from ottla.wire.connection import READ_BYTES_MAX, Request, UnreadBody
from ottla.wire.fields import Message, Writer

# Smaller requests are never cut: they have few things, or cheap ones. A Fetch is looked at only if
# it is large by the measure of `wire/`.
WHOLE_BYTES_MAX: Final = 1024

# Large requests that are read, handled or written at the same time: each may take 100 MB. The
# others wait unread.
LARGE_REQUESTS_MAX: Final = 8

T = TypeVar("T")
Serve = Callable[[Request], Any]


def may_be_large(request: Request) -> bool:
    """HOT. True if the request has to be examined."""
    key = request.api_key
    return key != ApiKey.PRODUCE and (key != ApiKey.FETCH or request.size > READ_BYTES_MAX)


class EncodedResponse(Message):
    """A response that is encoded already."""

    __slots__ = ("data", "response")

    def __init__(self, response: Message, data: bytearray) -> None:
        self.response = response
        self.data = data

    def write(self, writer: Writer, version: int) -> None:
        writer.buffer += self.data


class LargeRequests:
    """The large requests of one broker."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._closed = False
        self._portion = asyncio.Lock()
        self._under_way = asyncio.Semaphore(LARGE_REQUESTS_MAX)

    def close(self) -> None:
        self._closed = True
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

    async def off_loop(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run pure work on bytes and messages on the helper thread."""
        if self._closed:
            raise asyncio.CancelledError
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="ottla-messages")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, work, *arguments)

    def serve(self, session: ClientSession, request: Request, serve: Serve) -> Any:
        """Like `serve(request)`, which is what happens unless the request is large."""
        body = request.body
        if isinstance(body, UnreadBody):
            return self._read_and_serve(session, request, body, serve)
        portions = None if body is None else portions_of(request.api_key, body)
        return serve(request) if portions is None else self._serve_cut(request, portions, serve)

    async def _read_and_serve(
        self, session: ClientSession, request: Request, unread: UnreadBody, serve: Serve
    ) -> Any:
        if request.api_key == ApiKey.FETCH:
            request.body = await self.off_loop(read_large, request.api_key, unread)
            return await _awaited(session, serve(request))
        async with self._under_way:
            request.body = body = await self.off_loop(read_large, request.api_key, unread)
            portions = portions_of(request.api_key, body)
            if portions is not None:
                return await self._encoded(request, await self._portions(request, portions, serve))
        # It can't be cut, and may wait for long: a JoinGroup does.
        return await _awaited(session, serve(request))

    async def _serve_cut(self, request: Request, portions: Portions, serve: Serve) -> Any:
        async with self._under_way:
            response = await self._portions(request, portions, serve)
        return await self._encoded(request, response)

    async def _encoded(self, request: Request, response: Message) -> EncodedResponse:
        data = await self.off_loop(_written, response, request.version)
        return EncodedResponse(response, data)

    async def _portions(self, request: Request, portions: Portions, serve: Serve) -> Any:
        sizes = itertools.chain([request.size], itertools.repeat(0))  # quotas count it once
        assert request.body is not None
        return await self.in_portions(
            request.body, portions, lambda body: serve(request.portion(body, next(sizes)))
        )

    async def in_portions(
        self, body: Message, portions: Portions, serve: Callable[[Message], Any]
    ) -> Any:
        """Serve the portions one after another, and join their responses. An error of the whole
        request ends it. A disconnect does not: what a client has sent is carried out."""
        joined: Any = None
        for portion, depth in portions.of(body):
            response = await self._turn(partial(serve, portion))
            failed: int = getattr(response, "error_code", 0)
            if joined is None or failed:
                joined = response
            else:
                portions.join(joined, response, depth)
            if failed:
                break
        return joined

    async def _turn(self, work: Callable[[], Any]) -> Any:
        """Do the work in a turn of the loop in which no other portion is served."""
        async with self._portion:
            answer = work()
            if not inspect.isawaitable(answer):
                await asyncio.sleep(0)
                return answer
            answer = asyncio.ensure_future(answer)
            await asyncio.sleep(0)
        return await answer


def read_large(api_key: int, unread: UnreadBody) -> Message:
    """For the helper thread. ProtocolError if it can't be read, or can't be cut where it must."""
    body = unread.read()
    check_counts(api_key, body)
    return body


def _written(response: Message, version: int) -> bytearray:
    writer = Writer()
    response.write(writer, version)
    return writer.buffer


async def _awaited(session: ClientSession, answer: Any) -> Any:
    """Await the response. A delayed operation, such as a waiting fetch, ends with its client."""
    if not inspect.isawaitable(answer):
        return answer
    if isinstance(answer, asyncio.Future) and not isinstance(answer, asyncio.Task):
        session.wait = answer
        if session.closed:  # the client disconnected while its request was being read
            answer.cancel()
    try:
        return await answer
    finally:
        session.wait = None
