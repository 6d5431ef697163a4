"""Plain blocking connections to brokers, for what librdkafka's admin client can't ask.

A Line speaks to one broker, Lines to those of a cluster. TLS is done here, SASL PLAIN and SCRAM;
who needs another mechanism is told so.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeVar

from ottla.client.delivery import Setting
from ottla.client.scram import HASHES, Scram
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import APIS, ApiKey
from ottla.wire.connection import ProtocolError
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.peer import Peer
from ottla.wire.primitives import Message

CONNECT_S_MAX: Final = 5.0
RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024  # larger is not an answer, but not Kafka at all
CLIENT_ID: Final = "ottla"

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


class Line:
    """One connection to one broker: a request, its response, the next."""

    def __init__(
        self, host: str, port: int, *, settings: Mapping[str, Setting], timeout_s: float
    ) -> None:
        self.address = f"{host}:{port}"
        self._peer = Peer(response_bytes_max=RESPONSE_BYTES_MAX)
        self._settings = settings
        self._timeout_s = timeout_s
        self._socket = self._connect(host, port)
        try:
            self.versions = self._ask_versions()
            self._authenticate()
        except BaseException:
            self.close()
            raise

    def call(
        self, request: Message, api_key: int, response: type[R], *, version_max: int | None = None
    ) -> R:
        """Ask, and wait; in the newest version that both sides know, not above `version_max`."""
        self.send(request, api_key, version_max=version_max)
        return self.receive(api_key, response)

    def send(self, request: Message, api_key: int, *, version_max: int | None = None) -> None:
        """Ask, and do something else before `receive`. Answers come in the order of questions."""
        api = APIS[api_key]
        low, high = self.versions.get(api_key, (1, 0))
        version = min(high, api.version_max if version_max is None else version_max)
        if version < max(low, api.version_min):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{self.address} does not serve {api.name}"
            )
        self._send(request, api_key, version)

    def receive(self, api_key: int, response: type[R]) -> R:
        """Wait for the answer to the first question that has none."""
        try:
            size = int.from_bytes(self._read(4), signed=True)
            self._peer.check_size(size)
            answer = self._peer.response(self._read(size))
        except TimeoutError:
            raise self._late(api_key) from None
        except (OSError, ProtocolError) as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.address}: {error}") from error
        body = answer.body
        assert isinstance(body, response)
        return body

    def close(self) -> None:
        self._socket.close()

    def _connect(self, host: str, port: int) -> socket.socket:
        try:
            plain = socket.create_connection((host, port), timeout=CONNECT_S_MAX)
            plain.settimeout(self._timeout_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if "SSL" in _protocol(self._settings):
                return _tls(self._settings).wrap_socket(plain, server_hostname=host)
            return plain
        except OSError as error:
            reason = error.strerror or str(error)
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"cannot reach {self.address}: {reason}"
            ) from None

    def _send(self, request: Message, api_key: int, version: int) -> None:
        try:
            for part in self._peer.request(request, api_key, version, CLIENT_ID):
                assert isinstance(part, (bytes, bytearray, memoryview))
                self._socket.sendall(part)
        except TimeoutError:
            raise self._late(api_key) from None
        except OSError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{self.address}: {error}") from error

    def _read(self, size: int) -> bytearray:
        """So many bytes, where they will stay: megabytes of records are not copied about."""
        data = bytearray(size)
        view = memoryview(data)
        position = 0
        while position < size:
            count = self._socket.recv_into(view[position:])
            if not count:
                raise KafkaError(
                    ErrorCode.NETWORK_EXCEPTION, f"{self.address} closed the connection"
                )
            position += count
        return data

    def _late(self, api_key: int) -> KafkaError:
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{self.address} did not answer {APIS[api_key].name} in {self._timeout_s} s",
        )

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        """KIP-511: a broker that does not know our version says which ones it knows."""
        for version in (APIS[ApiKey.API_VERSIONS].version_max, 0):
            request = ApiVersionsRequest(
                client_software_name="ottla", client_software_version="0.1.0"
            )
            self._send(request, ApiKey.API_VERSIONS, version)
            answer = self.receive(ApiKey.API_VERSIONS, ApiVersionsResponse)
            if answer.error_code == 0:
                break
        check(answer.error_code, "")
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def _authenticate(self) -> None:
        if "SASL" not in _protocol(self._settings):
            return
        mechanism = str(self._settings.get("sasl.mechanism", "GSSAPI"))
        if mechanism != "PLAIN" and mechanism not in HASHES:
            known = ", ".join(("PLAIN", *HASHES))
            raise KafkaError(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                f"this command knows SASL {known}, not {mechanism}",
            )
        hands = self.call(
            SaslHandshakeRequest(mechanism=mechanism), ApiKey.SASL_HANDSHAKE, SaslHandshakeResponse
        )
        check(hands.error_code, f"{self.address} does not offer SASL {mechanism}")
        user = str(self._settings.get("sasl.username", ""))
        password = str(self._settings.get("sasl.password", ""))
        if mechanism == "PLAIN":
            self._say(f"\0{user}\0{password}".encode())
            return
        scram = Scram(mechanism, user, password)
        scram.verify(self._say(scram.final(self._say(scram.first()))))

    def _say(self, words: bytes) -> bytes:
        """One step of an authentication: ours, and the broker's answer."""
        answer = self.call(
            SaslAuthenticateRequest(auth_bytes=words),
            ApiKey.SASL_AUTHENTICATE,
            SaslAuthenticateResponse,
        )
        check(answer.error_code, answer.error_message)
        return answer.auth_bytes


