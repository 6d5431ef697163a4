"""Pages over HTTP, and responses to misbehaving clients."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.net.loop import run
from ottla.net.pages import Page, PageServer

Answer = tuple[int, dict[str, str], bytes]


def serve(
    act: Callable[[PageServer, int], Awaitable[None]],
    make: Callable[[], Awaitable[Page]] | None = None,
    host: str = "127.0.0.1",
    **limits: Any,
) -> None:
    async def hello() -> Page:
        return Page("text/plain", b"hello\n")

    async def play() -> None:
        server = PageServer({"/hello": make or hello}, **limits)
        port = await server.start(host, 0)
        try:
            await act(server, port)
        finally:
            await server.stop()

    run(play())


async def ask(port: int, method: str = "GET", path: str = "/hello") -> Answer:
    def call() -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, path)
        response = connection.getresponse()
        answer = response.status, dict(response.getheaders()), response.read()
        connection.close()
        return answer

    return await asyncio.to_thread(call)


def test_a_page_is_rendered_for_each_request() -> None:
    made = []

    async def make() -> Page:
        made.append(1)
        return Page("text/plain", b"x" * 3_000_000)  # more than a socket takes at once

    async def act(server: PageServer, port: int) -> None:
        for count in (1, 2):
            status, headers, body = await ask(port, path="/hello?why=not")
            assert (status, len(body)) == (200, 3_000_000)
            assert headers["Content-Type"] == "text/plain"
            assert len(made) == count

    serve(act, make)


def test_an_empty_host_is_every_interface() -> None:
    async def act(server: PageServer, port: int) -> None:
        assert (await ask(port))[0] == 200

    serve(act, host="")


def test_head_has_the_length_and_no_body() -> None:
    async def act(server: PageServer, port: int) -> None:
        status, headers, body = await ask(port, "HEAD")
        assert (status, headers["Content-Length"], body) == (200, "6", b"")

    serve(act)


def test_other_paths_and_methods_are_refused() -> None:
    async def act(server: PageServer, port: int) -> None:
        assert (await ask(port, path="/"))[0] == 404
        assert (await ask(port, "POST"))[0] == 405

    serve(act)


def test_a_page_that_fails_to_render_logs_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def make() -> Page:
        raise ZeroDivisionError

    async def act(server: PageServer, port: int) -> None:
        with caplog.at_level(logging.ERROR, "ottla.net"):
            assert (await ask(port))[0] == 500

    serve(act, make)
    assert "Failed to make page /hello" in caplog.text


@pytest.mark.parametrize("said", [b"", b"GET /hello HTTP/1.1\r\n", b"x" * 40_000])
def test_a_client_that_sends_no_request_in_time_is_closed(said: bytes) -> None:
    async def act(server: PageServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        with contextlib.suppress(ConnectionResetError):  # with bytes of ours that nobody read
            assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        server._request_timeout_s = 60  # even of a busy machine
        assert (await ask(port))[0] == 200

    serve(act, request_timeout_s=0.05)


def test_too_many_simultaneous_requests_are_answered_with_unavailable() -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    async def make() -> Page:
        begun.set()
        await gate.wait()
        return Page("text/plain", b"late")

    async def act(server: PageServer, port: int) -> None:
        first = asyncio.create_task(ask(port))
        await asyncio.wait_for(begun.wait(), 60)
        assert (await ask(port))[0] == 503
        gate.set()
        assert (await first)[2] == b"late"

    serve(act, make, connections_max=1)


def test_a_stop_ends_running_requests() -> None:
    begun = asyncio.Event()

    async def make() -> Page:
        begun.set()
        await asyncio.sleep(600)
        raise AssertionError

    async def act(server: PageServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /hello HTTP/1.1\r\n\r\n")
        await asyncio.wait_for(begun.wait(), 60)
        await asyncio.wait_for(server.stop(), 60)
        with pytest.raises((ConnectionError, EOFError)):
            assert await reader.readexactly(1)
        writer.close()

    serve(act, make)


def test_a_port_in_use_is_an_oserror() -> None:
    async def act(server: PageServer, port: int) -> None:
        with pytest.raises(OSError):
            await PageServer({}).start("127.0.0.1", port)

    serve(act)
