"""The broker's side of one connection: bytes in, requests out; replies in, bytes out.

Every rule about the order of requests and replies is in this file, and nothing that does I/O:

    get_buffer -> (the caller receives into it) -> received -> next_request until it is None
    reply, in any order -> the parts that are due, in the order of the requests

Kafka answers the requests of a connection in the order in which they came, so a reply that is ready
before an older one is parked. Records of a request are views of the receive buffer: they are valid
until the next get_buffer, which may move the buffer's contents. The buffer is replaced, never
resized, so that a view that is used too late reads stale bytes and breaks nothing.

Connections of one thread can share a `scratch` buffer, so that an idle connection takes no memory:
bytes are received into it, and `settle`, called before another connection's turn, copies the part
of a request that is still incomplete. Views then end at any connection's next get_buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final

from ottla.wire.apis import APIS, Api, ApiKey
from ottla.wire.fields import (
    READ_ERRORS,
    MalformedError,
    Message,
    Part,
    Writer,
    read_nullable_string,
    skip_tags,
)

BUFFER_BYTES: Final = 64 * 1024
BUFFER_BYTES_KEPT_MAX: Final = 1024 * 1024 + BUFFER_BYTES  # a larger one is never kept
FRAME_START_BYTES: Final = 12  # size, api key, version, correlation id
REQUEST_BYTES_MIN: Final = FRAME_START_BYTES - 4
# Requests whose bulk stays bytes may be as large as socket.request.max.bytes allows. All others
# become an object for every few bytes: 100 MB of them would take gigabytes of memory.
LARGE_REQUESTS: Final = frozenset(
    {
        int(ApiKey.PRODUCE),
        int(ApiKey.JOIN_GROUP),
        int(ApiKey.SYNC_GROUP),
        int(ApiKey.PUSH_TELEMETRY),
        int(ApiKey.WRITE_SHARE_GROUP_STATE),
    }
)
FRAME_BYTES_MAX_OF_OTHERS: Final = 8 * 1024 * 1024
# A larger request is left unparsed: that may take seconds, so the caller can do it in a helper
# thread. Exceptions are Produce, whose bulk is records and whose partitions are limited, and the
# requests before the login, which have no lists.
READ_BYTES_MAX: Final = 64 * 1024
READ_AT_ONCE: Final = frozenset(
    {
        int(ApiKey.PRODUCE),
        int(ApiKey.API_VERSIONS),
        int(ApiKey.SASL_HANDSHAKE),
        int(ApiKey.SASL_AUTHENTICATE),
    }
)
UNREADABLE: Final = (MalformedError, *READ_ERRORS)

_SIZE: Final = Struct(">i")
_FRAME_START: Final = Struct(">ihhi")  # size, api key, version, correlation id
_REPLY_HEADER_0: Final = Struct(">ii")  # size, correlation id
_REPLY_HEADER_1: Final = Struct(">iix")  # and no tagged fields
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_SASL_AUTHENTICATE: Final = int(ApiKey.SASL_AUTHENTICATE)


class ProtocolError(Exception):
    """The peer does not speak Kafka's protocol, or no part of it that is served: disconnect it."""


class UnreadBody(Message):
    """A copy of the bytes of a large request's body, to be parsed later."""

    __slots__ = ("_api", "_data", "_version")

    def __init__(self, api: Api, version: int, data: bytes) -> None:
        self._api = api
        self._version = version
        self._data = data

    def read(self) -> Message:
        """Parse the body; ProtocolError if that fails. Slow, and safe in any thread."""
        try:
            return self._api.read_request(memoryview(self._data), 0, self._version)[0]
        except UNREADABLE as error:
            raise ProtocolError(f"{self._api.name} v{self._version}: {error}") from error


class Request:
    """One request. `body` is None only if `unsupported`: ApiVersions in an unknown version.

    It is answered all the same, with a v0 body, so that the client learns which versions are
    supported (KIP-511).
    """

    __slots__ = (
        "api",
        "api_key",
        "body",
        "client_id",
        "correlation_id",
        "sequence",
        "size",
        "unsupported",
        "version",
    )

    def __init__(
        self,
        sequence: int,
        api: Api,
        version: int,
        correlation_id: int,
        client_id: str | None,
        body: Message | None,
        size: int,
    ) -> None:
        self.sequence = sequence
        self.api_key = api.key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body
        self.size = size
        self.api = api
        self.unsupported = body is None

    def portion(self, body: Message, size: int) -> Request:
        """The same request with a part of its body."""
        return Request(
            self.sequence, self.api, self.version, self.correlation_id, self.client_id, body, size
        )

    def __repr__(self) -> str:
        return (
            f"Request({self.sequence}, {self.api.name} v{self.version}, "
            f"correlation_id={self.correlation_id}, client_id={self.client_id!r})"
        )


