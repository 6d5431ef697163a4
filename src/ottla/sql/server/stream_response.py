"""StreamResponse: a response that is sent as it comes, until the client disconnects.

Starlette's StreamingResponse receives messages of the request while it sends, to detect that the
client has gone. /inserts-stream reads the request's body while it responds, and would lose parts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class StreamResponse(Response):
    """`watching`: the body was read completely, so the next message is the disconnect."""

    def __init__(
        self, chunks: AsyncGenerator[bytes, None], media_type: str, *, watching: bool = True
    ) -> None:
        super().__init__(status_code=200, media_type=media_type)
        del self.headers["content-length"]
        self._chunks = chunks
        self._watching = watching

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tasks = [asyncio.ensure_future(self._send(send))]
        if self._watching:
            tasks.append(asyncio.ensure_future(_gone(receive)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._chunks.aclose()  # releases what the generator holds

    async def _send(self, send: Send) -> None:
        start = {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }
        with contextlib.suppress(OSError):  # the client has gone
            await send(start)
            async for chunk in self._chunks:
                if chunk:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
