"""Ports that stay reserved while a server is down."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from typing import Final

HOST: Final = "127.0.0.1"
ROWS: Final = range(20_000, 32_000, 20)
"""Below the ports that the system gives to clients."""


def reserve_port() -> socket.socket:
    """A socket that reserves a port for a process that starts or restarts later.

    It is bound but does not listen: with SO_REUSEADDR on both, Linux lets the broker listen there,
    never assigns the port as a free one, and connects no client from it (a client that connects
    before the broker is up could otherwise be connected to itself).
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((HOST, 0))
    return reserved


def reserve_ports_in_a_row(count: int) -> list[socket.socket]:
    """Sockets that reserve consecutive ports, as for the brokers of a cluster.

    A row is taken only if nobody has any of its ports. The first row that is tried depends on the
    process, because tests run side by side.
    """
    assert count <= ROWS.step
    for attempt in range(len(ROWS)):
        first = ROWS[(os.getpid() * 7 + attempt) % len(ROWS)]
        row = _reserve_row(range(first, first + count))
        if row:
            return row
    raise OSError(f"No {count} ports in a row are free on {HOST}")


def _reserve_row(ports: range) -> list[socket.socket]:
    with ExitStack() as failed:
        row = []
        for port in ports:
            reserved = failed.enter_context(socket.socket())
            try:
                # Without SO_REUSEADDR this fails if another process has reserved the port.
                reserved.bind((HOST, port))
            except OSError:
                return []
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            row.append(reserved)
        failed.pop_all()
    return row
