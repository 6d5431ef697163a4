"""A terminal with a shell, and a server whose responses a test sets."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

WAIT_S = 240.0
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\][^\x07]*\x07|\r")


class ScriptedServer:
    """Speaks ksqlDB's REST: `answers` has entities for a statement, rows or lines for a query."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.refused: dict[str, Any] = {}
        """Properties that are not taken, and what is said about them."""
        self.ended = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                name = self.path.removeprefix("/is_valid_property/").partition("?")[0]
                if name in owner.refused:
                    self.whole(400, owner.refused[name])
                    return
                self.whole(200, {"KsqlServerInfo": {"version": "7.7", "serverStatus": "RUNNING"}})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                owner.requests.append((self.path, body))
                text = body.get("ksql") or body.get("sql")
                answer = owner.answers.get(text, [])
                if isinstance(answer, dict) and "error_code" in answer:
                    self.whole(400, answer)
                elif self.path == "/ksql":
                    self.whole(200, answer)
                else:
                    self.stream(answer)

            def whole(self, status: int, value: Any) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def stream(self, answer: Any) -> None:
                """Lines, or a function that yields them; a number is a pause in seconds."""
                lines = answer() if callable(answer) else answer
                plain = self.path == "/query"
                self.send_response(200)
                self.send_header("Content-Type", "text/plain" if plain else "application/x-ndjson")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    for next_line in lines:
                        line = next_line if plain else json.dumps(next_line)
                        data = f"{line}\n".encode()
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                        self.wfile.flush()
                    self.wfile.write(b"0\r\n\r\n")
                except OSError:
                    owner.ended.set()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    scripted = ScriptedServer()
    yield scripted
    scripted.close()


class Terminal:
    """A real pseudo-terminal: keys typed and text seen by a user."""

    def __init__(self, *words: str, home: Path) -> None:
        self._master, slave = pty.openpty()
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLUMNS": "100",
            "LINES": "40",
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "PROMPT_TOOLKIT_NO_CPR": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            preexec_fn=_own_terminal,
        )
        os.close(slave)
        self.seen = ""
        self._read_to = 0

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, pattern: str, wait_s: float = WAIT_S) -> str:
        """Waits until this text appears on the screen, after the last awaited one."""
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            found = re.search(pattern, self.seen[self._read_to :])
            if found:
                text = self.seen[self._read_to : self._read_to + found.end()]
                self._read_to += found.end()
                return text
            if not self._read():
                break
        raise AssertionError(f"no {pattern!r} in:\n{self.seen[self._read_to :][-2000:]}")

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], 0.1)
        if ready:
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:  # the shell has gone
                return False
            self.seen += ESCAPES.sub("", data.decode(errors="replace"))
        return True

    def close(self) -> int:
        until = time.monotonic() + WAIT_S
        try:
            while self._read() and self.process.poll() is None and time.monotonic() < until:
                pass
        finally:
            if self.process.poll() is None:
                self.process.kill()
            code = self.process.wait(WAIT_S)
            os.close(self._master)
        return code


def _own_terminal() -> None:
    """Ctrl-C reaches the process that controls this terminal."""
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def opening(*words: str) -> Terminal:
        opened.append(Terminal(*words, home=tmp_path))
        return opened[-1]

    yield opening
    for server in opened:
        if server.process.returncode is None:
            server.process.kill()
            server.close()
