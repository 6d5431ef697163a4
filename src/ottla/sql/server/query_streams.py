"""Query streams: /query-stream, /query and /ws/query send rows as they come."""

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

from ottla.rest.blocking_calls import BlockingCallPool
from ottla.rows.errors import SqlCode, SqlError
from ottla.sql.engine.engine import Engine
from ottla.sql.engine.entities import error_entity
from ottla.sql.engine.query_result import QueryResult
from ottla.sql.server import row_json
from ottla.sql.server.requests import (
    DELIMITED,
    JSON,
    KSQL_JSON,
    PROTOBUF,
    as_sql_error,
    json_object,
    json_request,
    mapping_in,
    text_in,
)
from ottla.sql.server.row_json import dumps
from ottla.sql.server.stream_response import StreamResponse

TAKE_S: Final = 0.5  # how soon a query that was closed elsewhere is noticed
POLICY_VIOLATION: Final = 1008
SERVER_TROUBLE: Final = 1011

log = logging.getLogger("ottla.sql")


class QueryStreams:
    """Opens query results and reads them in threads; their number is limited."""

    def __init__(self, engine: Engine, threads: BlockingCallPool, limit: int) -> None:
        self._engine = engine
        self._threads = threads
        self._limit = limit
        self._opening = 0

    async def open(
        self, text: str, properties: dict[str, Any], variables: dict[str, Any]
    ) -> QueryResult:
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

    async def rows(
        self, answer: QueryResult, write: QueryStreamResponseWriter
    ) -> AsyncGenerator[bytes, None]:
        """The chunks of a response. The query is closed when this generator ends, for any
        reason."""
        try:
            yield write.begin(answer)
            while (rows := await self._threads.run(answer.take, TAKE_S)) is not None:
                if answer.is_push:
                    for row in rows:  # one chunk per row, because some clients expect that
                        yield write.row(row)
                elif rows:
                    yield b"".join(write.row(row) for row in rows)
            yield write.end(answer.message)
        except Exception as error:
            yield write.trouble(as_sql_error(error))
        finally:
            await self.close(answer)

    async def close(self, answer: QueryResult) -> None:
        """Close the query even if the disconnect of the client has cancelled this task."""
        await asyncio.shield(self._threads.run(self._engine.close_query, answer.query_id))


@dataclass(frozen=True, slots=True)
class QueryStreamResponseWriter:
    """How a result is written: its header, each row, its end, and an error."""

    begin: Callable[[QueryResult], bytes]
    row: Callable[[Any], bytes]
    end: Callable[[str], bytes]
    trouble: Callable[[SqlError], bytes]
    media: str


def _lines() -> QueryStreamResponseWriter:
    """Lines of JSON: first the header, then an array for each row."""
    return QueryStreamResponseWriter(
        begin=lambda answer: dumps(row_json.header(answer)) + b"\n",
        row=lambda row: row_json.row_json(row) + b"\n",
        end=lambda message: b"",
        trouble=lambda error: dumps(error_entity(error)) + b"\n",
        media=DELIMITED,
    )


def _array() -> QueryStreamResponseWriter:
    """One JSON array: the header, then the rows."""
    return QueryStreamResponseWriter(
        begin=lambda answer: b"[" + dumps(row_json.header(answer)),
        row=lambda row: b",\n" + row_json.row_json(row),
        end=lambda message: b"]",
        trouble=lambda error: b",\n" + dumps(error_entity(error)) + b"]",
        media=JSON,
    )


def _old() -> QueryStreamResponseWriter:
    """The format of /query: an array of objects, whose only field is the kind of content."""

    def end(message: str) -> bytes:
        return b",\n" + dumps({"finalMessage": message}) + b"]\n" if message else b"]\n"

    return QueryStreamResponseWriter(
        begin=lambda answer: b"[" + dumps(row_json.old_header(answer)),
        row=lambda row: b",\n" + dumps(row_json.old_row(row)),
        end=end,
        trouble=lambda error: b",\n" + dumps({"errorMessage": error_entity(error)}) + b"]\n",
        media=KSQL_JSON,
    )


def _protobuf(answer: QueryResult) -> QueryStreamResponseWriter:
    """Like /query, but rows are Protobuf messages, and the header has their schema."""
    rows = row_json.ProtobufRows(answer)
    return replace(
        _old(),
        begin=lambda answer: b"[" + dumps(rows.header(answer)),
        row=lambda row: b",\n" + dumps(rows.row(row)),
        media=PROTOBUF,
    )


def _text() -> QueryStreamResponseWriter:
    """PRINT: lines of text."""
    return QueryStreamResponseWriter(
        begin=lambda answer: b"",
        row=lambda row: str(row.values[0]).encode() + b"\n",
        end=lambda message: b"",
        trouble=lambda error: str(error).encode() + b"\n",
        media="text/plain",
    )


async def query_stream(request: Request, streams: QueryStreams) -> Response:
    fields = await json_request(request)
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
    return StreamResponse(streams.rows(answer, writing), writing.media)


async def old_query(request: Request, streams: QueryStreams) -> Response:
    fields = await json_request(request)
    answer = await streams.open(
        text_in(fields, "ksql", "sql"),
        mapping_in(fields, "streamsProperties", "properties"),
        mapping_in(fields, "sessionVariables"),
    )
    writing = _old() if answer.names else _text()
    return StreamResponse(streams.rows(answer, writing), writing.media)


async def websocket_query(
    socket: WebSocket, streams: QueryStreams, threads: BlockingCallPool
) -> None:
    """One message with the schema, then one for each row; closing the socket closes the query."""
    await socket.accept()
    try:
        fields = json_object(socket.query_params.get("request", "").encode())
        answer = await streams.open(
            text_in(fields, "ksql", "sql"),
            mapping_in(fields, "streamsProperties"),
            mapping_in(fields, "sessionVariables"),
        )
    except Exception as error:
        sql_error = as_sql_error(error)
        await socket.send_text(dumps({"error": error_entity(sql_error)}).decode())
        await socket.close(POLICY_VIOLATION, sql_error.message[:100])
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
    """Wait until the client disconnects; ignore its messages."""
    with contextlib.suppress(WebSocketDisconnect):
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass


async def _send_rows(socket: WebSocket, answer: QueryResult, threads: BlockingCallPool) -> None:
    try:
        if answer.names:
            pairs = zip(answer.names, answer.types, strict=True)
            schema = [{"name": name, "schema": type_.to_json()} for name, type_ in pairs]
            await socket.send_text(dumps(schema).decode())
        while (rows := await threads.run(answer.take, TAKE_S)) is not None:
            for row in rows:
                text = dumps(row_json.old_row(row)).decode() if answer.names else row.values[0]
                await socket.send_text(str(text))
        if answer.message:
            await socket.send_text(dumps({"finalMessage": answer.message}).decode())
        await socket.close()
    except Exception as error:
        with contextlib.suppress(Exception):  # the client may have gone
            sql_error = as_sql_error(error)
            await socket.send_text(dumps({"error": error_entity(sql_error)}).decode())
            await socket.close(SERVER_TROUBLE, sql_error.message[:100])
