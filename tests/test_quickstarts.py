"""The quickstarts, typed literally: their files are written, their commands run, what they print
is compared. Only ports are replaced, because another broker may have 9092."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.testing.ports import reserve_ports_in_a_row

PAGES = Path(__file__).parents[1] / "docs" / "quickstart"
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEP_S_MAX = 300.0
START_S_MAX = 60.0
LOOK_S = 0.05
BROKER_PORT = "9092"
CLUSTER_PORTS = 4
"""Three brokers in a row, and ZooKeeper."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page: a file, a command, or what the command before it prints."""

    language: str
    title: str
    text: str


def blocks_of(page: str) -> Iterator[Block]:
    for language, title, text in BLOCK.findall((PAGES / page).read_text(encoding="utf-8")):
        yield Block(language, title, text)


class Reader:
    """Types a page into a terminal, block by block."""

    def __init__(self, folder: Path, port: int, zookeeper_port: int) -> None:
        self._folder = folder
        self._port = port
        self._zookeeper_port = zookeeper_port
        self._terminals: list[subprocess.Popen[bytes]] = []
        self._printed = ""
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "OTTLA_BOOTSTRAP_SERVER": f"localhost:{port}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def read(self, page: str) -> None:
        for block in blocks_of(page):
            text = block.text.replace(f"localhost:{BROKER_PORT}", f"localhost:{self._port}")
            if block.language == "text":
                for line in text.splitlines():
                    assert line in self._printed, f"{page}: {line!r} is not in\n{self._printed}"
            elif block.title.startswith("Terminal"):
                self._open_terminal(text.strip())
            elif block.language == "sh":
                self._run(text)
            else:
                (self._folder / block.title).write_text(text, encoding="utf-8")

    def _open_terminal(self, command: str) -> None:
        assert command == "ottla serve"
        listener = f"listeners=PLAINTEXT://127.0.0.1:{self._port}"
        self._terminals.append(
            subprocess.Popen(
                ["ottla", "serve", "--override", listener],
                cwd=self._folder,
                env=self._environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        deadline = time.monotonic() + START_S_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(LOOK_S)

    def _run(self, text: str) -> None:
        ports = f"--port {self._port} --zookeeper-port {self._zookeeper_port}"
        script = text.replace("ottla cluster up", f"ottla cluster up {ports}")
        ran = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_S_MAX,
            check=False,
        )
        assert ran.returncode == 0, f"{text}\n{ran.stdout}"
        self._printed = ran.stdout

    def close(self) -> None:
        if (self._folder / "cluster").exists():
            down = ["ottla", "cluster", "down"]
            subprocess.run(down, cwd=self._folder, env=self._environment, timeout=60, check=False)
        for terminal in self._terminals:
            terminal.send_signal(signal.SIGINT)
            terminal.wait(START_S_MAX)


@contextmanager
def reader(folder: Path) -> Iterator[Reader]:
    with ExitStack() as reserved:
        row = [reserved.enter_context(held) for held in reserve_ports_in_a_row(CLUSTER_PORTS)]
        broker, *_, zookeeper = [held.getsockname()[1] for held in row]
        somebody = Reader(folder, broker, zookeeper)
        reserved.callback(somebody.close)
        yield somebody


@pytest.mark.parametrize("page", ["tests.md", "students.md"])
@pytest.mark.timeout(900)
def test_the_commands_of_a_page_work(page: str, tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        somebody.read(page)


@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_the_commands_of_the_page_about_data_work(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        somebody.read("data.md")


@pytest.mark.zookeeper
@pytest.mark.timeout(900)
def test_the_commands_of_the_page_about_operations_work(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        somebody.read("operations.md")


def test_every_page_is_tested() -> None:
    pages = {path.name for path in PAGES.glob("*.md")}
    assert pages == {"tests.md", "students.md", "data.md", "operations.md"}
