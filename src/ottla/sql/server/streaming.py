"""Rows as they come: /query-stream, /query, /ws/query, and how a client ends them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from ottla.rows.errors import SqlCode, SqlError
from ottla.sql.engine.answer import Answer
from ottla.sql.engine.engine import Engine
from ottla.sql.engine.entities import error_entity
from ottla.sql.server import encoding
from ottla.sql.server.encoding import dumps
from ottla.sql.server.flow import Flow
from ottla.sql.server.requests import (
    DELIMITED,
    JSON,
    KSQL_JSON,
    PROTOBUF,
    Threads,
    as_sql_error,
    body_of,
    mapping_in,
    object_of,
    text_in,
)

TAKE_S: Final = 0.5  # how soon a query that was closed elsewhere is seen to be
POLICY_VIOLATION: Final = 1008
SERVER_TROUBLE: Final = 1011

log = logging.getLogger("ottla.sql")


class Streams:
    """Answers opened and read, in threads; so many at once and not more."""

    def __init__(self, engine: Engine, threads: Threads, limit: int) -> None:
        self._engine = engine
        self._threads = threads
        self._limit = limit
        self._opening = 0

    async def open(
        self, text: str, properties: dict[str, Any], variables: dict[str, Any]
    ) -> Answer:
        if self._engine.open_queries + self._opening >= self._limit:
            raise SqlError(
                f"Maximum number of push queries exceeded: {self._limit} are open.",
                remedy="Close one, or raise ksql.max.push.queries.",
                code=SqlCode.BAD_REQUEST,
            )
        self._opening += 1
        try:
            return await self._threads.run(self._engine.query, text, properties, variables)
        finally:
            self._opening -= 1

    async def rows(self, answer: Answer, write: Writing) -> AsyncGenerator[bytes, None]:
        """Everything that is sent of an answer. Whatever ends this ends the query."""
        try:
            yield write.begin(answer)
            while (rows := await self._threads.run(answer.take, TAKE_S)) is not None:
                if answer.is_push:
                    for each in rows:  # one by one: there are clients that take a chunk for a row
                        yield write.row(each)
                elif rows:
                    yield b"".join(write.row(each) for each in rows)
            yield write.end(answer.message)
        except Exception as error:
            yield write.trouble(as_sql_error(error))
        finally:
            await self.close(answer)

    async def close(self, answer: Answer) -> None:
        """Even when the client's going away has cancelled who was reading."""
        await asyncio.shield(self._threads.run(self._engine.close_query, answer.query_id))


@dataclass(frozen=True, slots=True)
class Writing:
    """How an answer is written: what stands before, at each row, behind, and at a failure."""

    begin: Callable[[Answer], bytes]
    row: Callable[[Any], bytes]
    end: Callable[[str], bytes]
    trouble: Callable[[SqlError], bytes]
    media: str


def _lines() -> Writing:
    """Lines of JSON: first the header, then an array for each row."""
    return Writing(
        begin=lambda answer: dumps(encoding.header(answer)) + b"\n",
        row=lambda row: encoding.row_json(row) + b"\n",
        end=lambda message: b"",
        trouble=lambda error: dumps(error_entity(error)) + b"\n",
        media=DELIMITED,
    )


def _array() -> Writing:
    """One JSON array: the header, then the rows."""
    return Writing(
        begin=lambda answer: b"[" + dumps(encoding.header(answer)),
        row=lambda row: b",\n" + encoding.row_json(row),
        end=lambda message: b"]",
        trouble=lambda error: b",\n" + dumps(error_entity(error)) + b"]",
        media=JSON,
    )


def _old() -> Writing:
    """What /query has always sent: an array of objects with one field that says what it is."""

    def end(message: str) -> bytes:
        return b",\n" + dumps({"finalMessage": message}) + b"]\n" if message else b"]\n"

    return Writing(
        begin=lambda answer: b"[" + dumps(encoding.old_header(answer)),
        row=lambda row: b",\n" + dumps(encoding.old_row(row)),
        end=end,
        trouble=lambda error: b",\n" + dumps({"errorMessage": error_entity(error)}) + b"]\n",
        media=KSQL_JSON,
    )


