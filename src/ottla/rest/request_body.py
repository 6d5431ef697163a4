"""request_body: reads the body of a request, with a size limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.requests import Request

BODY_BYTES_MAX: Final = 8 << 20


async def request_body(request: Request, too_large: Callable[[str], Exception]) -> bytes:
    """`too_large` makes the error for a larger one, in the server's own form."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > BODY_BYTES_MAX:
            raise too_large(f"The request has more than {BODY_BYTES_MAX} bytes.")
        chunks.append(chunk)
    return b"".join(chunks)
