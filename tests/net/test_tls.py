"""TLS on the server and on connections to brokers: what is accepted and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_inter_broker_connection import beat, heartbeat
from test_server import Toy, until
from tls_rig import authority, client_security, issued, open_tls, serve_tls, settings

from ottla.auth.distinguished_name import distinguished_name
from ottla.config import ConfigError
from ottla.errors import KafkaError
from ottla.net import handshakes
from ottla.net.handshakes import Handshakes
from ottla.net.inter_broker_connection import BrokerUnreachable
from ottla.net.listener_tls import ListenerTls
from ottla.net.outbox import TlsOutbox
from ottla.net.server import Server
from ottla.net.tls import TlsIdentity, openssl_name
from ottla.net.tls_stream import TlsStream
from ottla.slices import FileSlice
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.peer import Peer


def test_pipelined_requests_are_answered_in_order_over_tls() -> None:
    async def test(toy: Toy, server: Server, port: int) -> None:
        line = await open_tls(port)
        sent = [line.send(heartbeat(number), ApiKey.HEARTBEAT, version=4) for number in range(2000)]
        answers = [await answer for answer in sent]
        assert [answer.throttle_time for answer in answers] == list(range(2000))  # type: ignore[attr-defined]
        line.close()

    serve_tls(test)


def test_large_requests_and_answers_pass_whole() -> None:
    async def test(toy: Toy, server: Server, port: int) -> None:
        line = await open_tls(port)
        toy.versions = ApiVersionsResponse(
            api_keys=[ApiVersion(number, 0, number) for number in range(30_000)] * 4
        )
        for _ in range(2):
            answer = await line.call(
                ApiVersionsRequest("a", "b"),
                ApiKey.API_VERSIONS,
                ApiVersionsResponse,
                version=3,
                timeout_s=60,
            )
            assert len(answer.api_keys) == 120_000
        group = "g" * 30_000
        many = HeartbeatRequest(group_id=group, generation_id=7, member_id=group)
        sent = [line.send(many, ApiKey.HEARTBEAT, version=4) for _ in range(100)]
        assert {(await answer).throttle_time for answer in sent} == {7}  # type: ignore[attr-defined]
        line.close()

    serve_tls(test)


def test_a_request_behind_one_that_waits_is_served_after_it() -> None:
    """The kernel does not report bytes in OpenSSL's buffer."""

    async def test(toy: Toy, server: Server, port: int) -> None:
        line = await open_tls(port)
        toy.wait = True
        sent = [line.send(heartbeat(number), ApiKey.HEARTBEAT, version=4) for number in range(50)]
        for number in range(50):
            await until(lambda number=number: len(toy.waiting) > number)
            toy.waiting[number].set_result(HeartbeatResponse(throttle_time=number))
            assert (await sent[number]).throttle_time == number  # type: ignore[attr-defined]
        line.close()

    serve_tls(test)


def test_large_requests_are_read_without_spinning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop takes about one turn per readable chunk."""
    turns = 0
    original = TlsStream.pending

    def counted(stream: TlsStream) -> int:
        nonlocal turns
        turns += 1
        return original(stream)

    monkeypatch.setattr(TlsStream, "pending", counted)
    records = bytes(3_000_000)
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])

    async def test(toy: Toy, server: Server, port: int) -> None:
        line = await open_tls(port)
        request = ProduceRequest(acks=1, topic_data=[data])
        sent = [line.send(request, ApiKey.PRODUCE, version=9) for _ in range(5)]
        await until(lambda: len(toy.waiting) == 5)
        for future in toy.waiting:
            future.set_result(ProduceResponse())
        await asyncio.gather(*sent)
        line.close()
        assert turns < 5000  # 15 MB are 1,000 records of TLS

    serve_tls(test)


class HalfClient:
    """A TLS client that sends its records in parts, as a slow network does."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = client_security().tls.client_context  # type: ignore[union-attr]
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    async def do(self, what: Callable[[], Any]) -> Any:
        while True:
            try:
                return what()
            except ssl.SSLWantReadError:
                self.send(self.outgoing.read())
                self.incoming.write(await asyncio.wait_for(self.reader.read(65536), 60))
            finally:
                self.send(self.outgoing.read())

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def record(self, data: bytes) -> bytes:
        """The encrypted bytes of `data`, not sent yet."""
        self.tls.write(data)
        return self.outgoing.read()


