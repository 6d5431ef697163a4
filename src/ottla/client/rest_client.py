"""An HTTP client for REST servers: JSON over HTTP, with the standard library.

Thread-safe. Connections stay open for the next request, because a serializer asks for one schema
after the other.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

TIMEOUT_S: Final = 30.0
RESPONSE_BYTES_MAX: Final = 256 << 20
IDLE_MAX: Final = 8  # idle connections to one server

_STALE: Final = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class ServerUnreachable(Exception):
    """No server of the list answers."""


def basic_authorization(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def without_login(url: str) -> tuple[str, str]:
    """`https://ann:secret@host` as `https://host`, and the Authorization header of its login."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    target = parts.netloc.rpartition("@")[2]
    bare = parts._replace(netloc=target).geturl().rstrip("/")
    if parts.username is None:
        return bare, ""
    return bare, basic_authorization(unquote(parts.username), unquote(parts.password or ""))


class RestClient:
    """One service at several URLs: if one does not answer, the next one is asked.

    `authorization` is called for each request, because bearer tokens expire.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        content_type: str = "application/json",
        authorization: Callable[[], str] | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        if not urls:
            raise ValueError("there is no URL")
        self.urls = tuple(url.rstrip("/") for url in urls)
        self._parts = [_checked(url) for url in self.urls]
        self._content_type = content_type
        self._authorization = authorization
        self._tls = tls
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._idle: list[list[http.client.HTTPConnection]] = [[] for _ in self.urls]

    def ask(
        self,
        method: str,
        *path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, bytes]:
        """Status and body of the response; each part of `path` is quoted."""
        target = "/" + "/".join(quote(piece, safe="") for piece in path)
        if query:
            target += f"?{urlencode(query, doseq=True)}"
        data = None if body is None else json.dumps(body).encode()
        troubles: list[str] = []
        for number, url in enumerate(self.urls):
            try:
                return self._ask(number, method, target, data)
            except TimeoutError:
                troubles.append(f"{url}: no answer within {self._timeout_s:g} s")
            except (OSError, http.client.HTTPException) as error:
                troubles.append(f"{url}: {getattr(error, 'strerror', None) or error}")
        raise ServerUnreachable("; ".join(troubles))

    def close(self) -> None:
        """Close idle connections. A later request opens a new one."""
        with self._lock:
            idle = [connection for connections in self._idle for connection in connections]
            for connections in self._idle:
                connections.clear()
        for connection in idle:
            connection.close()

    def _ask(self, number: int, method: str, target: str, data: bytes | None) -> tuple[int, bytes]:
        headers = {"Accept": self._content_type}
        if data is not None:
            headers["Content-Type"] = self._content_type
        if self._authorization and (authorization := self._authorization()):
            headers["Authorization"] = authorization
        connection = self._taken(number)
        if connection is not None:
            try:
                return self._exchange(connection, number, method, target, data, headers)
            except _STALE:  # the server closed a kept connection: send again
                connection.close()
        connection = self._connect(number)
        return self._exchange(connection, number, method, target, data, headers)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        number: int,
        method: str,
        target: str,
        data: bytes | None,
        headers: dict[str, str],
    ) -> tuple[int, bytes]:
        try:
            connection.request(method, self._parts[number].path + target, data, headers)
            response = connection.getresponse()
            content = response.read(RESPONSE_BYTES_MAX)
            will_close = response.will_close or not response.isclosed()
        except BaseException:
            connection.close()
            raise
        if will_close or not self._kept(number, connection):
            connection.close()
        return response.status, content

    def _connect(self, number: int) -> http.client.HTTPConnection:
        parts = self._parts[number]
        host = parts.hostname or "localhost"
        if parts.scheme == "https":
            tls = self._tls or ssl.create_default_context()
            return http.client.HTTPSConnection(
                host, parts.port, timeout=self._timeout_s, context=tls
            )
        return http.client.HTTPConnection(host, parts.port, timeout=self._timeout_s)

    def _taken(self, number: int) -> http.client.HTTPConnection | None:
        with self._lock:
            return self._idle[number].pop() if self._idle[number] else None

    def _kept(self, number: int, connection: http.client.HTTPConnection) -> bool:
        with self._lock:
            if len(self._idle[number]) >= IDLE_MAX:
                return False
            self._idle[number].append(connection)
            return True


def _checked(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not the URL of a server: write http://host:port")
    return parts._replace(path=parts.path.rstrip("/"))
