"""The network that can be cut: what passes, what waits, what breaks."""

from __future__ import annotations

import contextlib
import gc
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from ottla.testing.network import Door, Network

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
def door(network: Network, echo: Echo) -> Door:
    return network.door("a", "b", echo.port)


def connect(door: Door) -> socket.socket:
    return socket.create_connection(("127.0.0.1", door.port), LONG_S)


def said(connection: socket.socket, data: bytes, timeout_s: float = LONG_S) -> bytes:
    """What comes back within the time."""
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


def test_bytes_pass_both_ways(door: Door) -> None:
    with connect(door) as connection:
        assert said(connection, b"x" * 300_000) == b"x" * 300_000


def test_what_was_cut_waits_and_arrives(network: Network, door: Door, echo: Echo) -> None:
    with connect(door) as connection:
        assert said(connection, b"1") == b"1"
        network.cut("a", "b")
        assert said(connection, b"2", SHORT_S) == b""
        assert echo.heard == b"1"
        network.heal()
        assert heard(connection, 1) == b"2"


def test_a_cut_one_way_lets_the_other_way_through(network: Network, door: Door, echo: Echo) -> None:
    with connect(door) as connection:
        assert said(connection, b"1") == b"1"
        network.cut_one_way("b", "a")
        assert said(connection, b"2", SHORT_S) == b""
        assert echo.heard == b"12"
        network.heal("a", "b")
        assert heard(connection, 1) == b"2"


def test_nobody_new_gets_through_a_cut(network: Network, door: Door, echo: Echo) -> None:
    network.cut_one_way("b", "a")
    with connect(door) as connection:
        assert said(connection, b"1", SHORT_S) == b""
        assert echo.heard == b""
        network.heal()
        assert heard(connection, 1) == b"1"


def test_a_reset_breaks_what_was_cut_and_nothing_else(
    network: Network, door: Door, echo: Echo
) -> None:
    other = network.door("c", "b", echo.port)
    with connect(door) as connection, connect(other) as spared:
        network.cut("a", "b")
        connection.sendall(b"1")
        network.heal(reset=True)
        assert is_broken(connection)
        assert said(spared, b"2") == b"2"


def test_other_pairs_are_not_touched(network: Network, door: Door, echo: Echo) -> None:
    network.cut("a", "c")
    with connect(door) as connection:
        assert said(connection, b"1") == b"1"


def test_a_delay_is_one_each_way(network: Network, door: Door) -> None:
    with connect(door) as connection:
        assert said(connection, b"1") == b"1"
        network.delay("a", "b", 0.1)
        start = time.monotonic()
        assert said(connection, b"2") == b"2"
        assert time.monotonic() - start >= 0.2


def test_a_shut_door_refuses_and_keeps_its_port(door: Door) -> None:
    port = door.port
    with connect(door) as connection:
        assert said(connection, b"1") == b"1"
        door.shut()
        with pytest.raises(ConnectionRefusedError):
            connect(door)
        assert said(connection, b"2") == b"2"
    door.open()
    assert door.port == port
    with connect(door) as connection:
        assert said(connection, b"3") == b"3"


def test_the_end_of_a_connection_is_told(door: Door, echo: Echo) -> None:
    with connect(door) as connection:
        connection.shutdown(socket.SHUT_WR)
        assert heard(connection, 1) == b""


def test_a_target_that_is_not_there_breaks_the_connection(network: Network) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        door = network.door("a", "b", nobody.getsockname()[1])
        with connect(door) as connection:
            assert is_broken(connection)


def test_who_connects_may_be_told_by_the_port(network: Network, echo: Echo) -> None:
    ports: list[int] = []

    def opener(port: int) -> str:
        ports.append(port)
        return "somebody"

    door = network.door(opener, "b", echo.port)
    network.cut("somebody", "b")
    with connect(door) as connection:
        assert said(connection, b"1", SHORT_S) == b""
        assert ports == [connection.getsockname()[1]]


def test_a_break_is_told_when_the_cut_is_over(network: Network, door: Door, echo: Echo) -> None:
    with connect(door) as connection:
        assert said(connection, b"1") == b"1"
        network.cut_one_way("a", "b")
        linger_none = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_none)  # closing resets
    with connect(door) as second:
        second.sendall(b"2")
        assert heard(second, 1, SHORT_S) == b""  # the first one is still being served
        network.heal()
        assert heard(second, 1) == b"2"


def test_no_socket_is_left_of_who_came_while_the_door_was_being_shut(echo: Echo) -> None:
    """Warnings are errors: a socket that nobody closed fails this test."""
    stopping = threading.Event()

    def knock(door: Door) -> None:
        while not stopping.is_set():
            with contextlib.suppress(OSError):
                connect(door).close()

    with Network() as network:
        door = network.door("a", "b", echo.port)
        knocking = [threading.Thread(target=knock, args=(door,)) for _ in range(4)]
        for each in knocking:
            each.start()
        for _ in range(50):
            door.shut()
            door.open()
    stopping.set()
    for each in knocking:
        each.join(LONG_S)
    gc.collect()
