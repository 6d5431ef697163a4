"""A Connect worker's REST, as the verbs ask it."""

from __future__ import annotations

import http.client
import json
import re
import time
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from ottla.cli.kafka.tool import ToolError

TIMEOUT_S: Final = 95.0  # a worker that forwards a request waits for 90
REBALANCE_S_MAX: Final = 30.0
RETRY_S: Final = 0.5
CONFLICT: Final = 409
_PLUGIN: Final = re.compile(r"PluginDesc\{klass=class ([^,}]*)[^}]*\}")
"""How Kafka writes a plugin in a message: a person wants its name."""
MOMENTARILY: Final = ("momentarily", "conflicting operation")


class Rest:
    """A failure is a ToolError with the worker's own words. Rebalances are waited for."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        parts = urlsplit(self._url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ToolError(f"--url {url}: expected something like http://localhost:8083")
        self._parts = parts

    def get(self, *path: str, **query: Any) -> Any:
        return self.ask("GET", *path, **query)

    def ask(self, method: str, *path: str, body: Any = None, **query: Any) -> Any:
        """What the worker answers, or None where it answers with no more than a status."""
        deadline = time.monotonic() + REBALANCE_S_MAX
        while True:
            status, data = self._ask(method, path, query, body)
            if status < 300:
                return json.loads(data) if data else None
            told = _message(data)
            passing = status == CONFLICT and any(word in told for word in MOMENTARILY)
            if not passing or time.monotonic() > deadline:
                raise ToolError(told or f"{self._url}: HTTP {status}")
            time.sleep(RETRY_S)

    def _ask(
        self, method: str, path: tuple[str, ...], query: dict[str, Any], body: Any
    ) -> tuple[int, bytes]:
        parts = self._parts
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        connection = kind(parts.hostname or "", parts.port or 8083, timeout=TIMEOUT_S)
        at = "/".join(quote(each, safe="") for each in path)
        asked = f"?{urlencode(query, doseq=True)}" if query else ""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data is not None else {}
        try:
            connection.request(method, f"{parts.path}/{at}{asked}", data, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or error
            raise ToolError(
                f"Can't reach a Connect worker at {self._url}: {reason}. `ottla connect worker`"
                " starts one; --url names another."
            ) from None
        finally:
            connection.close()


def _message(data: bytes) -> str:
    try:
        found = json.loads(data)
    except ValueError:
        return data.decode(errors="replace").strip()
    told = str(found.get("message", "")) if isinstance(found, dict) else ""
    return _PLUGIN.sub(r"\1", told)
