"""A connection to another broker: requests out, responses in, many in flight at a time.

Followers fetch over it, and brokers send each other requests over it. Each response is received
into a buffer of exactly its size, and its records are slices of that: megabytes are not copied.
Responses come in the order of the requests, so a request that must not wait for another uses a
second connection.

A connection authenticates before it is used, and again before its session ends (KIP-368). Requests
wait meanwhile, because the other broker accepts nothing else until that is done.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections import deque
from typing import Final, Self, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.net.connection_security import ConnectionSecurity
from ottla.net.outbox import Outbox, TlsOutbox
from ottla.net.sasl_dialogue import sasl_dialogue
from ottla.net.tls_stream import TlsStream, connect_tls
from ottla.wire.apis import APIS, ApiKey
from ottla.wire.connection import ProtocolError
from ottla.wire.fields import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.peer import Peer

RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024  # a larger one does not come from a Kafka broker
SCRATCH_BYTES: Final = 16 * 1024
TURN_BYTES_MAX: Final = 4 * 1024 * 1024  # received before other connections get their turn
REAUTHENTICATE_AFTER: Final = 0.85  # of the session lifetime; Kafka's clients: at 85 to 95 %
REAUTHENTICATION_S_MAX: Final = 10.0

R = TypeVar("R", bound=Message)


class BrokerUnreachable(KafkaError):
    """No connection. `refused`: the host answered, but no process listens on the port.
    `untrusted`: one does, but the TLS handshake failed."""

    def __init__(self, message: str, *, refused: bool, untrusted: bool = False) -> None:
        super().__init__(ErrorCode.BROKER_NOT_AVAILABLE, message)
        self.refused = refused
        self.untrusted = untrusted


class InterBrokerConnection:
    """One connection to one broker. `closed` is set when either side has closed it."""

    def __init__(self, sock: socket.socket | TlsStream, address: str, client_id: str) -> None:
        self.address = address
        self.closed = asyncio.Event()
        self.versions: dict[int, tuple[int, int]] = {}  # that the other broker serves, by API key
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._stream = sock if isinstance(sock, TlsStream) else None
        self._client_id = client_id
        self._peer = Peer(response_bytes_max=RESPONSE_BYTES_MAX)
        self._outbox = Outbox(sock) if self._stream is None else TlsOutbox(self._stream)
        self._security: ConnectionSecurity | None = None
        self._authenticating = False
        self._waiting: list[tuple[Message, int, int, asyncio.Future[Message]]] = []
        self._reauthentication: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self._writing = False
        self._why = ""
        self._answers: deque[asyncio.Future[Message]] = deque()  # in the order of the requests
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._have = 0  # bytes in the scratch buffer
        self._frame: bytearray | None = None  # the response that is being received
        self._rest: memoryview | None = None  # the part of it that is still to come
        self._loop.add_reader(sock.fileno(), self._readable)

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        security: ConnectionSecurity | None = None,
    ) -> Self:
        """Connect, ask for the API versions, and authenticate.

        BrokerUnreachable if no broker answers; KafkaError(SASL_AUTHENTICATION_FAILED) if it
        refuses us.
        """
        address = f"{host}:{port}"
        try:
            async with asyncio.timeout(timeout_s):
                sock: socket.socket | TlsStream
                sock = plain = await _connect(host, port)
                if security is not None and security.tls is not None:
                    sock = await connect_tls(plain, security.tls.client_context, host)
                connection = cls(sock, address, client_id)
                try:
                    await connection._ask_versions()
                    if security is not None and security.login is not None:
                        await connection._authenticate(security)
                except BaseException:
                    connection.close()
                    raise
        except TimeoutError:
            raise BrokerUnreachable(f"{address} did not answer", refused=False) from None
        except OSError as error:
            untrusted = isinstance(error, ssl.SSLError)
            refused = not untrusted and error.errno == errno.ECONNREFUSED
            message = f"cannot reach {address}: {error}"
            raise BrokerUnreachable(message, refused=refused, untrusted=untrusted) from None
        return connection

    async def call(
        self,
        request: Message,
        api_key: int,
        response_type: type[R],
        *,
        version: int | None = None,
        timeout_s: float | None = None,
    ) -> R:
        """Send a request and return its response; `version` defaults to the newest in common.

        KafkaError(NETWORK_EXCEPTION) if no response comes. A late one closes the connection: the
        responses behind it would wait for it, and may never come.
        """
        answer = self.send(request, api_key, version=version)
        try:
            async with asyncio.timeout(timeout_s):
                body = await answer
        except TimeoutError:
            self._end(f"no answer to {APIS[api_key].name} within {timeout_s} s")
            raise self._lost() from None
        assert isinstance(body, response_type)
        return body

    def send(
        self, request: Message, api_key: int, *, version: int | None = None
    ) -> asyncio.Future[Message]:
        """Send a request and return a future of its response; requests leave in call order."""
        if self.closed.is_set():
            raise self._lost()
        chosen = self._version(api_key) if version is None else version
        answer: asyncio.Future[Message] = self._loop.create_future()
        if self._authenticating:
            self._waiting.append((request, api_key, chosen, answer))
        else:
            self._push(request, api_key, chosen, answer)
        return answer

    def _push(
        self, request: Message, api_key: int, version: int, answer: asyncio.Future[Message]
    ) -> None:
        self._outbox.push(self._peer.request(request, api_key, version, self._client_id))
        self._answers.append(answer)
        if not self._writing:
            self._writable()

    def close(self) -> None:
        """Close the connection; requests in flight fail with NETWORK_EXCEPTION."""
        self._end("closed by us")

    def _version(self, api_key: int) -> int:
        api = APIS[api_key]
        low, high = self.versions.get(api_key, (1, 0))
        version = min(high, api.version_max)
        if version < max(low, api.version_min):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{self.address} does not serve {api.name}"
            )
        return version

    async def _ask_versions(self) -> None:
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version="broker")
        body = await self.send(request, ApiKey.API_VERSIONS, version=3)
        assert isinstance(body, ApiVersionsResponse)
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in body.api_keys}

    # Authentication

    async def _authenticate(self, security: ConnectionSecurity) -> None:
        """KafkaError if the broker refuses us, or fails to prove that it is the right one."""
        assert security.login is not None
        self._security = security
        proof = await security.proof(self.address.rpartition(":")[0])
        dialogue = sasl_dialogue(security.login, proof, self.address)
        api_key, request = next(dialogue)
        lifetime_ms = 0
        try:
            while True:
                answer = await self._ask(request, api_key, self._version(api_key))
                api_key, request = dialogue.send(answer)
        except StopIteration as done:
            lifetime_ms = done.value
        except KafkaError as error:
            if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise
            raise KafkaError(error.code, f"{self.address}: {error.message}") from None
        if lifetime_ms:
            wait_s = lifetime_ms / 1000 * REAUTHENTICATE_AFTER
            self._reauthentication = self._loop.call_later(wait_s, self._begin_again)

    async def _ask(self, request: Message, api_key: int, version: int) -> Message:
        answer: asyncio.Future[Message] = self._loop.create_future()
        self._push(request, api_key, version, answer)
        return await answer

    def _begin_again(self) -> None:
        if not self.closed.is_set():
            self._authenticating = True
            self._reauthentication = self._loop.create_task(self._reauthenticate())

    async def _reauthenticate(self) -> None:
        assert self._security is not None
        try:
            async with asyncio.timeout(REAUTHENTICATION_S_MAX):
                await self._authenticate(self._security)
        except (KafkaError, TimeoutError) as error:
            self._end(f"re-authentication failed: {error}")
            return
        self._authenticating = False
        waiting, self._waiting = self._waiting, []
        for entry in waiting:
            self._push(*entry)

    # The socket

    def _writable(self) -> None:
        try:
            done = self._outbox.flush()
        except OSError as error:
            self._end(str(error))
            return
        if done and self._writing:
            self._loop.remove_writer(self._socket.fileno())
        elif not done and not self._writing:
            self._loop.add_writer(self._socket.fileno(), self._writable)
        self._writing = not done

    def _readable(self) -> None:
        turn = TURN_BYTES_MAX
        try:
            while turn > 0 and not self.closed.is_set():
                into = self._scratch[self._have :] if self._rest is None else self._rest
                wanted = len(into)
                count = self._socket.recv_into(into)
                if count == 0:
                    self._end("closed by the far side")
                    return
                turn -= count
                self._received(count)
                if count < wanted:
                    return  # the socket is empty: no need to ask it
            if self._stream is not None and not self.closed.is_set() and self._stream.pending():
                self._loop.call_soon(self._read_on)  # bytes in OpenSSL do not wake the loop
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, ProtocolError) as error:
            self._end(str(error))

    def _read_on(self) -> None:
        if not self.closed.is_set():
            self._readable()

    def _received(self, count: int) -> None:
        if self._rest is None:
            self._have += count
            self._sort()
            return
        self._rest = self._rest[count:]
        if not len(self._rest):
            assert self._frame is not None
            frame = self._frame
            self._frame = self._rest = None
            self._answered(frame)

    def _sort(self) -> None:
        """Take the responses out of the scratch buffer; a larger one gets a buffer of its size."""
        scratch, start, have = self._scratch, 0, self._have
        while have - start >= 4:
            size = int.from_bytes(scratch[start : start + 4], signed=True)
            self._peer.check_size(size)
            frame = bytearray(size)
            there = min(size, have - start - 4)
            frame[:there] = scratch[start + 4 : start + 4 + there]
            start += 4 + there
            if there < size:
                self._frame, self._rest = frame, memoryview(frame)[there:]
                break
            self._answered(frame)
        left = have - start
        if left and start:
            scratch[:left] = bytes(scratch[start:have])
        self._have = left

    def _answered(self, frame: bytearray) -> None:
        body = self._peer.response(frame).body
        answer = self._answers.popleft()
        if not answer.done():  # the caller may have given up
            answer.set_result(body)

    def _end(self, why: str) -> None:
        if self.closed.is_set():
            return
        self.closed.set()
        fd = self._socket.fileno()
        self._loop.remove_reader(fd)
        if self._writing:
            self._loop.remove_writer(fd)
        self._socket.close()
        self._why = why
        if isinstance(self._reauthentication, asyncio.TimerHandle):
            self._reauthentication.cancel()
        for answer in (*self._answers, *(entry[3] for entry in self._waiting)):
            if not answer.done():
                answer.set_exception(self._lost())
        self._answers.clear()
        self._waiting.clear()

    def _lost(self) -> KafkaError:
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.address}: {self._why}")


async def _connect(host: str, port: int) -> socket.socket:
    """A socket connected to the first address that answers."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    last: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            last = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise last
