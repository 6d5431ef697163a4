"""Bad input and bad clients harm their own connection, never the broker or another client."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest
from compat_brokers import Broker, start_broker
from compat_confluent import make_topic, produce, read_all
from compat_raw import KEYS, RawClient, batch, code

Until = Callable[[Callable[[], object], str], None]
MIB = 1 << 20
SEED = 20260801


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of this file's own, so that its memory and descriptors can be measured."""
    broker = start_broker(tmp_path_factory.mktemp("victim"))
    yield broker
    if broker.alive():
        broker.kill()


@pytest.fixture(autouse=True)
def still_serves(victim: Broker, unique: Callable[[str], str]) -> Iterator[None]:
    """After every test the broker is alive and serves a well-behaved client."""
    yield
    assert victim.alive(), victim.log_tail()
    topic = make_topic(victim.bootstrap, unique("after"))
    produce(victim.bootstrap, topic, [{"value": "still here"}])
    assert read_all(victim.bootstrap, topic, 1)[0].value() == b"still here"


def connect(broker: Broker, timeout_s: float = 60.0) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=timeout_s)


def ends(sock: socket.socket) -> bool:
    """True if the broker closes the connection; discards what it sends before."""
    try:
        while sock.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def quietly_send(sock: socket.socket, data: bytes) -> None:
    """The broker may close the connection while the client is sending."""
    with contextlib.suppress(OSError):
        sock.sendall(data)


def test_random_bytes_close_the_connection(victim: Broker) -> None:
    dice = random.Random(SEED)
    for _ in range(60):
        with connect(victim) as sock:
            quietly_send(sock, dice.randbytes(dice.randrange(8, 5000)))
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
            assert ends(sock)


def test_other_protocols_are_turned_away(victim: Broker) -> None:
    hello = bytes.fromhex("16030100f4010000f00303")  # how TLS begins
    for greeting in (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        hello + b"\x00" * 200,
        b"\x00" * 64,
    ):
        with connect(victim) as sock:
            quietly_send(sock, greeting)
            sock.shutdown(socket.SHUT_WR)
            assert ends(sock)


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 3, 2**31 - 1, 104_857_601])
def test_absurd_sizes_close_the_connection(victim: Broker, size: int) -> None:
    with connect(victim) as sock:
        quietly_send(sock, struct.pack(">i", size) + b"\x00" * 7)
        if 0 <= size < 8:  # such a frame is complete, and the rest starts another one
            sock.shutdown(socket.SHUT_WR)
        assert ends(sock)


def test_frames_cut_anywhere(victim: Broker, until: Until) -> None:
    with RawClient(victim.bootstrap) as client:
        frame = client.frame("metadata", 12, topics=[{"name": "x", "topic_id": None}])
    before = victim.open_descriptors()
    for size in range(1, len(frame)):
        with connect(victim) as sock:
            sock.sendall(frame[:size])
            sock.shutdown(socket.SHUT_WR)
            assert ends(sock)
    until(lambda: victim.open_descriptors() <= before + 5, "the descriptors are given back")


def test_flipped_bytes_in_every_request(victim: Broker) -> None:
    """Each API's request, damaged: answered, or this connection closes."""
    dice = random.Random(SEED)
    with RawClient(victim.bootstrap) as client:
        served = {api.api_key: api.max_version for api in client.call("api_versions", 0).api_keys}
        frames = [
            client.frame(api, served[key])
            for api, key in KEYS.items()
            if key in served and api not in ("api_versions", "sasl_handshake")
        ]
    for frame in frames:
        for _ in range(15):
            damaged = bytearray(frame)
            for _ in range(dice.randrange(1, 4)):
                damaged[dice.randrange(8, len(damaged))] = dice.randrange(256)
            with connect(victim) as sock:
                quietly_send(sock, bytes(damaged))
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_WR)
                assert ends(sock)


def test_absurd_counts_and_lengths_inside_a_frame(victim: Broker) -> None:
    """An array that claims two thousand million entries costs only its connection."""
    before = victim.resident_bytes()
    header = struct.pack(">hhihs", 3, 1, 1, 1, b"x")
    bodies = {
        "metadata": header + struct.pack(">i", 2_000_000_000),
        "string": header + struct.pack(">ih", 1, 32_000),
        "fetch": struct.pack(">hhih", 1, 4, 1, -1)
        + struct.pack(">iiiibi", -1, 0, 0, 0, 0, 2**31 - 1),
        "varint": struct.pack(">hhih", 3, 12, 1, -1) + b"\x00\xff\xff\xff\xff\x07",
        "tags": struct.pack(">hhih", 3, 12, 1, -1) + b"\xff\xff\xff\xff\x0f",
    }
    for body in bodies.values():
        with connect(victim) as sock:
            quietly_send(sock, struct.pack(">i", len(body)) + body)
            assert ends(sock)
    assert victim.resident_bytes() - before < 100 * MIB


def test_one_byte_at_a_time_is_served(victim: Broker) -> None:
    with RawClient(victim.bootstrap) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frame = client.frame("metadata", 9, 1, topics=())
        for position in range(len(frame)):
            client.send_bytes(frame[position : position + 1])
            time.sleep(0.001)
        assert client.receive("metadata", 9, 1).topics == ()


def test_slow_clients_do_not_slow_the_others(victim: Broker) -> None:
    """Two hundred connections that never finish their request."""
    slow = [connect(victim) for _ in range(200)]
    for sock in slow:
        sock.sendall(struct.pack(">i", 1000) + b"\x00\x03")
    start = time.monotonic()
    with RawClient(victim.bootstrap) as client:
        for _ in range(50):
            client.call("metadata", 9, topics=())
    assert time.monotonic() - start < 60
    for sock in slow:
        sock.close()


