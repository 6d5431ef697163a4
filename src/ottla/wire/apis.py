"""The table of APIs: key, name, versions, and the classes of request and response.

The versions are those that Ottla can read and write; the broker has its own list of those that it
serves. A module of messages is imported when its API is first used, because importing all of them
would take a good part of a broker's start.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, Protocol

from ottla.wire.fields import Buffer, Message
from ottla.wire.messages.table import ROWS, ApiKey

__all__ = ["APIS", "Api", "ApiKey", "MessageType"]


class MessageType(Protocol):
    """The class of a request or a response."""

    def read(self, data: Buffer, position: int, version: int) -> tuple[Message, int]: ...


class Api:
    """One kind of request and its response."""

    __slots__ = (
        "_module",
        "_request",
        "_response",
        "flexible_from",
        "key",
        "name",
        "read_request",
        "version_max",
        "version_min",
    )

    def __init__(
        self,
        key: int,
        module: str,
        name: str,
        version_min: int,
        version_max: int,
        flexible_from: int,
    ) -> None:
        self.key = key
        self.name = name
        self.version_min = version_min
        self.version_max = version_max
        self.flexible_from = flexible_from
        self._module = module
        self._request: MessageType | None = None
        self._response: MessageType | None = None
        self.read_request: Callable[[Buffer, int, int], tuple[Message, int]] = self._read_first

    @property
    def request(self) -> MessageType:
        return self._request or self._load()[0]

    @property
    def response(self) -> MessageType:
        return self._response or self._load()[1]

    def request_header_version(self, version: int) -> int:
        return 2 if version >= self.flexible_from else 1

    def response_header_version(self, version: int) -> int:
        """ApiVersions keeps v0: its client does not know the broker's versions yet (KIP-511)."""
        return 1 if version >= self.flexible_from and self.key != ApiKey.API_VERSIONS else 0

    def _load(self) -> tuple[MessageType, MessageType]:
        module = import_module(f"ottla.wire.messages.{self._module}")
        request: MessageType = getattr(module, f"{self.name}Request")
        response: MessageType = getattr(module, f"{self.name}Response")
        self._request = request
        self._response = response
        self.read_request = request.read
        return request, response

    def _read_first(self, data: Buffer, position: int, version: int) -> tuple[Message, int]:
        """What read_request is until the request's class is loaded."""
        return self.request.read(data, position, version)

    def __repr__(self) -> str:
        return f"Api({self.key}, {self.name!r}, v{self.version_min} to v{self.version_max})"


APIS: Final[dict[int, Api]] = {row[0]: Api(*row) for row in ROWS}