def _protobuf(answer: Answer) -> Writing:
    """As /query has it, but each row is a message, and the header has the schema of messages."""
    rows = encoding.RowMessages(answer)
    return replace(
        _old(),
        begin=lambda answer: b"[" + dumps(rows.header(answer)),
        row=lambda row: b",\n" + dumps(rows.row(row)),
        media=PROTOBUF,
    )


def _text() -> Writing:
    """PRINT: lines of text."""
    return Writing(
        begin=lambda answer: b"",
        row=lambda row: str(row.values[0]).encode() + b"\n",
        end=lambda message: b"",
        trouble=lambda error: str(error).encode() + b"\n",
        media="text/plain",
    )


async def query_stream(request: Request, streams: Streams) -> Response:
    fields = object_of(await body_of(request))
    answer = await streams.open(
        text_in(fields, "sql", "ksql"),
        mapping_in(fields, "properties", "streamsProperties"),
        mapping_in(fields, "sessionVariables"),
    )
    if not answer.names:
        writing = _text()
    elif PROTOBUF in request.headers.get("accept", ""):
        writing = _protobuf(answer)
    elif JSON in request.headers.get("accept", ""):
        writing = _array()
    else:
        writing = _lines()
    return Flow(streams.rows(answer, writing), writing.media)


async def old_query(request: Request, streams: Streams) -> Response:
    fields = object_of(await body_of(request))
    answer = await streams.open(
        text_in(fields, "ksql", "sql"),
        mapping_in(fields, "streamsProperties", "properties"),
        mapping_in(fields, "sessionVariables"),
    )
    writing = _old() if answer.names else _text()
    return Flow(streams.rows(answer, writing), writing.media)


async def websocket_query(socket: WebSocket, streams: Streams, threads: Threads) -> None:
    """One message with the schema, then one for each row; closing the socket ends the query."""
    await socket.accept()
    try:
        fields = object_of(socket.query_params.get("request", "").encode())
        answer = await streams.open(
            text_in(fields, "ksql", "sql"),
            mapping_in(fields, "streamsProperties"),
            mapping_in(fields, "sessionVariables"),
        )
    except Exception as error:
        told = as_sql_error(error)
        await socket.send_text(dumps({"error": error_entity(told)}).decode())
        await socket.close(POLICY_VIOLATION, told.message[:100])
        return
    leaving = asyncio.ensure_future(_left(socket))
    sending = asyncio.ensure_future(_send_rows(socket, answer, threads))
    try:
        await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await streams.close(answer)
        for task in (leaving, sending):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


async def _left(socket: WebSocket) -> None:
    """Returns when the client has gone; what it says until then is of no interest."""
    with contextlib.suppress(WebSocketDisconnect):
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass


async def _send_rows(socket: WebSocket, answer: Answer, threads: Threads) -> None:
    try:
        if answer.names:
            pairs = zip(answer.names, answer.types, strict=True)
            schema = [{"name": name, "schema": type_.to_json()} for name, type_ in pairs]
            await socket.send_text(dumps(schema).decode())
        while (rows := await threads.run(answer.take, TAKE_S)) is not None:
            for row in rows:
                text = dumps(encoding.old_row(row)).decode() if answer.names else row.values[0]
                await socket.send_text(str(text))
        if answer.message:
            await socket.send_text(dumps({"finalMessage": answer.message}).decode())
        await socket.close()
    except Exception as error:
        with contextlib.suppress(Exception):  # it may be gone
            told = as_sql_error(error)
            await socket.send_text(dumps({"error": error_entity(told)}).decode())
            await socket.close(SERVER_TROUBLE, told.message[:100])
