"""A blocking connection to one broker.

Settings are Kafka's, as in a client's properties file. A BrokerConnection does TLS and SASL by them
(security.py), and authenticates again before its session expires (KIP-368).
"""

from __future__ import annotations

import random
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from ottla.auth.sasl_client import SaslLogin
from ottla.client.delivery import Setting
from ottla.client.permissions import denied
from ottla.client.security import (
    login_of,
    refused_login,
    uses_tls,
)
from ottla.client.tls import client_context
from ottla.errors import ErrorCode, KafkaError
from ottla.net.sasl_dialogue import sasl_dialogue
from ottla.wire.apis import APIS, ApiKey
from ottla.wire.connection import ProtocolError
from ottla.wire.fields import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.peer import Peer

CONNECT_S_MAX: Final = 5.0
CLOSED_S: Final = 0.2
RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024  # a larger one is not from a Kafka broker
CLIENT_ID: Final = "ottla"
REAUTHENTICATE_SHARE: Final = (0.85, 0.95)  # of a session's lifetime, as in Kafka's clients

R = TypeVar("R", bound=Message)


@dataclass(slots=True, frozen=True)
class Node:
    """A broker's address."""

    id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class BrokerConnection:
    """One connection to one broker: requests, and their responses in order."""

    def __init__(
        self, host: str, port: int, *, settings: Mapping[str, Setting], timeout_s: float
    ) -> None:
        self.address = f"{host}:{port}"
        self._peer = Peer(response_bytes_max=RESPONSE_BYTES_MAX)
        self._settings = settings
        self._login = login_of(settings)
        self._session_ms = 0  # 0: it does not expire
        self._session_ends = 0.0
        self._waiting = 0  # requests without a response yet
        self._opened = False
        self._timeout_s = timeout_s
        self._socket = self._connect(host, port)
        try:
            self.versions = self._ask_versions()
            self._opened = True
            self._authenticate()
        except BaseException:
            self.close()
            raise

    def call(
        self, request: Message, api_key: int, response: type[R], *, version_max: int | None = None
    ) -> R:
        """Send and receive, in the newest version that both sides know, at most `version_max`."""
        self.send(request, api_key, version_max=version_max)
        return self.receive(api_key, response)

    def send(self, request: Message, api_key: int, *, version_max: int | None = None) -> None:
        """Send a request; `receive` its response later. Responses come in the order of requests."""
        self._authenticate_again()
        self._send(request, api_key, self._version(api_key, version_max))

    def receive(self, api_key: int, response: type[R]) -> R:
        """Wait for the response to the oldest outstanding request."""
        try:
            size = int.from_bytes(self._read(4), signed=True)
            self._peer.check_size(size)
            answer = self._peer.response(self._read(size))
        except TimeoutError:
            raise self._late(api_key) from None
        except OSError as error:
            raise self._broken(error) from error
        except ProtocolError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.address}: {error}") from error
        self._waiting -= 1
        body = answer.body
        assert isinstance(body, response)
        return body

    def close(self) -> None:
        self._socket.close()

    def _connect(self, host: str, port: int) -> socket.socket:
        context = tls_context(self._settings)
        try:
            plain = socket.create_connection((host, port), timeout=CONNECT_S_MAX)
            plain.settimeout(self._timeout_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            reason = error.strerror or str(error)
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"cannot reach {self.address}: {reason}"
            ) from None
        if context is None:
            return plain
        try:
            return context.wrap_socket(plain, server_hostname=host)
        except ssl.SSLError as error:
            raise refused_handshake(self.address, error) from None
        except OSError as error:
            message = f"{self.address} ended the TLS handshake: {error.strerror or error}"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, message) from None

    def _version(self, api_key: int, version_max: int | None) -> int:
        api = APIS[api_key]
        low, high = self.versions.get(api_key, (1, 0))
        version = min(high, api.version_max if version_max is None else version_max)
        if version < max(low, api.version_min):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{self.address} does not serve {api.name}"
            )
        return version

    def _send(self, request: Message, api_key: int, version: int) -> None:
        self._waiting += 1
        try:
            for part in self._peer.request(request, api_key, version, CLIENT_ID):
                assert isinstance(part, (bytes, bytearray, memoryview))
                self._socket.sendall(part)
        except TimeoutError:
            raise self._late(api_key) from None
        except OSError as error:
            raise self._broken(error) from error

    def _broken(self, error: OSError) -> KafkaError:
        """With TLS 1.3 the broker refuses a client's certificate after the client has finished its
        handshake: the first request or its response fails, by an alert, or by a reset that
        overtakes the alert."""
        if isinstance(self._socket, ssl.SSLSocket) and not self._opened:
            return refused_handshake(self.address, error)
        reason = error.reason if isinstance(error, ssl.SSLError) else error
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.address}: {reason}")

    def _read(self, size: int) -> bytearray:
        """Read `size` bytes into their final buffer: megabytes of records are not copied."""
        data = bytearray(size)
        view = memoryview(data)
        position = 0
        while position < size:
            count = self._socket.recv_into(view[position:])
            if not count:
                raise ConnectionResetError("the broker closed the connection")
            position += count
        return data

    def _late(self, api_key: int) -> KafkaError:
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{self.address} did not answer {APIS[api_key].name} in {self._timeout_s} s",
        )

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        """KIP-511: a broker that does not know this version answers with the versions it knows."""
        for version in (APIS[ApiKey.API_VERSIONS].version_max, 0):
            request = ApiVersionsRequest(
                client_software_name="ottla", client_software_version="0.1.0"
            )
            self._send(request, ApiKey.API_VERSIONS, version)
            answer = self.receive(ApiKey.API_VERSIONS, ApiVersionsResponse)
            if answer.error_code == 0:
                break
        check(answer.error_code, "")
        return {
            api_key.api_key: (api_key.min_version, api_key.max_version)
            for api_key in answer.api_keys
        }

    def _authenticate(self) -> None:
        """SASL, if the settings ask for it; the broker may limit the session's lifetime."""
        login = self._login
        if login is None:
            return
        try:
            self._session_ms = self._log_in(login)
        except KafkaError as error:
            if error.code != ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise
            raise refused_login(login, self.address, str(error)) from None
        share = random.uniform(*REAUTHENTICATE_SHARE)
        self._session_ends = time.monotonic() + self._session_ms * share / 1000

    def _authenticate_again(self) -> None:
        """KIP-368: on the live connection, while no request is outstanding."""
        if self._session_ms and not self._waiting and time.monotonic() > self._session_ends:
            self._authenticate()

    def _log_in(self, login: SaslLogin) -> int:
        """The session's lifetime in milliseconds; 0: unlimited."""
        host = self.address.rpartition(":")[0].strip("[]")
        dialogue = sasl_dialogue(login, login.proof(host), self.address)
        api_key, request = next(dialogue)
        try:
            while True:
                api_key, request = dialogue.send(self._ask(request, api_key, Message))
        except StopIteration as done:
            return int(done.value)

    def _ask(self, request: Message, api_key: int, response: type[R]) -> R:
        self._send(request, api_key, self._version(api_key, None))
        return self.receive(api_key, response)


