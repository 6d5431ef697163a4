"""Damaged TLS handshakes: none is accepted, and other connections are unharmed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl

import pytest
from test_inter_broker_connection import beat
from test_server import Toy, until
from tls_rig import authority, issued, open_tls, serve_tls, settings

from ottla.net.listener_tls import ListenerTls
from ottla.net.server import Server

ROUNDS = 60
FLIGHTS = 2  # of the client: its hello, then its certificate and finished message
WAIT_S = 60.0


def damage(data: bytes, chance: random.Random) -> bytes:
    """Random bytes, different on each call."""
    place = chance.randrange(len(data))
    some = chance.randbytes(chance.randint(1, 40))
    ways = (
        data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :],
        data[:place],
        data[:place] + some + data[place:],
        data[:place] + data[place + len(some) :],
        some,
    )
    changed = chance.choice(ways)
    return changed if changed != data else b""


def client_context(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority().certificate))
    context.maximum_version = version
    context.load_cert_chain(issued("broker").keystore)
    return context


def attempt(port: int, context: ssl.SSLContext, damaged_flight: int, chance: random.Random) -> None:
    """A handshake with one damaged flight of the client; it ends when the server gives up.

    Nothing follows the damaged bytes, so the server must not take the handshake as complete.
    """
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as sock:
        for flight in range(FLIGHTS):
            while not (data := next_flight(client, outgoing)):
                incoming.write(sock.recv(65536))
            if flight < damaged_flight:
                sock.sendall(data)
                continue
            sock.sendall(damage(data, chance))
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
            return


def next_flight(client: ssl.SSLObject, outgoing: ssl.MemoryBIO) -> bytes:
    """None until the server has sent its complete flight."""
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=str)
@pytest.mark.parametrize("damaged_flight", range(FLIGHTS))
def test_a_damaged_handshake_is_refused(version: ssl.TLSVersion, damaged_flight: int) -> None:
    chance = random.Random(f"{version} {damaged_flight}")
    context = client_context(version)

    def strangers(port: int) -> None:
        for _ in range(ROUNDS):
            with contextlib.suppress(OSError):  # reset, or gone before we hang up
                attempt(port, context, damaged_flight, chance)

    async def test(toy: Toy, server: Server, port: int) -> None:
        let_in: list[bytes | None] = []
        toy.authenticator = lambda session, certificate: let_in.append(certificate)  # type: ignore[method-assign]
        neighbour = await open_tls(port)
        problems: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(context))
        await asyncio.to_thread(strangers, port)
        assert await beat(neighbour, 1) == 1
        await until(lambda: server.connection_count == 1)
        assert problems == []
        assert len(let_in) == 1  # the neighbour
        assert len(toy.rejections) > ROUNDS // 4  # a client that only closes is not counted
        neighbour.close()

    serve_tls(test, ListenerTls(settings(ssl_client_auth="required")))
