"""/inserts-stream: reads rows and writes an acknowledgement for each, both as lines of JSON."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.rest.blocking_calls import BlockingCallPool
from ottla.rows.errors import SqlCode, SqlError
from ottla.sql.engine.engine import Engine
from ottla.sql.server.requests import DELIMITED, JSON, as_sql_error, json_object, text_in
from ottla.sql.server.row_json import dumps
from ottla.sql.server.stream_response import StreamResponse

LINE_BYTES_MAX: Final = 1 << 20


async def inserts_stream(request: Request, engine: Engine, threads: BlockingCallPool) -> Response:
    lines = _lines(request)
    first = await anext(lines, None)
    if first is None:
        raise SqlError(
            "No arguments for the insert stream.",
            remedy='The first line has the target: {"target": "ORDERS"}',
            code=SqlCode.BAD_REQUEST,
        )
    target = _name(text_in(json_object(first), "target"))
    source = engine.state.catalog.find(target)
    if source.read_only:
        raise SqlError(
            f"Cannot insert into read-only {source.kind.lower()}: {target}",
            remedy="CREATE without SOURCE makes one that can be written.",
            code=SqlCode.BAD_REQUEST,
        )
    as_array = JSON in request.headers.get("accept", "")
    acks = _acknowledged(lines, target, engine, threads, as_array=as_array)
    return StreamResponse(acks, JSON if as_array else DELIMITED, watching=False)


async def _acknowledged(
    lines: AsyncIterator[bytes],
    target: str,
    engine: Engine,
    threads: BlockingCallPool,
    *,
    as_array: bool,
) -> AsyncGenerator[bytes, None]:
    """Insert rows one after another; the next one is read after this one is acknowledged."""
    number = 0
    if as_array:
        yield b"["
    async for line in lines:
        try:
            await threads.run(engine.insert, target, json_object(line))
            ack = dumps({"status": "ok", "seq": number})
        except Exception as error:
            sql_error = as_sql_error(error)
            ack = dumps(
                {
                    "status": "error",
                    "error_code": int(sql_error.code),
                    "message": str(sql_error),
                    "seq": number,
                }
            )
        between = b",\n" if as_array and number else b""
        yield between + ack + (b"" if as_array else b"\n")
        number += 1
    if as_array:
        yield b"]"


async def _lines(request: Request) -> AsyncIterator[bytes]:
    """The lines of the body as they arrive; only the length of a line is limited."""
    left = b""
    async for chunk in request.stream():
        *whole, left = (left + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(left) > LINE_BYTES_MAX:
            raise SqlError(
                f"A line has more than {LINE_BYTES_MAX} bytes.",
                remedy="Send each row on a separate line.",
                code=SqlCode.BAD_REQUEST,
            )
    if left.strip():
        yield left


def _name(written: str) -> str:
    """As in a statement: case-sensitive in back quotes, else upper case."""
    if len(written) > 1 and written[0] == written[-1] and written[0] in '`"':
        return written[1:-1]
    return written.upper()
