"""The REST client for a Connect worker, Ottla's or Kafka's. `ottla connect` and SQL use it."""

from __future__ import annotations

import json
import re
import ssl
import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from ottla.client import rest_client

DEFAULT_URL: Final = "http://localhost:8083"
DEFAULT_PORT: Final = 8083
TIMEOUT_S: Final = 95.0  # a worker that forwards a request waits for 90
REBALANCE_S_MAX: Final = 30.0
RETRY_S: Final = 0.5
CONFLICT: Final = 409
NOT_FOUND: Final = 404
_PLUGIN: Final = re.compile(r"PluginDesc\{klass=class ([^,}]*)[^}]*\}")
"""Kafka writes a plugin in a message like this; users want its name only."""
MOMENTARILY: Final = ("momentarily", "conflicting operation", "a rebalance is expected")
"""Kafka's worker and ours write one of these where a retry helps; other conflicts stay."""


class ConnectRestError(Exception):
    """A request to a Connect worker that failed."""


class InvalidWorkerUrl(ConnectRestError):
    """This URL can't be a Connect worker's."""


class ConnectStatusError(ConnectRestError):
    """The worker answers with an error status; the message is the worker's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ConnectWorkerUnreachable(ConnectRestError):
    """No worker answers there; `reason` is the network's."""

    def __init__(self, url: str, reason: object) -> None:
        super().__init__(f"Can't reach a Connect worker at {url}: {reason}.")


@dataclass(frozen=True, slots=True)
class Login:
    """HTTP's basic authentication."""

    user: str
    password: str

    @property
    def header(self) -> str:
        return rest_client.basic_authorization(self.user, self.password)


class ConnectClient:
    """One worker, by its URL. Each request opens a connection; rebalances are waited for.

    Thread-safe. `timeout_s` is how long the worker may take for one answer.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = TIMEOUT_S,
        login: Login | None = None,
        tls: ssl.SSLContext | None = None,
        rebalance_s_max: float = REBALANCE_S_MAX,
        retry_s: float = RETRY_S,
    ) -> None:
        self.url = url.rstrip("/")
        self._rebalance_s_max = rebalance_s_max
        self._retry_s = retry_s
        self._rest = rest_client.RestClient(
            [address(url).geturl()],
            authorization=(lambda: login.header) if login else None,
            tls=tls,
            timeout_s=timeout_s,
        )

    def get(self, *path: str, **query: Any) -> Any:
        return self.ask("GET", *path, **query)

    def ask(self, method: str, *path: str, body: Any = None, **query: Any) -> Any:
        """The worker's answer, or None for a status without a body."""
        deadline = time.monotonic() + self._rebalance_s_max
        while True:
            status, data = self._ask(method, path, query, body)
            if status < 300:
                return self._read(data) if data else None
            message = _message(data)
            passing = status == CONFLICT and any(word in message for word in MOMENTARILY)
            if not passing or time.monotonic() > deadline:
                raise ConnectStatusError(status, message or f"{self.url}: HTTP {status}")
            time.sleep(self._retry_s)

    def _ask(
        self, method: str, path: tuple[str, ...], query: dict[str, Any], body: Any
    ) -> tuple[int, bytes]:
        try:
            return self._rest.ask(method, *path, body=body, query=query)
        except rest_client.ServerUnreachable as error:
            reason = str(error).removeprefix(f"{self._rest.urls[0]}: ")
            raise ConnectWorkerUnreachable(self.url, reason) from None
        finally:
            # http.client sends a request twice if a kept connection is stale; not every request of
            # Connect's may be.
            self._rest.close()

    def _read(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except ValueError:
            raise ConnectWorkerUnreachable(
                self.url, "the server there is no Connect worker"
            ) from None


def address(url: str) -> SplitResult:
    """The parts of a URL, with Connect's port as default; InvalidWorkerUrl if it is none."""
    parts = urlsplit(url.rstrip("/") if "://" in url else f"http://{url.rstrip('/')}")
    if "://" not in url and parts.port is None:
        parts = parts._replace(netloc=f"{parts.netloc}:{DEFAULT_PORT}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        shown = url.rpartition("@")[2]  # the login in front of it is a secret
        raise InvalidWorkerUrl(f"{shown}: expected something like {DEFAULT_URL}")
    return parts


def _message(data: bytes) -> str:
    try:
        found = json.loads(data)
    except ValueError:
        return data.decode(errors="replace").strip()
    message = str(found.get("message", "")) if isinstance(found, dict) else ""
    return _PLUGIN.sub(r"\1", message)
