"""The quickstarts, typed literally: their files are written, their commands run, what they print
is compared. Only ports are replaced, because another broker may have 9092."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.testing.ports import reserve_ports_in_a_row
from page_reader import PageReader

PAGES = Path(__file__).parents[1] / "docs" / "quickstart"
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = {"OTTLA_BOOTSTRAP_SERVER": "localhost:9092"}
PORTS = (9092, 9093, 9094, 2181, 8081)
"""Three brokers in a row, ZooKeeper, and the registry."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page: a file, a command, or what the command before it prints."""

    language: str
    title: str
    text: str


def blocks_of(page: str) -> Iterator[Block]:
    for language, title, text in BLOCK.findall((PAGES / page).read_text(encoding="utf-8")):
        yield Block(language, title, text)


class QuickstartReader(PageReader):
    """Types a page into terminals, block by block."""

    def read_page(self, page: str) -> None:
        ports = f"--port {self.ports['9092']} --zookeeper-port {self.ports['2181']}"
        printed = ""
        for block in blocks_of(page):
            text = self.local(block.text)
            if block.language == "text":
                for line in text.splitlines():
                    assert line in printed, f"{page}: {line!r} is not in\n{printed}"
            elif block.title.startswith("Terminal"):
                self.run_server(block.text.strip())
            elif block.language == "sh":
                failed, printed = self.run(
                    block.text.replace("ottla cluster up", f"ottla cluster up {ports}")
                )
                assert not failed, f"{block.text}\n{printed}"
            else:
                (self.folder / block.title).write_text(text, encoding="utf-8")

    def close(self) -> None:
        if (self.folder / "cluster").exists():
            self.run("ottla cluster down")
        super().close()


@contextmanager
def reader(folder: Path) -> Iterator[QuickstartReader]:
    with ExitStack() as reserved:
        row = [reserved.enter_context(port) for port in reserve_ports_in_a_row(len(PORTS))]
        ports = {str(port): ours.getsockname()[1] for port, ours in zip(PORTS, row, strict=True)}
        somebody = QuickstartReader(folder, ports, SHELL)
        reserved.callback(somebody.close)
        yield somebody


@pytest.mark.parametrize("page", ["tests.md", "students.md"])
@pytest.mark.timeout(900)
def test_the_commands_of_a_page_work(page: str, tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        somebody.read_page(page)


@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_the_commands_of_the_page_about_data_work(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        somebody.read_page("data.md")


@pytest.mark.zookeeper
@pytest.mark.timeout(900)
def test_the_commands_of_the_page_about_operations_work(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        somebody.read_page("operations.md")


def test_every_page_is_tested() -> None:
    pages = {path.name for path in PAGES.glob("*.md")}
    assert pages == {"tests.md", "students.md", "data.md", "operations.md"}
