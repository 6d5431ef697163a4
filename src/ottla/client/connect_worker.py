"""The REST client for a Connect worker, ours or Kafka's. `ottla connect` and SQL use it."""

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
"""How Kafka writes a plugin in a message: a person wants its name."""
MOMENTARILY: Final = ("momentarily", "conflicting operation", "a rebalance is expected")
"""What Kafka's worker and ours write where asking again helps; other conflicts stay."""


class ConnectRestError(Exception):
    """A request to a Connect worker that failed."""


class InvalidUrl(ConnectRestError):
    """No Connect worker can be at this URL."""


class Refused(ConnectRestError):
    """The worker says no: with its HTTP status, and in its own words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Unreachable(ConnectRestError):
    """Nobody answers there; `reason` is the network's."""

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


class Rest:
    """One worker, by its URL. Each request has a connection of its own; rebalances are waited for.

    Any thread may ask. `timeout_s` is how long the worker may take for one answer.
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
        """What the worker answers, or None where it answers with no more than a status."""
        deadline = time.monotonic() + self._rebalance_s_max
        while True:
            status, data = self._ask(method, path, query, body)
            if status < 300:
                return self._read(data) if data else None
            told = _message(data)
            passing = status == CONFLICT and any(word in told for word in MOMENTARILY)
            if not passing or time.monotonic() > deadline:
                raise Refused(status, told or f"{self.url}: HTTP {status}")
            time.sleep(self._retry_s)

    def _ask(
        self, method: str, path: tuple[str, ...], query: dict[str, Any], body: Any
    ) -> tuple[int, bytes]:
        try:
            return self._rest.ask(method, *path, body=body, query=query)
        except rest_client.Unreachable as error:
            reason = str(error).removeprefix(f"{self._rest.urls[0]}: ")
            raise Unreachable(self.url, reason) from None
        finally:
            # A request on a connection that was kept may be sent twice; not every one of Connect's
            # may.
            self._rest.close()

    def _read(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except ValueError:
            raise Unreachable(self.url, "what answers there is no worker") from None


def address(url: str) -> SplitResult:
    """Its parts; InvalidUrl if no worker can be there. A host alone has Connect's port."""
    parts = urlsplit(url.rstrip("/") if "://" in url else f"http://{url.rstrip('/')}")
    if "://" not in url and parts.port is None:
        parts = parts._replace(netloc=f"{parts.netloc}:{DEFAULT_PORT}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        shown = url.rpartition("@")[2]  # what stands before it is nobody's business
        raise InvalidUrl(f"{shown}: expected something like {DEFAULT_URL}")
    return parts


def _message(data: bytes) -> str:
    try:
        found = json.loads(data)
    except ValueError:
        return data.decode(errors="replace").strip()
    told = str(found.get("message", "")) if isinstance(found, dict) else ""
    return _PLUGIN.sub(r"\1", told)
