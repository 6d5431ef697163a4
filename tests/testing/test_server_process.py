"""The life of a server: with a small one of Python's own, and with PostgreSQL."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ottla.testing.ports import HOST
from ottla.testing.server_process import ServerProcess

END_S_MAX = 240.0


class Files(ServerProcess):
    name = "file"

    def __init__(self, folder: Path, *words: str) -> None:
        super().__init__()
        self._folder = folder
        self._words = words

    @property
    def directory(self) -> Path:
        return self._folder

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def command(self) -> list[str]:
        server = [sys.executable, "-m", "http.server", "--bind", HOST, str(self.port)]
        return [*server, "--directory", str(self._folder), *self._words]

    def serves(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), timeout=60.0).close()
        except OSError:
            return False
        return True


def test_a_restarted_server_has_the_same_port(tmp_path: Path) -> None:
    with Files(tmp_path) as server:
        port = server.port
        with pytest.raises(RuntimeError, match="the file server runs already"):
            server.start()
        server.pause()
        server.stop()
        assert not server.serves()
        with pytest.raises(RuntimeError, match="the file server does not run"):
            server.resume()
        server.start()
        assert (server.port, server.serves()) == (port, True)
        server.kill()
        server.kill()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((HOST, port))


def test_a_failed_start_is_explained(tmp_path: Path) -> None:
    server = Files(tmp_path, "--nonsense")
    assert server.log() == ""
    with pytest.raises(RuntimeError, match=r"file did not start.*(\n.*)*--nonsense"), server:
        pass


def test_a_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    server = Files(tmp_path)
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match="runs already"):
        server.start()
    assert server.serves()
    server.close()


PARENT = """
import json, signal, sys
from pathlib import Path
sys.path.insert(0, {here!r})
{make}
server.start()
print(json.dumps([server._process.pid, str(server.directory)]), flush=True)
signal.pause()
"""


def killed_parent_takes_along(make: str) -> None:
    text = PARENT.format(here=str(Path(__file__).parent), make=make)
    parent = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout:
        process, folder = json.loads(parent.stdout.readline())
    handle = os.pidfd_open(process)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    assert poll.poll(END_S_MAX * 1000), "the server is still there"
    os.close(handle)
    shutil.rmtree(folder)


def test_a_server_does_not_outlive_its_killed_parent(tmp_path: Path) -> None:
    make = f"from test_server_process import Files; server = Files(Path({str(tmp_path)!r}))"
    killed_parent_takes_along(make)


@pytest.mark.postgres
def test_postgresql_of_another_user_does_not_outlive_its_killed_parent() -> None:
    make = "from ottla.testing.postgres import PostgresServer; server = PostgresServer()"
    killed_parent_takes_along(make)