def test_promised_frames_cost_no_memory_until_they_come(victim: Broker) -> None:
    if victim.name == "apache":
        pytest.skip("Apache Kafka allocates the whole frame when it sees the size")
    before = victim.resident_bytes()
    promising = [connect(victim) for _ in range(40)]
    for sock in promising:
        sock.sendall(struct.pack(">ihhih", 90 * MIB, 0, 9, 1, -1) + b"\x00" * 1000)
    with RawClient(victim.bootstrap) as client:
        client.call("metadata", 9, topics=())
    assert victim.resident_bytes() - before < 300 * MIB
    for sock in promising:
        sock.close()


def test_many_connections_at_once(victim: Broker, until: Until) -> None:
    before = victim.open_descriptors()
    clients = [RawClient(victim.bootstrap) for _ in range(400)]
    sent = [(client, client.send("api_versions", 0)) for client in clients]
    for client, correlation_id in sent:
        assert client.receive("api_versions", 0, correlation_id).error_code == code("none")
    for client in clients:
        client.socket.close()
    until(lambda: victim.open_descriptors() <= before + 5, "the descriptors are given back")


def test_connection_limit_for_one_address(own_broker: Callable[..., Broker]) -> None:
    broker = own_broker(max_connections_per_ip="5")
    # The start's own question may still be closing.
    time.sleep(0.5)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.bootstrap)) for _ in range(5)]
        for client in clients:
            client.call("api_versions", 0)
        extra = stack.enter_context(RawClient(broker.bootstrap))
        assert extra.is_closed_by_broker()
        clients[0].call("api_versions", 0)
    time.sleep(0.5)
    with RawClient(broker.bootstrap) as client:
        client.call("api_versions", 0)


def test_idle_connections_are_closed(own_broker: Callable[..., Broker]) -> None:
    broker = own_broker(connections_max_idle_ms="2000")
    with RawClient(broker.bootstrap) as client:
        client.call("api_versions", 0)
        assert client.is_closed_by_broker()


def test_a_client_that_never_reads_is_throttled(victim: Broker, topic_name: str) -> None:
    """Fetch after fetch of a megabyte, and no reply is read: the broker stops reading instead."""
    make_topic(victim.bootstrap, topic_name)
    produce(victim.bootstrap, topic_name, [{"value": b"x" * 100_000} for _ in range(50)])
    before = victim.resident_bytes()
    with RawClient(victim.bootstrap) as client:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 5 * MIB}
        frames = [
            client.frame(
                "fetch", 11, number, replica_id=-1, max_wait=100, min_bytes=1, max_bytes=5 * MIB,
                session_epoch=-1, topics=[{"topic": topic_name, "partitions": [partition]}],
            )
            for number in range(400)
        ]  # fmt: skip
        client.socket.settimeout(3)
        with contextlib.suppress(TimeoutError):
            client.send_bytes(b"".join(frames))
        start = time.monotonic()
        with RawClient(victim.bootstrap) as other:
            other.call("metadata", 9, topics=())
        assert time.monotonic() - start < 60
        assert victim.resident_bytes() - before < 200 * MIB
        client.socket.settimeout(60)
        for number in range(5):
            answer = client.receive("fetch", 11, number)
            assert len(answer.responses[0].partitions[0].records) > 4 * MIB


def test_unread_replies_hold_back_a_producer(victim: Broker, topic_name: str) -> None:
    make_topic(victim.bootstrap, topic_name)
    before = victim.resident_bytes()
    data = [{"name": topic_name, "partition_data": [{"index": 0, "records": batch([b"v" * 50])}]}]
    with RawClient(victim.bootstrap) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        frame = client.frame("produce", 9, 7, acks=-1, timeout=1000, topic_data=data)
        client.socket.settimeout(3)
        sent = 0
        with contextlib.suppress(TimeoutError):
            for _ in range(100):
                client.send_bytes(frame * 300)
                sent += 300
        assert victim.resident_bytes() - before < 150 * MIB
        client.socket.settimeout(60)
        for number in range(min(sent, 200)):
            answer = client.receive("produce", 9, 7)
            assert answer.responses[0].partition_responses[0].base_offset == number


def test_clients_may_vanish_while_they_wait(victim: Broker, topic_name: str, until: Until) -> None:
    """Delayed fetches of disconnected clients leave nothing behind after their timeout."""
    make_topic(victim.bootstrap, topic_name)
    before = victim.open_descriptors()
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": MIB}
    for _ in range(100):
        with RawClient(victim.bootstrap) as client:
            client.send(
                "fetch", 11, replica_id=-1, max_wait=4000, min_bytes=1, max_bytes=MIB,
                topics=[{"topic": topic_name, "partitions": [partition]}],
            )  # fmt: skip
    until(lambda: victim.open_descriptors() <= before + 5, "the descriptors are given back")
    produce(victim.bootstrap, topic_name, [{"value": "nobody waits"}])


def test_a_request_over_the_limit_is_refused(own_broker: Callable[..., Broker]) -> None:
    broker = own_broker(socket_request_max_bytes="100000", message_max_bytes="10000000")
    with RawClient(broker.bootstrap) as client:
        frame = client.frame("produce", 9, acks=-1, timeout=1000, topic_data=[
            {"name": "t", "partition_data": [{"index": 0, "records": batch([b"x" * 200_000])}]}
        ])  # fmt: skip
        with contextlib.suppress(OSError):
            client.send_bytes(frame)
        assert client.is_closed_by_broker()
