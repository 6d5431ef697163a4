"""HTTP around an app: connections that are used again."""

from __future__ import annotations

import http.client
import socket
import time

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ottla.spark.serving import Serving

WAIT_S = 240.0
BODY = b'{"ksql": "SHOW STREAMS;"}'


async def refused(request: Request) -> Response:
    """Before the body is there, or any of it was read."""
    return PlainTextResponse("no statements here", 404)


async def echoed(request: Request) -> Response:
    return Response(await request.body())


APP = Starlette(
    routes=[
        Route("/refused", refused, methods=["POST"]),
        Route("/echoed", echoed, methods=["POST"]),
    ]
)


def test_a_request_that_is_refused_before_its_body_came_ends_no_connection() -> None:
    with Serving(APP) as serving:
        line = socket.create_connection((serving.host, serving.port), WAIT_S)
        with line:
            line.sendall(head("/refused"))
            time.sleep(0.2)  # time to hang up, for a server that does
            line.sendall(BODY)
            assert answer(line) == (404, b"no statements here")
            line.sendall(head("/echoed") + BODY)
            assert answer(line) == (200, BODY)


def test_paths_that_are_not_there_end_no_connection() -> None:
    with Serving(APP) as serving:
        client = http.client.HTTPConnection(serving.host, serving.port, timeout=WAIT_S)
        client.connect()
        line = client.sock
        for path, status in (("/nowhere", 404), ("/echoed", 200)):
            client.request("POST", path, BODY)
            response = client.getresponse()
            response.read()
            assert response.status == status
            assert client.sock is line, "the same connection"
        client.close()


def test_it_closes_at_once_beside_idle_connections() -> None:
    with Serving(APP) as serving:
        client = http.client.HTTPConnection(serving.host, serving.port, timeout=WAIT_S)
        client.request("POST", "/echoed", BODY)
        assert client.getresponse().read() == BODY
        began = time.monotonic()
    assert time.monotonic() - began < 60, "not as long as a connection may be idle"
    client.close()


def head(path: str) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()


def answer(line: socket.socket) -> tuple[int, bytes]:
    response = http.client.HTTPResponse(line)
    response.begin()
    return response.status, response.read()
