"""Ports of this machine: whether one is free, and waiting until a process listens on it."""

from __future__ import annotations

import socket
import time

from benchmarks.brokers import HOST

WAIT_S_MAX = 60.0
LOOK_EVERY_S = 0.05


class PortTaken(Exception):
    """A suite uses fixed ports, and another process has one of them."""


def is_free(port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
        except OSError:
            return False
    return True


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        try:
            socket.create_connection((HOST, port), timeout=1.0).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_EVERY_S)
        else:
            return
