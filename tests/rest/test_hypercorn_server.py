"""An HTTP server: reused connections."""

from __future__ import annotations

import http.client
import socket
import time

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ottla.rest.hypercorn_server import HypercornServer

WAIT_S = 240.0
BODY = b'{"ksql": "SHOW STREAMS;"}'


async def refused(request: Request) -> Response:
    """Refuses before any of the body is read."""
    return PlainTextResponse("no statements here", 404)


async def echoed(request: Request) -> Response:
    return Response(await request.body())


APP = Starlette(
    routes=[
        Route("/refused", refused, methods=["POST"]),
        Route("/echoed", echoed, methods=["POST"]),
    ]
)


def test_a_request_refused_before_its_body_keeps_the_connection() -> None:
    with HypercornServer(APP) as serving:
        line = socket.create_connection((serving.host, serving.port), WAIT_S)
        with line:
            line.sendall(head("/refused"))
            time.sleep(0.2)  # time for a server to close the connection
            line.sendall(BODY)
            assert answer(line) == (404, b"no statements here")
            line.sendall(head("/echoed") + BODY)
            assert answer(line) == (200, BODY)


def test_unknown_paths_keep_the_connection() -> None:
    with HypercornServer(APP) as serving:
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


def test_the_server_closes_at_once_despite_idle_connections() -> None:
    with HypercornServer(APP) as serving:
        client = http.client.HTTPConnection(serving.host, serving.port, timeout=WAIT_S)
        client.request("POST", "/echoed", BODY)
        assert client.getresponse().read() == BODY
        began = time.monotonic()
    assert time.monotonic() - began < 60, "sooner than the idle timeout"
    client.close()


def head(path: str) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()


def answer(line: socket.socket) -> tuple[int, bytes]:
    response = http.client.HTTPResponse(line)
    response.begin()
    return response.status, response.read()