class Lines:
    """Connections to the brokers of one cluster, opened when they are needed."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: Mapping[str, Setting] | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        self._bootstrap = parse_servers(bootstrap_servers)
        self._settings = settings or {}
        self._timeout_s = timeout_s
        self._first: Line | None = None
        self._lines: dict[int, Line] = {}
        self._nodes: dict[int, Node] = {}
        self.controller_id = -1
        self.cluster_id = ""

    def call(
        self, request: Message, api_key: int, response: type[R], *, node_id: int | None = None
    ) -> R:
        """Ask one broker: any that answers, or the one with `node_id`."""
        line = self.first if node_id is None else self.line(node_id)
        return line.call(request, api_key, response)

    @property
    def first(self) -> Line:
        """The line to the first of the bootstrap servers that answers."""
        if self._first is None:
            self._first = self._open_first()
        return self._first

    def line(self, node_id: int) -> Line:
        if node_id not in self._lines:
            node = self.nodes().get(node_id)
            if node is None:
                raise KafkaError(
                    ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not available"
                )
            self._lines[node_id] = self._open(node.host, node.port)
        return self._lines[node_id]

    def nodes(self, *, anew: bool = False) -> dict[int, Node]:
        """Every live broker, by its id. (Metadata also tells of one that has just gone.)"""
        if anew or not self._nodes:
            answer = self._describe()
            check(answer.error_code, answer.error_message)
            self._nodes = {
                each.broker_id: Node(each.broker_id, each.host, each.port, each.rack)
                for each in answer.brokers
            }
            self.controller_id = answer.controller_id
            self.cluster_id = answer.cluster_id
        return self._nodes

    def _describe(self) -> DescribeClusterResponse:
        """Over a new connection if the old one is gone: a broker hangs up on who was idle for long
        (connections.max.idle.ms), which says nothing of how it is."""
        request = DescribeClusterRequest()
        if (old := self._first) is not None:
            try:
                return old.call(request, ApiKey.DESCRIBE_CLUSTER, DescribeClusterResponse)
            except KafkaError as error:
                if error.code is not ErrorCode.NETWORK_EXCEPTION:
                    raise
            old.close()
            self._first = None
        return self.call(request, ApiKey.DESCRIBE_CLUSTER, DescribeClusterResponse)

    def close(self) -> None:
        for line in (*self._lines.values(), *filter(None, [self._first])):
            line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open_first(self) -> Line:
        failure: KafkaError | None = None
        for host, port in self._bootstrap:
            try:
                return self._open(host, port)
            except KafkaError as error:
                failure = error
        assert failure is not None
        raise failure

    def _open(self, host: str, port: int) -> Line:
        return Line(host, port, settings=self._settings, timeout_s=self._timeout_s)


def parse_servers(bootstrap_servers: str) -> list[tuple[str, int]]:
    """`host:port,[::1]:port`; KafkaError says which part is not an address."""
    servers = []
    for each in bootstrap_servers.split(","):
        host, colon, port = each.strip().rpartition(":")
        host = host.removeprefix("PLAINTEXT://").strip("[]")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Invalid url in bootstrap.servers: {each.strip()}"
            )
        servers.append((host, int(port)))
    return servers


def probe(bootstrap_servers: str, timeout_s: float = CONNECT_S_MAX) -> None:
    """Is anybody there? librdkafka would go on trying; a person at a prompt wants to know."""
    deadline = time.monotonic() + timeout_s
    reasons = []
    for host, port in parse_servers(bootstrap_servers):
        try:
            left = max(0.1, deadline - time.monotonic())
            socket.create_connection((host, port), timeout=left).close()
            return
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "cannot reach " + ", ".join(reasons))


def check(code: int, message: str | None) -> None:
    """Raise what a response's error code says."""
    if code:
        raise KafkaError(ErrorCode(code), message or "")


def _protocol(settings: Mapping[str, Setting]) -> str:
    return str(settings.get("security.protocol", "PLAINTEXT")).upper()


def _tls(settings: Mapping[str, Setting]) -> ssl.SSLContext:
    authority = settings.get("ssl.ca.location")
    context = ssl.create_default_context(cafile=str(authority) if authority else None)
    if str(settings.get("ssl.endpoint.identification.algorithm", "https")).lower() in ("", "none"):
        context.check_hostname = False
    certificate = settings.get("ssl.certificate.location")
    if certificate:
        key = settings.get("ssl.key.location")
        password = settings.get("ssl.key.password")
        context.load_cert_chain(
            str(certificate), str(key) if key else None, str(password) if password else None
        )
    return context
