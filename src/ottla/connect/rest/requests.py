"""Requests read and answered: bodies with a limit, errors in Kafka Connect's shape."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ottla.connect.errors import ConnectException
from ottla.connect.herder.refusals import Refusal, bad_request
from ottla.errors import KafkaError

BODY_BYTES_MAX: Final = 8 << 20
THREADS_MAX: Final = 32
JSON: Final = "application/json"

log = logging.getLogger("ottla.connect")
_T = TypeVar("_T")


class Threads:
    """Where everything that waits for the broker or another worker runs: never on the loop."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="ottla-connect-rest")

    async def run(self, work: Callable[..., _T], *arguments: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)


def check_json(request: Request) -> None:
    """Who sends something else, and says so, is refused."""
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON and request.method in ("POST", "PUT", "PATCH"):
        raise Refusal(415, "HTTP 415 Unsupported Media Type")


async def body_of(request: Request) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > BODY_BYTES_MAX:
            raise Refusal(413, f"The request has more than {BODY_BYTES_MAX} bytes.")
        chunks.append(chunk)
    return b"".join(chunks)


def object_of(data: bytes) -> dict[str, Any]:
    """A JSON object; a Refusal if this is none."""
    try:
        found = json.loads(data)
    except ValueError as error:
        raise bad_request(f"The body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise bad_request("The body is not a JSON object.")
    return found


def texts_of(found: Any) -> dict[str, Any]:
    """A config: Jackson makes text of numbers and booleans, and so do we; null stays."""
    if not isinstance(found, dict):
        raise bad_request("The config is not a JSON object of names and values.")
    return {name: _text(value) for name, value in found.items()}


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        raise bad_request("The value of a setting is text, and neither an object nor a list.")
    return json.dumps(value)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(data, status, headers, JSON)


def empty(status: int = 204) -> Response:
    return Response(None, status)


def error_response(error: Exception) -> Response:
    told = as_refusal(error)
    return json_response({"error_code": told.status, "message": told.message}, told.status)


def as_refusal(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, TimeoutError):
        return Refusal(500, "Request timed out")
    if isinstance(error, (KafkaError, ConnectException)):
        return Refusal(500, str(error))
    log.error("a request failed", exc_info=error)
    return Refusal(500, f"{type(error).__name__}: {error}")