def test_a_partial_tls_record_is_awaited_without_spinning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The socket is read when the kernel reports bytes, not in each turn of the loop."""
    reads = 0
    original = TlsStream._receive

    def counted(stream: TlsStream, buffer: memoryview, *, eager: bool) -> int:
        nonlocal reads
        reads += 1
        return original(stream, buffer, eager=eager)

    async def turns(count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def test(toy: Toy, server: Server, port: int) -> None:
        client = HalfClient(*await asyncio.open_connection("127.0.0.1", port))
        await client.do(client.tls.do_handshake)
        await until(lambda: server.connection_count == 1)
        peer = Peer()
        frame = b"".join(map(bytes, peer.request(heartbeat(7), ApiKey.HEARTBEAT, 4, "c")))
        monkeypatch.setattr(TlsStream, "_receive", counted)
        first, second = client.record(frame[:10]), client.record(frame[10:])
        # Half a record; then a whole one with a part of a request; then half a record again.
        for part in (first[:7], first[7:] + second[:7]):
            seen = reads
            client.send(part)
            await until(lambda seen=seen: reads > seen)
            await turns(500)
            assert reads - seen <= 4, "the loop reads without new bytes"
        client.send(second[7:])
        answer = await client.do(lambda: client.tls.read(65536))
        peer.receive_data(answer)
        response = peer.next_response()
        assert response is not None
        assert response.body.throttle_time == 7  # type: ignore[attr-defined]
        client.writer.close()

    serve_tls(test)


def test_a_client_that_hangs_up_cancels_its_waiting_request() -> None:
    async def test(toy: Toy, server: Server, port: int) -> None:
        line = await open_tls(port)
        toy.wait = True
        line.send(heartbeat(1), ApiKey.HEARTBEAT, version=4)
        await until(lambda: bool(toy.waiting))
        line._answers.clear()
        line.close()
        await until(lambda: toy.waiting[0].cancelled())

    serve_tls(test)


def test_plain_bytes_on_a_tls_port_are_refused_without_harm_to_others() -> None:
    async def test(toy: Toy, server: Server, port: int) -> None:
        line = await open_tls(port)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\0\0\0\x10GET / HTTP/1.1\r\n\r\n")
        assert await beat(line, 1) == 1
        with contextlib.suppress(ConnectionResetError):
            await asyncio.wait_for(reader.read(), 60)
        assert len(toy.rejections) == 1
        assert server.connection_count == 1
        writer.close()
        line.close()

    serve_tls(test)


def test_a_port_probe_is_not_a_failed_handshake() -> None:
    async def test(toy: Toy, server: Server, port: int) -> None:
        for _ in range(3):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
        line = await open_tls(port)
        await until(lambda: server.connection_count == 1)
        assert toy.rejections == []
        line.close()

    serve_tls(test)


def test_a_handshake_has_a_deadline() -> None:
    async def test(toy: Toy, server: Server, port: int) -> None:
        server._handshakes = Handshakes(server.loop, limit_s=0.2)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        assert toy.rejections == ["no TLS handshake within 0.2 s"]
        assert server.connection_count == 0
        assert not server._per_ip
        writer.close()

    serve_tls(test)


def test_half_open_handshakes_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKES_MAX", 3)

    async def test(toy: Toy, server: Server, port: int) -> None:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        await until(lambda: server.connection_count == 3)
        line = await open_tls(port)
        assert await beat(line, 5) == 5
        assert len(toy.rejections) == 1  # the oldest
        line.close()
        for _, writer in idle:
            writer.close()

    serve_tls(test)


def test_handshakes_count_as_connections() -> None:
    async def test(toy: Toy, server: Server, port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: server.connection_count == 1)
        with pytest.raises((BrokerUnreachable, KafkaError)):
            await open_tls(port)
        writer.close()

    serve_tls(test, connections_per_ip_max=1)


def test_clients_without_a_certificate_are_refused_where_one_is_required() -> None:
    class Watchful(Toy):
        def authenticator(self, session: object, certificate: bytes | None) -> None:
            seen.append(certificate)

    seen: list[bytes | None] = []

    async def test(toy: Toy, server: Server, port: int) -> None:
        toy.authenticator = Watchful().authenticator  # type: ignore[method-assign]
        bare = ssl.create_default_context(cafile=str(authority().certificate))
        reader, writer = await asyncio.open_connection("localhost", port, ssl=bare)
        with pytest.raises((ssl.SSLError, ConnectionError)):  # TLS 1.3 reports it at the first read
            assert await reader.read() != b""
        writer.close()
        await until(lambda: len(toy.rejections) == 1)
        line = await open_tls(port, client_security(issued("alice").keystore))
        assert [distinguished_name(certificate) for certificate in seen if certificate] == [
            "CN=alice"
        ]
        line.close()

    serve_tls(test, ListenerTls(settings(ssl_client_auth="required")))


def test_a_requested_but_not_required_certificate_may_be_missing() -> None:
    async def test(toy: Toy, server: Server, port: int) -> None:
        bare = ssl.create_default_context(cafile=str(authority().certificate))
        _, writer = await asyncio.open_connection("localhost", port, ssl=bare)
        await until(lambda: len(toy.sessions) == 1)
        writer.close()

    serve_tls(test, ListenerTls(settings(ssl_client_auth="requested")))


def test_an_inter_broker_connection_checks_the_brokers_name() -> None:
    other = issued("elsewhere", alternative_names=("DNS:elsewhere.example",))

    async def test(toy: Toy, server: Server, port: int) -> None:
        with pytest.raises(BrokerUnreachable, match="certificate"):
            await open_tls(port)
        lenient = client_security(ssl_endpoint_identification_algorithm="")
        line = await open_tls(port, lenient)
        assert await beat(line, 3) == 3
        line.close()

    serve_tls(test, ListenerTls(settings(other.keystore)))


def test_protocols_and_ciphers_are_the_configured_ones() -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    tls = ListenerTls(settings(ssl_enabled_protocols="TLSv1.2", ssl_cipher_suites=suite))

    async def test(toy: Toy, server: Server, port: int) -> None:
        line = await open_tls(port)
        assert line._stream is not None
        assert line._stream.describe() == "TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384"
        line.close()
        with pytest.raises(BrokerUnreachable):
            await open_tls(port, client_security(ssl_enabled_protocols="TLSv1.3"))

    serve_tls(test, tls)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES128-SHA"),
    ],
)
def test_javas_names_of_ciphers_are_known_to_openssl(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(openssl)
    assert openssl in [cipher["name"] for cipher in context.get_ciphers()]


def test_unknown_ciphers_are_refused() -> None:
    with pytest.raises(ConfigError, match="OpenSSL knows none of NO-SUCH"):
        TlsIdentity(settings(ssl_cipher_suites="TLS_NO_WITH_SUCH")).server_context()


def test_slices_of_files_are_sent_over_tls_to_a_slow_reader(tmp_path: Path) -> None:
    """Unsent chunks are kept, while others use the scratch buffer."""
    content = os.urandom(3_000_000)
    path = tmp_path / "log"
    path.write_bytes(content)

    class OpenFile:
        def __init__(self) -> None:
            self.fd = os.open(path, os.O_RDONLY)

        def fileno(self) -> int:
            return self.fd

        def pread(self, size: int, position: int) -> bytes:
            return os.pread(self.fd, size, position)

    file = OpenFile()
    ours, theirs = socket.socketpair()
    received = bytearray()

    # The reader takes a portion only after the writer found its socket full, so that the writer
    # has to wait on every machine.
    portions = threading.Semaphore(0)

    def read() -> None:
        context = TlsIdentity(settings()).client_context(check_hostname=False)
        with context.wrap_socket(theirs, server_hostname="localhost") as reader:
            while len(received) < expected:
                portions.acquire()
                received.extend(reader.recv(10_000))

    expected = 2 * (10 + len(content) + 7)
    thread = threading.Thread(target=read)
    thread.start()
    secured = TlsIdentity(settings()).server_context().wrap_socket(ours, server_side=True)
    secured.setblocking(False)
    scratch = memoryview(bytearray(50_000))
    outbox = TlsOutbox(TlsStream(secured), scratch)
    for _ in range(2):
        outbox.push([b"0123456789", FileSlice(file, 0, len(content)), b"the end"])
    assert outbox.size == expected
    rounds = 0
    while not outbox.flush():
        scratch[:] = bytes(len(scratch))  # another connection's turn
        rounds += 1
        portions.release()
    portions.release(expected)
    thread.join()
    once = b"0123456789" + content + b"the end"
    assert bytes(received) == once * 2
    assert outbox.size == 0
    assert rounds > 1
    secured.close()
    os.close(file.fd)
