"""The network that can be cut: bytes that pass, bytes that wait, connections that break."""

from __future__ import annotations

import contextlib
import gc
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from ottla.testing.network import Network, Proxy

SHORT_S = 0.15
LONG_S = 60.0


class Echo:
    """Answers every byte with the same byte."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.heard = bytearray()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                try:
                    while data := connection.recv(4096):
                        self.heard += data
                        connection.sendall(data)
                except OSError:
                    pass

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(LONG_S)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture
def proxy(network: Network, echo: Echo) -> Proxy:
    return network.proxy("a", "b", echo.port)


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), LONG_S)


def said(connection: socket.socket, data: bytes, timeout_s: float = LONG_S) -> bytes:
    """The bytes received within the timeout."""
    connection.sendall(data)
    return heard(connection, len(data), timeout_s)


def heard(connection: socket.socket, size: int, timeout_s: float = LONG_S) -> bytes:
    connection.settimeout(timeout_s)
    found = b""
    try:
        while len(found) < size and (data := connection.recv(size)):
            found += data
    except TimeoutError:
        pass
    return found


def is_broken(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_bytes_pass_both_ways(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        assert said(connection, b"x" * 300_000) == b"x" * 300_000


def test_bytes_wait_during_a_cut_and_arrive_later(
    network: Network, proxy: Proxy, echo: Echo
) -> None:
    with connect(proxy) as connection:
        assert said(connection, b"1") == b"1"
        network.cut("a", "b")
        assert said(connection, b"2", SHORT_S) == b""
        assert echo.heard == b"1"
        network.heal()
        assert heard(connection, 1) == b"2"


def test_a_cut_one_way_lets_the_other_way_through(
    network: Network, proxy: Proxy, echo: Echo
) -> None:
    with connect(proxy) as connection:
        assert said(connection, b"1") == b"1"
        network.cut_one_way("b", "a")
        assert said(connection, b"2", SHORT_S) == b""
        assert echo.heard == b"12"
        network.heal("a", "b")
        assert heard(connection, 1) == b"2"


def test_no_new_connection_passes_a_cut(network: Network, proxy: Proxy, echo: Echo) -> None:
    network.cut_one_way("b", "a")
    with connect(proxy) as connection:
        assert said(connection, b"1", SHORT_S) == b""
        assert echo.heard == b""
        network.heal()
        assert heard(connection, 1) == b"1"


def test_a_reset_breaks_only_the_cut_connections(
    network: Network, proxy: Proxy, echo: Echo
) -> None:
    other = network.proxy("c", "b", echo.port)
    with connect(proxy) as connection, connect(other) as spared:
        network.cut("a", "b")
        connection.sendall(b"1")
        network.heal(reset=True)
        assert is_broken(connection)
        assert said(spared, b"2") == b"2"


def test_other_pairs_are_not_touched(network: Network, proxy: Proxy, echo: Echo) -> None:
    network.cut("a", "c")
    with connect(proxy) as connection:
        assert said(connection, b"1") == b"1"


def test_a_delay_applies_each_way(network: Network, proxy: Proxy) -> None:
    with connect(proxy) as connection:
        assert said(connection, b"1") == b"1"
        network.delay("a", "b", 0.1)
        start = time.monotonic()
        assert said(connection, b"2") == b"2"
        assert time.monotonic() - start >= 0.2


def test_a_shut_proxy_refuses_and_keeps_its_port(proxy: Proxy) -> None:
    port = proxy.port
    with connect(proxy) as connection:
        assert said(connection, b"1") == b"1"
        proxy.shut()
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        assert said(connection, b"2") == b"2"
    proxy.open()
    assert proxy.port == port
    with connect(proxy) as connection:
        assert said(connection, b"3") == b"3"


def test_the_end_of_a_connection_is_forwarded(proxy: Proxy, echo: Echo) -> None:
    with connect(proxy) as connection:
        connection.shutdown(socket.SHUT_WR)
        assert heard(connection, 1) == b""


def test_an_absent_target_breaks_the_connection(network: Network) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        proxy = network.proxy("a", "b", nobody.getsockname()[1])
        with connect(proxy) as connection:
            assert is_broken(connection)


def test_connections_can_be_identified_by_their_port(network: Network, echo: Echo) -> None:
    ports: list[int] = []

    def opener(port: int) -> str:
        ports.append(port)
        return "somebody"

    proxy = network.proxy(opener, "b", echo.port)
    network.cut("somebody", "b")
    with connect(proxy) as connection:
        assert said(connection, b"1", SHORT_S) == b""
        assert ports == [connection.getsockname()[1]]


def test_a_break_is_forwarded_after_the_cut(network: Network, proxy: Proxy, echo: Echo) -> None:
    with connect(proxy) as connection:
        assert said(connection, b"1") == b"1"
        network.cut_one_way("a", "b")
        linger_none = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_none)  # closing resets
    with connect(proxy) as second:
        second.sendall(b"2")
        assert heard(second, 1, SHORT_S) == b""  # the first one is still being served
        network.heal()
        assert heard(second, 1) == b"2"


def test_connecting_during_a_shutdown_leaks_no_socket(echo: Echo) -> None:
    """Warnings are errors: an unclosed socket fails this test."""
    stopping = threading.Event()

    def knock(proxy: Proxy) -> None:
        while not stopping.is_set():
            with contextlib.suppress(OSError):
                connect(proxy).close()

    with Network() as network:
        proxy = network.proxy("a", "b", echo.port)
        knocking = [threading.Thread(target=knock, args=(proxy,)) for _ in range(4)]
        for entry in knocking:
            entry.start()
        for _ in range(50):
            proxy.shut()
            proxy.open()
    stopping.set()
    for entry in knocking:
        entry.join(LONG_S)
    gc.collect()