def check(code: int, message: str | None, api_key: int | None = None, name: str = "") -> None:
    """Raise the error of a response. An authorization error names the ACL that is needed, if the
    caller gives the `api_key` and the resource's `name`."""
    if code:
        error = KafkaError(ErrorCode(code), message or "")
        raise error if api_key is None else denied(error, api_key, name)


def tls_context(settings: Mapping[str, Setting]) -> ssl.SSLContext | None:
    """None: the protocol is without TLS."""
    return client_context(settings) if uses_tls(settings) else None


def refused_handshake(address: str, error: OSError) -> KafkaError:
    """Not retriable, unless the other side closed the connection: it may be shutting down."""
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    if isinstance(error, ssl.SSLEOFError) or not isinstance(error, ssl.SSLError):
        code = ErrorCode.NETWORK_EXCEPTION
        why = "it closed the connection; security.protocol or the client's certificate may be wrong"
    elif isinstance(error, ssl.SSLCertVerificationError):
        why = f"its certificate is refused: {error.verify_message.rstrip('.')}"
    elif error.reason == "WRONG_VERSION_NUMBER":
        why = "no TLS is spoken there, security.protocol may be wrong"
    else:
        why = (error.reason or str(error)).replace("_", " ").lower()
    return KafkaError(code, f"SSL handshake with {address} failed: {why}")
