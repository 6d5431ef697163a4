"""The ASGI application: requests in, JSON out, errors in Confluent's form."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from typing import Final

from starlette.types import Receive, Scope, Send

from ottla.auth.audit import printable
from ottla.errors import ErrorCode, KafkaError
from ottla.registry.kafka_schema_registry import KafkaSchemaRegistry
from ottla.registry.registry_error import RegistryError
from ottla.registry.rest.call import RawText, RestCall
from ottla.registry.rest.router import Handler, Query, Router
from ottla.registry.rest.routes import ROUTES
from ottla.registry.subject_access import SubjectRights
from ottla.rest.guard import caller_of

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
MEDIA_TYPES: Final = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
REQUEST_ID: Final = b"x-request-id"
STORE_ERROR: Final = 50001
TIMEOUT: Final = 50002
TOO_LARGE: Final = 42209
BAD_REQUEST: Final = 400
NOT_FOUND: Final = 404
NO_CONTENT: Final = 204

log = logging.getLogger("ottla.registry")


class RegistryApp:
    def __init__(self, registry: KafkaSchemaRegistry) -> None:
        self._registry = registry
        self._router = Router(ROUTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "no WebSocket is served here"
        headers = dict(scope["headers"])
        status, answer = 200, None
        try:
            body = await read_body(receive)
            answer = await self._answer(scope, body)
            status = NO_CONTENT if answer is None else 200
        except Exception as error:
            failure = registry_error(error)
            status = failure.status
            answer = {"error_code": failure.code, "message": failure.message}
        data = answer.text if isinstance(answer, RawText) else json.dumps(answer)
        await send_answer(send, status, data if answer is not None else "", headers)

    async def _answer(self, scope: Scope, body: bytes) -> object:
        raw_path = scope.get("raw_path") or scope["path"].encode()
        found = self._router.find(scope["method"], raw_path, scope["query_string"])
        try:
            return await self._handled(found, body, scope)
        except RegistryError as error:
            # Another instance may have written it a moment ago: catch up, and look again.
            if error.status != NOT_FOUND or not await self._registry.catch_up():
                raise
        return await self._handled(found, body, scope)

    async def _handled(
        self, found: tuple[Handler, dict[str, str], Query], body: bytes, scope: Scope
    ) -> object:
        handler, words, query = found
        rights = self._rights(scope)
        return await handler(RestCall(self._registry, words, query, body, rights))

    def _rights(self, scope: Scope) -> SubjectRights | None:
        access = self._registry.access
        if access is None:
            return None
        caller, client = caller_of(scope), scope.get("client")
        return access.rights(
            None if caller is None else caller.name,
            client[0] if client else "",
            f"{scope['method']} {printable(scope['path'])}",
        )


async def read_body(receive: Receive) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":  # the body is incomplete
            raise RegistryError(BAD_REQUEST, "The connection ended before the request did")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > BODY_BYTES_MAX:
            raise RegistryError(TOO_LARGE, f"A request has at most {BODY_BYTES_MAX} bytes")
        if not message.get("more_body"):
            return b"".join(parts)


async def send_answer(send: Send, status: int, text: str, request: Mapping[bytes, bytes]) -> None:
    data = text.encode()
    headers = [
        (b"content-type", media_type(request.get(b"accept", b"")).encode()),
        (b"content-length", str(len(data)).encode()),
        (REQUEST_ID, request.get(REQUEST_ID) or str(uuid.uuid4()).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


def media_type(accepted: bytes) -> str:
    """The first of our media types that the client accepts by name."""
    if accepted:
        media_ranges = [
            media_range.partition(";")[0].strip()
            for media_range in accepted.decode("latin-1").split(",")
        ]
        for media_range in media_ranges:
            if media_range in MEDIA_TYPES:
                return media_range
    return MEDIA_TYPES[0]


def registry_error(error: Exception) -> RegistryError:
    if isinstance(error, RegistryError):
        return error
    if isinstance(error, KafkaError):
        if error.code == ErrorCode.REQUEST_TIMED_OUT:
            return RegistryError(TIMEOUT, f"Write to the Kafka store timed out: {error}")
        if error.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
            return RegistryError(TOO_LARGE, "Write failed because schema is too large")
        return RegistryError(STORE_ERROR, f"Error from the backend Kafka store: {error}")
    log.error("Request failed", exc_info=error)
    return RegistryError(500, f"Internal Server Error: {type(error).__name__}")
