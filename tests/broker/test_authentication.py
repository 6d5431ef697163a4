"""SASL on a connection: order of requests, failures, expiry of sessions, and principals."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.auth.sasl_client import SaslLogin
from ottla.auth.scram import ScramClient, ScramCredential
from ottla.broker.authentication import VERSIONS_ASKED_MAX
from ottla.broker.broker import Broker
from ottla.cluster.layout import dump_config
from ottla.config import ConfigError, ServerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.net.connection_security import ConnectionSecurity
from ottla.net.inter_broker_connection import InterBrokerConnection
from ottla.testing import ManualClock
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.peer import Peer

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = f'{MODULE} required username="b" password="bs" user_b="bs" user_alice="as";'
SCRAM = (
    'org.apache.kafka.common.security.scram.ScramLoginModule required username="b" password="b";'
)
NOW_MS = 1_700_000_000_000
DELAY_MS = 100

Test = Callable[["Rig"], Coroutine[Any, Any, None]]


class Client:
    """A raw connection to a broker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.peer = reader, writer, Peer()

    def send(self, message: Any, key: int, version: int) -> None:
        for part in self.peer.request(message, key, version, "test"):
            self.writer.write(bytes(part))  # type: ignore[arg-type]

    async def ask(self, message: Any, key: int, version: int) -> Any:
        self.send(message, key, version)
        while (response := self.peer.next_response()) is None:
            data = await asyncio.wait_for(self.reader.read(65536), 60)
            if not data:
                raise EOFError
            self.peer.receive_data(data)
        return response.body

    async def versions(self, version: int = 3) -> ApiVersionsResponse:
        request = ApiVersionsRequest("test", "1")
        answer = await self.ask(request, ApiKey.API_VERSIONS, version)
        assert isinstance(answer, ApiVersionsResponse)
        return answer

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
        request = SaslHandshakeRequest(mechanism=mechanism)
        answer = await self.ask(request, ApiKey.SASL_HANDSHAKE, version)
        assert isinstance(answer, SaslHandshakeResponse)
        return answer

    async def token(self, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
        request = SaslAuthenticateRequest(auth_bytes=token)
        answer = await self.ask(request, ApiKey.SASL_AUTHENTICATE, version)
        assert isinstance(answer, SaslAuthenticateResponse)
        return answer

    async def login(self, user: str = "alice", password: str = "as") -> SaslAuthenticateResponse:
        assert (await self.handshake()).error_code == 0
        return await self.token(f"\0{user}\0{password}".encode())

    async def metadata(self) -> MetadataResponse:
        answer = await self.ask(MetadataRequest(topics=[]), ApiKey.METADATA, 9)
        assert isinstance(answer, MetadataResponse)
        return answer

    async def ended(self) -> bool:
        """True if the broker closes the connection without a response."""
        try:
            return await asyncio.wait_for(self.reader.read(100), 60) == b""
        except ConnectionResetError:
            return True


class Rig:
    """One broker with a SASL_PLAINTEXT listener and a plain one."""

    def __init__(self, path: Path, properties: dict[str, str]) -> None:
        self.clock = ManualClock(NOW_MS)
        config = ServerConfig(
            {
                "log.dirs": str(path),
                "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS,
                "connection.failed.authentication.delay.ms": str(DELAY_MS),
                **properties,
            }
        )
        self.broker = Broker(config, clock=self.clock)
        self.clients: list[Client] = []

    async def connect(self, listener: str = "SASL_PLAINTEXT") -> Client:
        port = next(bound.port for bound in self.broker.listeners if bound.name == listener)
        self.clients.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
        return self.clients[-1]

    def count(self, name: str) -> int:
        return self.broker.authentication_counts.count(name, "SASL_PLAINTEXT")


def run(path: Path, test: Test, **properties: str) -> None:
    async def main() -> None:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        rig = Rig(path, named)
        await rig.broker.start()
        try:
            async with asyncio.timeout(60):
                await test(rig)
        finally:
            for client in rig.clients:
                client.writer.close()
            await rig.broker.stop()

    asyncio.run(main())


def test_a_user_with_the_right_password_is_served(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        client = await rig.connect()
        result = await client.versions()
        assert {17, 36} <= {api.api_key for api in result.api_keys}
        assert (await client.login()).error_code == 0
        assert (await client.metadata()).brokers
        assert rig.count("successful_authentication") == 1
        assert (await client.versions()).error_code == 0  # Java asks again afterwards

    run(tmp_path, test)


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "as")])
def test_a_failure_is_answered_late_with_one_text_and_the_connection_closes(
    tmp_path: Path, user: str, password: str
) -> None:
    async def test(rig: Rig) -> None:
        client = await rig.connect()
        other = await rig.connect("PLAINTEXT")
        await client.handshake()
        began = time.monotonic()
        client.send(
            SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()),
            ApiKey.SASL_AUTHENTICATE,
            2,
        )
        await other.metadata()  # nobody else waits
        client.peer._expected.clear()
        size = struct.unpack(">i", await client.reader.readexactly(4))[0]
        assert time.monotonic() - began >= DELAY_MS / 1000
        frame = await client.reader.readexactly(size)
        assert frame[5:7] == struct.pack(">h", ErrorCode.SASL_AUTHENTICATION_FAILED)
        assert b"Invalid username or password" in frame
        assert await client.ended()
        assert rig.count("failed_authentication") == 1

    run(tmp_path, test)


