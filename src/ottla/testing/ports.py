"""Ports that nobody else takes while a server is down."""

from __future__ import annotations

import socket
from typing import Final

HOST: Final = "127.0.0.1"


def reserve_port() -> socket.socket:
    """A socket that keeps a port for a process which is still to start, or to start again.

    It is bound but does not listen: with SO_REUSEADDR on both, Linux lets the broker listen there,
    gives the port to nobody who asks for any free one, and connects no client from it (one that
    knocks before the broker is up could else be connected to itself).
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((HOST, 0))
    return reserved