class Connection:
    """One connection's buffer and reply order. `served` is API key -> (first, last version)."""

    __slots__ = (
        "_buffer",
        "_end",
        "_frame_bytes_max",
        "_frame_size",
        "_next_reply",
        "_next_request",
        "_parked",
        "_scratch",
        "_served",
        "_start",
    )

    def __init__(
        self,
        served: Mapping[int, tuple[int, int]],
        *,
        frame_bytes_max: int,
        scratch: memoryview | None = None,
    ) -> None:
        self._served = served
        self._frame_bytes_max = frame_bytes_max
        self._scratch = memoryview(bytearray(BUFFER_BYTES)) if scratch is None else scratch
        self._buffer = self._scratch
        self._start = 0  # of the bytes in _buffer that are not parsed yet
        self._end = 0
        self._frame_size = 0  # of the last frame
        self._next_request = 0  # sequence numbers
        self._next_reply = 0
        self._parked: dict[int, list[Part]] = {}  # replies that wait for an older one

    def get_buffer(self, size_hint: int) -> memoryview:
        """Room to receive into. Views of earlier requests are invalid from here on."""
        count = self._end - self._start
        if count == 0:
            if self._buffer is not self._scratch:
                self._shrink()
        elif self._end == len(self._buffer) and self._start == 0:
            self._grow()
        elif self._start:
            self._buffer[:count] = self._buffer[self._start : self._end]
        self._start = 0
        self._end = count
        return self._buffer[count:]

    def settle(self) -> None:
        """Leave the scratch buffer to other connections, by copying what is not parsed yet."""
        count = self._end - self._start
        if count and self._buffer is self._scratch:
            own = bytearray(max(BUFFER_BYTES, 2 * count))
            own[:count] = self._buffer[self._start : self._end]
            self._buffer = memoryview(own)
            self._start = 0
            self._end = count

    def received(self, count: int) -> None:
        """`count` bytes are in the buffer that get_buffer returned."""
        assert 0 <= count <= len(self._buffer) - self._end
        self._end += count

    @property
    def has_more(self) -> bool:
        """True if the buffer has a request, or a part of one, that is not parsed yet."""
        return self._end > self._start

    @property
    def arriving(self) -> int:
        """The sequence number of the request that is being received; -1 if there is none."""
        return self._next_request if self._end > self._start else -1

    def next_request(self) -> Request | None:
        """The next whole request, or None when more bytes are needed."""
        start = self._start
        count = self._end - start
        if count < FRAME_START_BYTES:
            if count >= 4:
                self._check(_SIZE.unpack_from(self._buffer, start)[0])
            return None
        buffer = self._buffer
        size, api_key, version, correlation_id = _FRAME_START.unpack_from(buffer, start)
        self._check(size)
        if size > FRAME_BYTES_MAX_OF_OTHERS and api_key not in LARGE_REQUESTS:
            raise ProtocolError(
                f"a request of {size} bytes for API {api_key};"
                f" {FRAME_BYTES_MAX_OF_OTHERS} are the most"
            )
        start += 4
        if self._end < start + size:
            return None
        self._start = end = start + size
        self._frame_size = size
        client_id, body = self._read(buffer[start:end], api_key, version)
        sequence = self._next_request
        self._next_request = sequence + 1
        return Request(sequence, APIS[api_key], version, correlation_id, client_id, body, size)

    def reply(self, request: Request, response: Message | None) -> list[Part]:
        """Take a reply, or None for a request without one; returns all parts that are due now."""
        sequence = request.sequence
        assert self._next_reply <= sequence < self._next_request
        parts = [] if response is None else write_reply(request, response)
        if sequence != self._next_reply:
            assert sequence not in self._parked
            self._parked[sequence] = parts
            return []
        sequence += 1
        while self._parked and sequence in self._parked:
            parts += self._parked.pop(sequence)
            sequence += 1
        self._next_reply = sequence
        return parts

    def restrict(self, served: Mapping[int, tuple[int, int]], frame_bytes_max: int) -> None:
        """From the next request on accept only these APIs, up to this size."""
        self._served = served
        self._frame_bytes_max = frame_bytes_max

    def next_token(self) -> Request | None:
        """A bare SASL token, as clients send it after SaslHandshake v0: a size and bytes."""
        from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest

        start = self._start + 4
        if self._end < start:
            return None
        (size,) = _SIZE.unpack_from(self._buffer, self._start)
        if not 0 <= size <= self._frame_bytes_max:
            raise ProtocolError(f"a token of {size} bytes; {self._frame_bytes_max} are the most")
        if self._end < start + size:
            return None
        token = bytes(self._buffer[start : start + size])
        self._start = start + size
        self._frame_size = size
        sequence = self._next_request
        self._next_request = sequence + 1
        api = APIS[_SASL_AUTHENTICATE]
        body = SaslAuthenticateRequest(auth_bytes=token)
        return Request(sequence, api, 0, 0, None, body, size)

    def reply_token(self, request: Request, response: Message | None) -> list[Part]:
        """The reply to a bare token: the server's token, or nothing after a failure."""
        from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse

        assert request.sequence == self._next_reply, "tokens are answered one by one"
        self._next_reply += 1
        if not isinstance(response, SaslAuthenticateResponse) or response.error_code:
            return []
        token = response.auth_bytes
        return [_SIZE.pack(len(token)) + token]

    def pending(self) -> int:
        """How many requests have no reply yet."""
        return self._next_request - self._next_reply - len(self._parked)

    def _check(self, size: int) -> None:
        if not REQUEST_BYTES_MIN <= size <= self._frame_bytes_max:
            raise ProtocolError(f"a request of {size} bytes; {self._frame_bytes_max} are the most")

    def _read(
        self, frame: memoryview, api_key: int, version: int
    ) -> tuple[str | None, Message | None]:
        """A request's client id and body; no body for ApiVersions in an unknown version."""
        api = APIS.get(api_key)
        versions = self._served.get(api_key)
        if api is None or versions is None:
            raise ProtocolError(f"api key {api_key} is not served")
        # The advertised versions may begin below those that can be parsed, as for Produce
        # (KAFKA-18659).
        if versions[0] <= version <= versions[1] and version >= api.version_min:
            try:
                client_id, position = read_nullable_string(frame, 8)
                if version >= api.flexible_from:
                    position = skip_tags(frame, position) if frame[position] else position + 1
                if len(frame) > READ_BYTES_MAX and api_key not in READ_AT_ONCE:
                    return client_id, UnreadBody(api, version, bytes(frame[position:]))
                body, _ = api.read_request(frame, position, version)
            except UNREADABLE as error:
                raise ProtocolError(f"{api.name} v{version}: {error}") from error
            return client_id, body
        if api_key == _API_VERSIONS:
            return None, None
        raise ProtocolError(f"{api.name} v{version} is not served")

    def _grow(self) -> None:
        """Replace a full buffer by a larger one for its frame, at most twice the size.

        A peer gets memory for what it has sent, not for what it says it will send.
        """
        full = len(self._buffer)
        assert full < 4 + self._frame_bytes_max, "next_request must be called before get_buffer"
        (size,) = _SIZE.unpack_from(self._buffer, 0)
        larger = bytearray(min(4 + size, 2 * full) if 4 + size > full else 2 * full)
        larger[:full] = self._buffer
        self._buffer = memoryview(larger)

    def _shrink(self) -> None:
        """Give memory back, but not after a large frame: the next one is mostly as large."""
        if len(self._buffer) > BUFFER_BYTES_KEPT_MAX or self._frame_size < BUFFER_BYTES:
            self._buffer = self._scratch


def write_reply(request: Request, response: Message) -> list[Part]:
    """A response's frame: one buffer, or several with file slices between them."""
    writer = Writer()
    start = writer.buffer
    version = request.version
    if request.unsupported:
        version = 0
    if version >= request.api.flexible_from and request.api_key != _API_VERSIONS:
        start += _REPLY_HEADER_1.pack(0, request.correlation_id)
    else:
        start += _REPLY_HEADER_0.pack(0, request.correlation_id)
    response.write(writer, version)
    _SIZE.pack_into(start, 0, writer.size - 4)
    return writer.finish()
