"""/inserts-stream: rows in, an acknowledgement for each of them out, both as lines of JSON."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.rows.errors import SqlCode, SqlError
from ottla.sql.engine.engine import Engine
from ottla.sql.server.encoding import dumps
from ottla.sql.server.flow import Flow
from ottla.sql.server.requests import (
    DELIMITED,
    JSON,
    Threads,
    as_sql_error,
    object_of,
    text_in,
)

LINE_BYTES_MAX: Final = 1 << 20


async def inserts_stream(request: Request, engine: Engine, threads: Threads) -> Response:
    lines = _lines(request)
    first = await anext(lines, None)
    if first is None:
        raise SqlError(
            "No arguments for the insert stream.",
            remedy='The first line names the stream: {"target": "ORDERS"}',
            code=SqlCode.BAD_REQUEST,
        )
    target = _name(text_in(object_of(first), "target"))
    source = engine.state.catalog.find(target)
    if source.read_only:
        raise SqlError(
            f"Cannot insert into read-only {source.kind.lower()}: {target}",
            remedy="CREATE without SOURCE makes one that can be written.",
            code=SqlCode.BAD_REQUEST,
        )
    as_array = JSON in request.headers.get("accept", "")
    acks = _acknowledged(lines, target, engine, threads, as_array=as_array)
    return Flow(acks, JSON if as_array else DELIMITED, watching=False)


async def _acknowledged(
    lines: AsyncIterator[bytes], target: str, engine: Engine, threads: Threads, *, as_array: bool
) -> AsyncGenerator[bytes, None]:
    """One row after the other: the client's next row waits until this one is safe."""
    number = 0
    if as_array:
        yield b"["
    async for line in lines:
        try:
            await threads.run(engine.insert, target, object_of(line))
            ack = dumps({"status": "ok", "seq": number})
        except Exception as error:
            told = as_sql_error(error)
            ack = dumps(
                {
                    "status": "error",
                    "error_code": int(told.code),
                    "message": str(told),
                    "seq": number,
                }
            )
        between = b",\n" if as_array and number else b""
        yield between + ack + (b"" if as_array else b"\n")
        number += 1
    if as_array:
        yield b"]"


async def _lines(request: Request) -> AsyncIterator[bytes]:
    """The lines of the body, as they arrive; a line has a limit, the body has none."""
    left = b""
    async for chunk in request.stream():
        *whole, left = (left + chunk).split(b"\n")
        for each in whole:
            if each.strip():
                yield each
        if len(left) > LINE_BYTES_MAX:
            raise SqlError(
                f"A line has more than {LINE_BYTES_MAX} bytes.",
                remedy="Each row is a line of its own.",
                code=SqlCode.BAD_REQUEST,
            )
    if left.strip():
        yield left


def _name(written: str) -> str:
    """As in a statement: in back quotes it counts as it is, else in upper case."""
    if len(written) > 1 and written[0] == written[-1] and written[0] in '`"':
        return written[1:-1]
    return written.upper()
