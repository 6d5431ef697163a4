"""Which process has opened a connection."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from chaos_openers import UNKNOWN, opener_by_process

CONNECT = (
    "import socket,sys; s=socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.recv(1)"
)


def test_the_process_at_the_other_end_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        other = subprocess.Popen([sys.executable, "-c", CONNECT, str(port)])
        accepted, (_, source) = server.accept()
        with accepted:
            assert opener_by_process(lambda: {other.pid: "2"})(source) == "2"
            assert opener_by_process(lambda: {os.getpid(): "1", other.pid: "2"})(source) == "2"
            assert opener_by_process(lambda: {os.getpid(): "1"})(source) == UNKNOWN
        other.wait(10)