def test_an_unknown_mechanism_is_answered_with_the_list_and_the_connection_closes(
    tmp_path: Path,
) -> None:
    async def test(rig: Rig) -> None:
        client = await rig.connect()
        answer = await client.handshake("GSSAPI")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
        assert await client.ended()

    run(tmp_path, test)


def test_cve_2022_34917_nothing_else_is_read_before_a_client_has_authenticated(
    tmp_path: Path,
) -> None:
    """CVE-2022-34917."""

    async def test(rig: Rig) -> None:
        first, second = await rig.connect(), await rig.connect()
        with pytest.raises((EOFError, ConnectionError)):
            await first.metadata()
        await second.handshake()
        with pytest.raises((EOFError, ConnectionError)):
            await second.metadata()
        assert rig.count("failed_authentication") == 2

    run(tmp_path, test)


def test_requests_are_small_before_a_client_has_authenticated(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        client = await rig.connect()
        client.writer.write(struct.pack(">ihhi", 10_001, 36, 1, 0))
        assert await client.ended()
        fine = await rig.connect()
        await fine.login()
        client.writer.close()
        many = HeartbeatRequest(group_id="g" * 20_000)
        assert isinstance(await fine.ask(many, ApiKey.HEARTBEAT, 4), HeartbeatResponse)

    run(tmp_path, test, sasl_server_max_receive_size="10000")


def test_api_versions_is_answered_once_and_only_before_the_handshake(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        twice = await rig.connect()
        await twice.versions()
        with pytest.raises(EOFError):
            await twice.versions()
        late = await rig.connect()
        await late.handshake()
        with pytest.raises(EOFError):
            await late.versions()
        again = await rig.connect()
        raw = struct.pack(">ihhih", 10, 18, 99, 0, -1)  # a version that nobody knows (KIP-511)
        again.writer.write(raw)
        size = struct.unpack(">i", await again.reader.readexactly(4))[0]
        frame = await again.reader.readexactly(size)
        assert frame[4:6] == struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)
        await again.versions()
        assert (await again.login()).error_code == 0
        endless = await rig.connect()
        endless.writer.write(raw * 10)
        answers = await endless.reader.read()
        assert len(answers) == VERSIONS_ASKED_MAX * (4 + size), "the connection is closed then"

    run(tmp_path, test)


def test_api_versions_is_answered_in_every_advertised_version(tmp_path: Path) -> None:
    """franz-go's TestSCRAMAuth: it begins with the newest ApiVersions that it knows."""

    async def test(rig: Rig) -> None:
        result = (await (await rig.connect()).versions()).api_keys
        mine = next(api for api in result if api.api_key == ApiKey.API_VERSIONS)
        assert mine.max_version >= 5
        for version in range(mine.min_version, mine.max_version + 1):
            client = await rig.connect()
            assert (await client.versions(version)).error_code == 0, version
            assert (await client.login()).error_code == 0

    run(tmp_path, test)


def test_tokens_without_headers_follow_a_handshake_of_version_0(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        client = await rig.connect()
        await client.handshake(version=0)
        token = b"\0alice\0as"
        client.writer.write(struct.pack(">i", len(token)) + token)
        assert await client.reader.readexactly(4) == bytes(4)  # an empty token: it is done
        assert (await client.metadata()).brokers
        assert rig.count("successful_authentication_no_reauth") == 1
        wrong = await rig.connect()
        await wrong.handshake(version=0)
        wrong.writer.write(struct.pack(">i", 3) + b"\0a\0")
        assert await wrong.ended()

    run(tmp_path, test)


def test_a_request_in_the_wrong_state_is_illegal(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        early = await rig.connect()
        answer = await early.token(b"\0alice\0as")
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await early.ended()
        done = await rig.connect()
        await done.login()
        assert (await done.handshake()).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await done.token(b"x")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await done.metadata()).brokers
        plain = await rig.connect("PLAINTEXT")
        assert (await plain.handshake()).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await plain.metadata()).brokers

    run(tmp_path, test)


def test_a_session_ends_unless_the_client_authenticates_again(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        client = await rig.connect()
        result = await client.login()
        assert result.session_lifetime == 10_000
        rig.clock.advance(9_000)
        assert (await client.login()).session_lifetime == 10_000
        assert rig.count("successful_reauthentication") == 1
        rig.clock.advance(9_000)
        assert (await client.metadata()).brokers
        rig.clock.advance(1_001)
        with pytest.raises(EOFError):
            await client.metadata()
        assert rig.count("expired_connections_killed") == 1

    run(tmp_path, test, connections_max_reauth_ms="10000")


def test_another_principal_can_not_take_over_a_session(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        client = await rig.connect()
        await client.login()
        rig.clock.advance(2_000)
        answer = await client.login("b", "bs")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.ended()
        assert rig.count("failed_reauthentication") == 1

    run(tmp_path, test, connections_max_reauth_ms="10000")


def test_a_removed_plain_password_is_refused(tmp_path: Path) -> None:
    """On an open connection: reauthentication checks the current users."""
    jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"

    async def test(rig: Rig) -> None:
        client = await rig.connect()
        assert (await client.login()).error_code == 0
        rig.clock.advance(2_000)
        assert (await client.login()).error_code == 0
        without = USERS.replace('user_alice="as"', 'user_alice="another"')
        security = rig.broker._security
        assert security is not None
        security.reconfigure(ServerConfig({**rig.broker.config.static, jaas: without}))
        rig.clock.advance(2_000)
        assert (await client.login()).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.ended()
        newcomer = await rig.connect()
        assert (await newcomer.login(password="another")).error_code == 0

    run(tmp_path, test, connections_max_reauth_ms="10000")


def test_scram_credentials_come_from_the_metadata(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        credential = ScramCredential.of_password("SCRAM-SHA-256", "secret", iterations=4096)
        await rig.broker._meta_store.create(
            "/config/users/carol", dump_config({"SCRAM-SHA-256": str(credential)})
        )
        while (("user", "carol"),) not in rig.broker.image.quotas:
            await asyncio.sleep(0.005)
        client = await rig.connect()
        await client.handshake("SCRAM-SHA-256")
        scram = ScramClient("SCRAM-SHA-256", "carol", "secret")
        challenge = await client.token(scram.first())
        last = await client.token(scram.final(challenge.auth_bytes))
        scram.verify(last.auth_bytes)
        assert (await client.metadata()).brokers

    run(tmp_path, test)


def test_inter_broker_connections_reauthenticate_in_time(tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        port = rig.broker.port
        security = ConnectionSecurity(None, SaslLogin("PLAIN", "b", "bs"))
        line = await InterBrokerConnection.open(
            "127.0.0.1", port, client_id="b", timeout_s=60, security=security
        )
        rig.clock.advance(1_500)  # the broker's: it refuses a second time within a second
        while not rig.count("successful_reauthentication"):
            answers = [line.send(MetadataRequest(topics=[]), ApiKey.METADATA) for _ in range(10)]
            assert len(await asyncio.gather(*answers)) == 10
            await asyncio.sleep(0.01)
        assert not line.closed.is_set()
        line.close()
        stranger = ConnectionSecurity(None, SaslLogin("PLAIN", "b", "wrong"))
        with pytest.raises(KafkaError) as caught:
            await InterBrokerConnection.open(
                "127.0.0.1", port, client_id="b", timeout_s=60, security=stranger
            )
        assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED

    run(tmp_path, test, connections_max_reauth_ms="2000")


def test_a_listener_without_a_login_module_does_not_start(tmp_path: Path) -> None:
    async def main() -> None:
        jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
        await Rig(tmp_path, {jaas: SCRAM}).broker.start()

    with pytest.raises(ConfigError, match=r"listener\.name\.sasl_plaintext\.plain"):
        asyncio.run(main())
