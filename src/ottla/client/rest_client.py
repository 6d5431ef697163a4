"""A REST server from the client's side: JSON over HTTP, with the standard library.

Any thread may ask. Connections stay open for whoever asks next, because a serializer asks for one
schema after the other.
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
IDLE_MAX: Final = 8  # connections to one server that wait for the next question

_STALE: Final = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class Unreachable(Exception):
    """No server of the list answers."""


def basic_authorization(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def without_login(url: str) -> tuple[str, str]:
    """`https://ann:secret@host` as `https://host`, and the Authorization header of its login."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    place = parts.netloc.rpartition("@")[2]
    bare = parts._replace(netloc=place).geturl().rstrip("/")
    if parts.username is None:
        return bare, ""
    return bare, basic_authorization(unquote(parts.username), unquote(parts.password or ""))


class RestClient:
    """One server by several URLs: where one does not answer, the next is asked.

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
        """Status and body of the answer; `path` is quoted piece by piece."""
        place = "/" + "/".join(quote(piece, safe="") for piece in path)
        if query:
            place += f"?{urlencode(query, doseq=True)}"
        data = None if body is None else json.dumps(body).encode()
        troubles: list[str] = []
        for number, url in enumerate(self.urls):
            try:
                return self._ask(number, method, place, data)
            except TimeoutError:
                troubles.append(f"{url}: no answer within {self._timeout_s:g} s")
            except (OSError, http.client.HTTPException) as error:
                troubles.append(f"{url}: {getattr(error, 'strerror', None) or error}")
        raise Unreachable("; ".join(troubles))

    def close(self) -> None:
        """Close the connections that nobody uses now. Whoever asks later opens one again."""
        with self._lock:
            idle = [connection for kept in self._idle for connection in kept]
            for kept in self._idle:
                kept.clear()
        for connection in idle:
            connection.close()

    def _ask(self, number: int, method: str, place: str, data: bytes | None) -> tuple[int, bytes]:
        headers = {"Accept": self._content_type}
        if data is not None:
            headers["Content-Type"] = self._content_type
        if self._authorization and (authorization := self._authorization()):
            headers["Authorization"] = authorization
        kept = self._taken(number)
        if kept is not None:
            try:
                return self._exchange(kept, number, method, place, data, headers)
            except _STALE:  # the server closed a connection that it had kept open: ask once more
                kept.close()
        connection = self._connect(number)
        return self._exchange(connection, number, method, place, data, headers)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        number: int,
        method: str,
        place: str,
        data: bytes | None,
        headers: dict[str, str],
    ) -> tuple[int, bytes]:
        try:
            connection.request(method, self._parts[number].path + place, data, headers)
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
        raise ValueError(f"{url!r} is no URL of a server: write http://host:port")
    return parts._replace(path=parts.path.rstrip("/"))
