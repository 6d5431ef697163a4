"""uvicorn's HTTP protocol with limits, so that no client holds a connection or memory for long.

A request with its body must arrive within REQUEST_S_MAX, or the connection is closed; its headers
have at most HEADER_BYTES_MAX. A client that does not read its response is disconnected.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

REQUEST_S_MAX: Final = 30.0
HEADER_BYTES_MAX: Final = 64 * 1024
CONNECTIONS_MAX: Final = 2000
FLUSH_S_MAX: Final = 10.0


class BoundedHttpProtocol(HttpToolsProtocol):
    request_s_max = REQUEST_S_MAX

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._header_bytes = 0
        self._in_body = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()
            return
        self._begin()  # an idle new connection has a limit, too

    def connection_lost(self, error: Exception | None) -> None:
        self._end()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._deadline is None:
            self._begin()
        super().data_received(data)
        if not self._in_body and not self.transport.is_closing():
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES_MAX:
                self.send_400_response("The headers are too large.")
                self._end()

    def on_headers_complete(self) -> None:
        self._in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        self._header_bytes = 0
        self._end()
        super().on_message_complete()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        # A transport closes once the peer has read everything, which may be never.
        self.loop.call_later(FLUSH_S_MAX, self.transport.abort)

    def _begin(self) -> None:
        self._deadline = self.loop.call_later(self.request_s_max, self.transport.abort)

    def _end(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
