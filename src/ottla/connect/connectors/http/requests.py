"""HTTP requests over one persistent connection per host, with retries."""

from __future__ import annotations

import base64
import http.client
import json
import random
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from ottla.connect.connectors.http.settings import codes_of
from ottla.connect.errors import ConnectException

BODY_BYTES_SHOWN: Final = 500
BACKOFF_S_MAX: Final = 60.0
UNAUTHORIZED: Final = 401


class HttpRequestError(ConnectException):
    """The service answered with an error status, or not at all."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class HttpService:
    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._retried_codes = codes_of(settings["retry.on.status.codes"])
        self._headers = headers_of(settings)
        self._connections: dict[tuple[str, str], http.client.HTTPConnection] = {}
        self._token: str | None = None

    def send(self, method: str, url: str, body: bytes | None) -> None:
        """Raises HttpRequestError when retries are used up or cannot help."""
        retries = self._settings["max.retries"]
        for attempt in range(retries + 1):
            try:
                self._send_once(method, url, body, self._authorized())
                return
            except HttpRequestError as error:
                if error.status == UNAUTHORIZED:
                    self._token = None  # it may have expired
                if attempt == retries or not self._is_retriable(error.status):
                    raise
            self._sleep(self._backoff_s(attempt))

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _is_retriable(self, status: int | None) -> bool:
        if status is None:
            return True
        return any(first <= status <= last for first, last in self._retried_codes)

    def _backoff_s(self, attempt: int) -> float:
        base_s: float = self._settings["retry.backoff.ms"] / 1000
        longest_s = max(base_s, BACKOFF_S_MAX)
        return random.uniform(0.5, 1.0) * min(base_s * (1 << min(attempt, 20)), longest_s)

    def _send_once(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> bytes:
        parts = urlsplit(url)
        origin = (parts.scheme, parts.netloc)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection = self._connection(origin)
        try:
            connection.request(method, target, body, dict(headers))
            if connection.sock is not None:
                connection.sock.settimeout(self._settings["http.request.timeout.ms"] / 1000)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self._connections.pop(origin, None)
            raise HttpRequestError(f"{method} {url}: {error or type(error).__name__}") from error
        if 200 <= answer.status < 300:
            return content
        shown = content[:BODY_BYTES_SHOWN].decode(errors="replace")
        raise HttpRequestError(
            f"{method} {url}: {answer.status} {answer.reason}: {shown}", answer.status
        )

    def _connection(self, origin: tuple[str, str]) -> http.client.HTTPConnection:
        connection = self._connections.get(origin)
        if connection is None:
            timeout = self._settings["http.connect.timeout.ms"] / 1000
            if origin[0] == "https":
                context = _tls(self._settings)
                connection = http.client.HTTPSConnection(
                    origin[1], timeout=timeout, context=context
                )
            else:
                connection = http.client.HTTPConnection(origin[1], timeout=timeout)
            self._connections[origin] = connection
        return connection

    def _authorized(self) -> dict[str, str]:
        settings, kind = self._settings, self._settings["auth.type"].upper()
        if kind == "BASIC":
            pair = f"{settings['connection.user']}:{settings['connection.password'].value}"
            word = base64.b64encode(pair.encode()).decode()
            return {**self._headers, "Authorization": f"Basic {word}"}
        if kind == "OAUTH2":
            if self._token is None:
                self._token = self._fetch_token()
            return {**self._headers, "Authorization": f"Bearer {self._token}"}
        return self._headers

    def _fetch_token(self) -> str:
        settings = self._settings
        form = {"grant_type": "client_credentials"}
        if settings["oauth2.client.scope"]:
            form["scope"] = settings["oauth2.client.scope"]
        pair = f"{settings['oauth2.client.id']}:{settings['oauth2.client.secret'].value}"
        headers = {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        body = urlencode(form).encode()
        content = self._send_once("POST", settings["oauth2.token.url"], body, headers)
        try:
            return str(json.loads(content)[settings["oauth2.token.property"]])
        except (ValueError, KeyError, TypeError) as error:
            raise HttpRequestError(
                f"{settings['oauth2.token.url']} gave no token: {error!r}"
            ) from error


def headers_of(settings: Mapping[str, Any]) -> dict[str, str]:
    kind = "application/json" if settings["request.body.format"] == "json" else "text/plain"
    found = {"Content-Type": kind}
    for header in filter(None, settings["headers"].split(settings["header.separator"])):
        name, colon, value = header.partition(":")
        if not colon:
            raise ConnectException(f"headers: {header} is not name:value")
        for known in [
            other_name for other_name in found if other_name.lower() == name.strip().lower()
        ]:
            del found[known]
        found[name.strip()] = value.strip()
    return found


def _tls(settings: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if settings["https.ssl.truststore.location"]:
        context.load_verify_locations(settings["https.ssl.truststore.location"])
    if not settings["https.ssl.verify"]:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
