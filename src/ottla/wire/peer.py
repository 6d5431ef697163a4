"""The client's side of one connection: requests in, bytes out; bytes in, responses out.

Followers, clients, tools and tests use it to talk to a broker. Like Connection, it does no I/O.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import Final

from ottla.errors import ErrorCode
from ottla.wire.apis import APIS, Api, ApiKey
from ottla.wire.connection import ProtocolError
from ottla.wire.fields import Buffer, MalformedError, Message, Part, Writer
from ottla.wire.headers import read_response_header, write_request_header

RESPONSE_BYTES_MAX: Final = 0x7FFFFFFF

_SIZE: Final = Struct(">i")
_ERROR_CODE: Final = Struct(">h")


class Response:
    """One response and the API, version and correlation id of its request."""

    __slots__ = ("api_key", "body", "correlation_id", "size", "version")

    def __init__(
        self, api_key: int, version: int, correlation_id: int, body: Message, size: int
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.body = body
        self.size = size

    def __repr__(self) -> str:
        return f"Response({self.correlation_id}, v{self.version}, {self.body!r})"


class Peer:
    """A client of one broker connection."""

    def __init__(self, *, response_bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        self._response_bytes_max = response_bytes_max
        self._received = bytearray()
        self._next_correlation_id = 0
        self._expected: deque[tuple[Api, int, int]] = deque()  # api, version, correlation id

    def request(
        self, message: Message, api_key: int, version: int, client_id: str | None = None
    ) -> list[Part]:
        """The bytes to send. Only a Produce with acks=0 gets no response."""
        api = APIS[api_key]
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        writer = Writer()
        start = writer.buffer
        start += bytes(4)
        write_request_header(
            writer,
            api.request_header_version(version),
            api_key=api_key,
            version=version,
            correlation_id=correlation_id,
            client_id=client_id,
        )
        message.write(writer, version)
        _SIZE.pack_into(start, 0, writer.size - 4)
        if api_key != ApiKey.PRODUCE or getattr(message, "acks", None) != 0:
            self._expected.append((api, version, correlation_id))
        return writer.finish()

    def receive_data(self, data: Buffer) -> None:
        self._received += data

    def next_response(self) -> Response | None:
        """The next whole response, or None when more bytes are needed."""
        received = self._received
        if len(received) < 4:
            return None
        (size,) = _SIZE.unpack_from(received, 0)
        self.check_size(size)
        if len(received) < 4 + size:
            return None
        frame = bytes(memoryview(received)[4 : 4 + size])
        del received[: 4 + size]
        return self.response(frame)

    def check_size(self, size: int) -> None:
        """ProtocolError if a response cannot have this size."""
        if not 4 <= size <= self._response_bytes_max:
            raise ProtocolError(f"a response of {size} bytes")

    def response(self, frame: bytes | bytearray) -> Response:
        """Parse one whole frame without its size, for callers with a buffer per response."""
        if not self._expected:
            raise ProtocolError("a response without a request")
        return read_response(frame, *self._expected.popleft())

    def pending(self) -> int:
        """How many requests wait for a response."""
        return len(self._expected)


def read_response(frame: bytes | bytearray, api: Api, version: int, expected_id: int) -> Response:
    """`frame` is a whole response without its size."""
    try:
        header_version = api.response_header_version(version)
        correlation_id, position = read_response_header(frame, 0, header_version)
        if correlation_id != expected_id:
            raise ProtocolError(f"correlation id {correlation_id}, but {expected_id} was expected")
        if api.key == ApiKey.API_VERSIONS and version > 0 and is_unsupported(frame, position):
            version = 0  # KIP-511
        body, position = api.response.read(memoryview(frame), position, version)
    except MalformedError as error:
        raise ProtocolError(f"{api.name} v{version}: {error}") from error
    if position != len(frame):
        raise ProtocolError(f"{api.name} v{version}: {len(frame) - position} bytes too many")
    return Response(api.key, version, correlation_id, body, len(frame))


def is_unsupported(frame: bytes | bytearray, position: int) -> bool:
    code = frame[position : position + 2]
    return code == _ERROR_CODE.pack(ErrorCode.UNSUPPORTED_VERSION)
