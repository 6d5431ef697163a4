"""Request bodies, and responses and errors in Kafka Connect's JSON."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.connect.errors import ConnectException
from ottla.connect.herder.rest_exceptions import ConnectRestException, bad_request
from ottla.errors import KafkaError

JSON: Final = "application/json"

log = logging.getLogger("ottla.connect")


def check_json_request(request: Request) -> None:
    """Raises ConnectRestException (415) if the Content-Type is anything else."""
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON and request.method in ("POST", "PUT", "PATCH"):
        raise ConnectRestException(415, "HTTP 415 Unsupported Media Type")


def too_large(message: str) -> ConnectRestException:
    return ConnectRestException(413, message)


def object_of(data: bytes) -> dict[str, Any]:
    """The body as a JSON object; raises ConnectRestException otherwise."""
    try:
        found = json.loads(data)
    except ValueError as error:
        raise bad_request(f"The body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise bad_request("The body is not a JSON object.")
    return found


def texts_of(found: Any) -> dict[str, Any]:
    """A config: numbers and booleans become strings, as with Jackson; null stays null."""
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
    refusal = as_rest_exception(error)
    return json_response({"error_code": refusal.status, "message": refusal.message}, refusal.status)


def as_rest_exception(error: Exception) -> ConnectRestException:
    if isinstance(error, ConnectRestException):
        return error
    if isinstance(error, TimeoutError):
        return ConnectRestException(500, "Request timed out")
    if isinstance(error, (KafkaError, ConnectException)):
        return ConnectRestException(500, str(error))
    log.error("Uncaught exception in REST call", exc_info=error)
    return ConnectRestException(500, f"{type(error).__name__}: {error}")
