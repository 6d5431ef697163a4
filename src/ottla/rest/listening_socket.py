"""The socket of an HTTP server, bound before the server starts, so that its port is known."""

from __future__ import annotations

import socket
from typing import Final
from urllib.parse import SplitResult, urlsplit

BACKLOG: Final = 256


def listening_socket(host: str, port: int) -> socket.socket:
    """Port 0 picks a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def url_of(host: str, port: int, *, secure: bool) -> str:
    """The server's URL; IPv6 addresses get brackets."""
    address = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{address}:{port}"


def first_listener(listeners: str) -> SplitResult:
    """The first URL of the setting `listeners`; the scheme is http by default."""
    first = listeners.split(",")[0].strip()
    return urlsplit(first if "://" in first else f"http://{first}")
