"""Types the commands of a how-to page into a shell, in the page's order.

A command stands behind `$ ` in a block of code, with what it prints below it; or in a fenced block
of `sh`; or in a block that begins with the name of a program. A statement stands behind `sql> `,
and goes into the shell that the last `ottla sql` has opened. What a page prints is compared without
its numbers, because times and ids differ.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parents[1] / "docs"
COMMAND_S_MAX: Final = 300.0
START_S_MAX: Final = 120.0
LOOK_S: Final = 0.05
ASSIGNMENT: Final = re.compile(r'(?:export )?(\w+)="?([^"]*)"?')
CONFIG: Final = re.compile(r"cat ([\w-]+\.(?:json|properties))")
REPEATED: Final = re.compile(
    r"ottla connect (list|offsets)|ottla (groups|topics) describe|cat |kafka-reassign.* --verify"
    r"|kafka-consumer-groups .*--describe|kafka-streams-groups .*--describe|curl -s "
)
"""What a user repeats until a connector, a follower or a query has got there."""
REPEATED_STATEMENT: Final = re.compile(r"SELECT (?!.*EMIT)|SHOW |DESCRIBE ", re.DOTALL)
REPEAT_S: Final = 1.0
SERVER: Final = re.compile(
    r"(?:ottla )(serve|registry|connect worker|cluster up|sql-server|streams run)\b"
    r"|(zookeeper-server-start|for n in)\b"
)
FOREGROUND: Final = re.compile(r"ottla sql(?: --(?:command-config|set|define) \S+)*")
"""A shell that waits for statements."""
ASKS: Final = re.compile(
    r"ottla (?:rest-users add \S+|users add|connect --user|sql .*--user) (\w+)(?!.*--password)"
)
"""It asks for a password; the reader types `<name>-secret`."""
PROGRAM: Final = re.compile(
    r"(?:[A-Z_]+=\S+ )?(?:ottla|kafka-[\w-]+|connect-[\w-]+|zookeeper-[\w-]+|pip|make|python3?"
    r"|pytest|git|curl|docker|kubectl|apt-get|(?:\.venv|\.cache/compiled)/bin/\S+) "
)
OMITTED: Final = re.compile(r"\.\.\.|─|/home/you|^Ctrl-C ends|^Ottla SQL |^sql>$")
"""Rows that differ from machine to machine, or that only a terminal shows."""
PYTHON: Final = re.compile(r"(import|from) \w+")
FILE: Final = re.compile(r"`([\w.-]+\.(?:properties|json|py))`[^`]*:$")


@dataclass(frozen=True, slots=True)
class Command:
    line: int
    text: str
    printed: tuple[str, ...]
    in_fence: bool = False

    @property
    def fails(self) -> bool:
        shown = " ".join(self.printed)
        return "exit code 1" in self.text or shown.startswith(("error", "incompatible"))


class Statement(Command):
    """A command of the SQL shell. The shell ends at one that fails."""

    @property
    def fails(self) -> bool:
        return any(row.startswith("error") for row in self.printed)


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page, or a program, which has no name."""

    line: int
    name: str
    text: str
    is_added: bool = False
    """To the file of an earlier block."""


Part = Command | File


def parts_of(page: str) -> list[tuple[str, Part]]:
    """Each command and file of a page, with the heading that it stands under."""
    found: list[tuple[str, Part]] = []
    heading, paragraph, ended = "", "", False
    for line, language, block in _blocks((DOCS / page).read_text(encoding="utf-8")):
        if language == "text":
            row = block[0]
            heading = row.lstrip("# ") if row.startswith("#") else heading
            if row:
                paragraph = row if ended else f"{paragraph} {row}"
            ended = not row
            continue
        named = FILE.search(paragraph.strip())
        fenced = language == "sh" or bool(PROGRAM.match(block[0]))
        if fenced or any(row.startswith(("$ ", "sql> ")) for row in block):
            for part in _commands(line, block, fenced=fenced):
                found.append((heading, replace(part, in_fence=language == "sh")))
        elif PYTHON.match(block[0]):
            name = named[1] if named else ""
            found.append((heading, File(line, name, "\n".join(block) + "\n")))
        elif named:
            added = "more lines" in paragraph
            found.append((heading, File(line, named[1], "\n".join(block) + "\n", added)))
    return found


def _blocks(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Runs of lines: `text`, `sh` and other languages of fences, or `code` that is indented."""
    rows = text.splitlines()
    at = 0
    while at < len(rows):
        begin = at
        if rows[at].startswith("```"):
            at = next(n for n in range(at + 1, len(rows)) if rows[n].startswith("```")) + 1
            language = rows[begin][3:].partition(" ")[0]
            yield begin + 2, language or "code", rows[begin + 1 : at - 1]
        elif rows[at].startswith("    "):
            while at < len(rows) and (rows[at].startswith("    ") or not rows[at]):
                at += 1
            shown = textwrap.dedent("\n".join(rows[begin:at])).strip("\n").splitlines()
            yield begin + 1, "code", shown
        else:
            at += 1
            yield begin + 1, "text", [rows[begin]]


def _commands(line: int, block: list[str], *, fenced: bool) -> Iterator[Command]:
    kind, text, printed, first = Command, "", [], line
    for number, row in enumerate(block, line):
        if text and not printed and _goes_on(text, kind):
            text += f"\n{row.removeprefix(' ... ')}"
        elif row.startswith(("$ ", "sql> ")) or (fenced and row and not row.startswith("#")):
            if text:
                yield kind(first, text, tuple(printed))
            kind = Statement if row.startswith("sql> ") else Command
            text = row.removeprefix("sql> ").removeprefix("$ ")
            printed, first = [], number
        elif not fenced:
            printed.append(row)
    if text:
        yield kind(first, text, tuple(printed))


def _goes_on(text: str, kind: type[Command]) -> bool:
    """A statement without its semicolon, an open quote or loop, a pipe, a backslash."""
    if kind is Statement:
        return not text.endswith(";")
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return True
    return text.endswith(("\\", "|")) or (words[:1] == ["for"] and words[-1:] != ["done"])


@dataclass(frozen=True, slots=True)
class Selection:
    """What a test reads of a page."""

    page: str
    headings: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    def has(self, heading: str, part: Part) -> bool:
        skips = isinstance(part, Command) and part.text.startswith(self.skipped)
        return heading in self.headings and not skips


class PageReader:
    """One shell user in an empty folder; `ports` replaces addresses of the page."""

    def __init__(self, folder: Path, ports: dict[str, int], shell: dict[str, str]) -> None:
        self.folder = folder
        self.ports = ports
        self._servers: list[subprocess.Popen[bytes]] = []
        self._session: SqlSession | None = None
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "OTTLA_RUN_DIR": str(folder / "run"),
            "XDG_STATE_HOME": str(folder / "state"),
            "COLUMNS": "100",
            **{name: self._with_our_ports(value) for name, value in shell.items()},
        }

    def read(self, selection: Selection) -> int:
        """Returns how many commands, statements and programs ran."""
        count = 0
        for heading, part in parts_of(selection.page):
            if not selection.has(heading, part):
                continue
            place = f"docs/{selection.page}:{part.line}"
            if isinstance(part, File) and part.name:
                mode = "a" if part.is_added else "w"
                with (self.folder / part.name).open(mode, encoding="utf-8") as file:
                    file.write(self.local(part.text))
                continue
            if isinstance(part, File):
                failed, printed = self.run(f"python -c {shlex.quote(part.text)}")
                assert not failed, f"{place}: {printed}"
            elif isinstance(part, Statement):
                assert self._session is not None, place
                self._session.type(replace(part, text=self.local(part.text)), place)
                if part.text.startswith("SET "):
                    self._session.settings.append(part.text)
            else:
                self._run_command(part, place)
            count += 1
        self._close_session()
        return count

    def _run_command(self, command: Command, place: str) -> None:
        if config := CONFIG.fullmatch(command.text):
            text = "\n".join(command.printed) + "\n"
            (self.folder / config[1]).write_text(self.local(text), encoding="utf-8")
        elif assigned := ASSIGNMENT.fullmatch(command.text):
            self._environment[assigned[1]] = self.local(assigned[2])
        elif SERVER.match(command.text):
            self.run_server(command.text, command)
        elif FOREGROUND.fullmatch(command.text):
            settings = self._session.settings if self._session else []
            self._close_session()
            words = shlex.split(self.local(command.text))
            self._session = SqlSession(words, self.folder, self._environment, settings)
        else:
            self._type(command, place)

    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    def run(self, text: str) -> tuple[bool, str]:
        """Whether it fails, and what it prints."""
        registry = rf"\1 --property schema.registry.url=http://localhost:{self.ports['8081']}"
        asked = ASKS.match(text)
        text = re.sub(r"(kafka-avro-console-\w+)", registry, text)  # they have no variable for it
        ran = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", self.local(text)],
            cwd=self.folder,
            env=self._environment,
            input=f"{asked[1]}-secret\n" if asked else "",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )
        return ran.returncode != 0, ran.stdout

    def _type(self, command: Command, place: str) -> None:
        """Runs it until it prints what the page shows: a connector needs a while to run."""
        deadline = time.monotonic() + START_S_MAX
        while True:
            failed, printed = self.run(command.text)
            lacks = missing(command, printed, self.local)
            if failed == command.fails and not lacks:
                return
            waits = REPEATED.match(command.text) and time.monotonic() < deadline
            assert waits, f"{place}: {command.text}\n{lacks!r} is not in, or exit code:\n{printed}"
            time.sleep(LOOK_S)

    def run_server(self, text: str, command: Command | None = None) -> None:
        """A server of the page: on ports of this test, and until the end of it."""
        kind = SERVER.match(text)
        assert kind is not None
        words, wanted = self._server(kind[1] or kind[2], self.local(text))
        log = self.folder / f"server-{len(self._servers)}.log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                words,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._servers.append(server)
        deadline = time.monotonic() + START_S_MAX
        while not all(map(_listens, wanted)) or (
            command and missing(command, log.read_text(encoding="utf-8"), self.local)
        ):
            assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
            assert server.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(LOOK_S)

    def _server(self, kind: str, text: str) -> tuple[list[str], list[int]]:
        """Its words, and the ports where it listens."""
        if kind == "for n in":  # a loop of the shell that starts brokers
            first = self.ports["9292"]
            text = text.replace("929$((n + 1))", f"$(({first - 1} + n))")
            return ["bash", "-c", f"{text}\nwait"], [first, first + 1, first + 2]
        command = text.replace("\\\n", " ").partition(" #")[0].strip().removesuffix("&").strip()
        named = re.search(r"(?<![=\w/.-])[\w/.-]+\.properties", command)
        own = {
            "serve": "9092",
            "registry": "8081",
            "connect worker": "8083",
            "sql-server": "8088",
            "cluster up": "9092",
        }
        wanted = [self.ports[own[kind]]] if own.get(kind) in self.ports else []
        if kind == "serve" and not named:
            command += f" --override listeners=PLAINTEXT://127.0.0.1:{wanted[0]}"
            if "--registry" in command:
                (self.folder / "own.properties").write_text(
                    f"listeners=http://127.0.0.1:{self.ports['8081']}\n", encoding="utf-8"
                )
                command = command.replace("--registry", "--registry own.properties")
                wanted.append(self.ports["8081"])
        elif kind == "registry" and not named:
            command += f" -b localhost:{self.ports['9092']}"
            command += f" --override listeners=http://127.0.0.1:{wanted[0]}"
        elif kind == "connect worker" and not named:
            command += f" -b localhost:{self.ports['9092']} --port {wanted[0]}"
        elif kind == "sql-server" and named:
            wanted = [self._listener(self.folder / named[0])]
        elif kind == "sql-server":
            registry = f"http://127.0.0.1:{self.ports['8081']}"
            worker = f"http://127.0.0.1:{self.ports['8083']}"
            command += f" --port {wanted[0]} --override ksql.schema.registry.url={registry}"
            command += f" --override ksql.connect.url={worker}"
        elif kind == "cluster up":
            command += f" --port {wanted[0]} --zookeeper-port {self.ports['2181']} --brokers 5"
        elif named:
            wanted = [self._listener(self.folder / named[0])]
        wanted += [int(port) for port in re.findall(r"metrics\.port=(\d+)", command)]
        return shlex.split(command), wanted

    def _listener(self, properties: Path) -> int:
        """The port in a file of properties, which becomes ours."""
        text = self._with_our_ports(properties.read_text(encoding="utf-8"))
        properties.write_text(text, encoding="utf-8")
        (port,) = re.findall(r"^(?:listeners=.*:|clientPort=)(\d+)$", text, re.MULTILINE)
        return int(port)

    def local(self, text: str) -> str:
        return self._with_our_ports(text.replace("/tmp/", f"{self.folder}/"))

    def _with_our_ports(self, text: str) -> str:
        for port, ours in self.ports.items():
            before = r"\blocalhost:|\b127\.0\.0\.1:|[pP]ort="
            text = re.sub(rf"({before}){port}\b", rf"\g<1>{ours}", text)
        return text

    def close(self) -> None:
        if self._session is not None:
            self._session.kill()
        for server in reversed(self._servers):
            if server.args[0] == "bash":  # its jobs ignore SIGINT
                os.killpg(server.pid, signal.SIGTERM)
            else:
                server.send_signal(signal.SIGINT)
            server.wait(START_S_MAX)  # a registry stops at once only while its broker runs


class SqlSession:
    """`ottla sql`, which reads statements from a pipe, one after another."""

    def __init__(
        self, words: list[str], folder: Path, environment: dict[str, str], settings: list[str]
    ) -> None:
        self.settings = settings  # each SET of the page holds in all of its shells
        self._words = words
        self._folder = folder
        self._environment = environment
        self._log = folder / "session.log"
        self._shell = self._start()

    def _start(self) -> subprocess.Popen[str]:
        with self._log.open("w", encoding="utf-8") as output:
            shell = subprocess.Popen(
                self._words,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                text=True,
            )
        assert shell.stdin is not None
        shell.stdin.writelines(f"{setting}\n" for setting in self.settings)
        return shell

    def type(self, statement: Statement, place: str) -> None:
        """Until it prints what the page shows: a query needs a while for its first batch."""
        begin = self._log.stat().st_size
        deadline = time.monotonic() + START_S_MAX
        typed = 0.0
        while True:
            if not typed or (
                REPEATED_STATEMENT.match(statement.text) and time.monotonic() > typed + REPEAT_S
            ):
                assert self._shell.stdin is not None
                self._shell.stdin.write(f"{statement.text}\n")
                self._shell.stdin.flush()
                typed = time.monotonic()
            shown = self._log.read_bytes()[begin:].decode()
            lacks = missing(statement, shown, str)  # without numbers ports are the same
            if not lacks:
                break
            assert time.monotonic() < deadline, f"{place}: {lacks!r} is not in\n{shown}"
            assert statement.fails or self._shell.poll() is None, f"{place}: {shown}"
            time.sleep(LOOK_S)
        if statement.fails:
            self._shell.communicate(timeout=START_S_MAX)
            assert self._shell.returncode == 1
            self._shell = self._start()

    def close(self) -> None:
        self._shell.communicate(timeout=START_S_MAX)
        assert self._shell.returncode == 0, self._log.read_text(encoding="utf-8")

    def kill(self) -> None:
        self._shell.kill()
        self._shell.communicate(timeout=START_S_MAX)


def missing(command: Command, printed: str, local: Callable[[str], str]) -> str:
    """The first row of the page that is not in what was printed."""
    shown = _without_numbers(printed)
    whole = (row for row in command.printed if not OMITTED.search(row))
    rows = (_without_numbers(local(row)) for row in whole)
    return next((row for row in rows if row not in shown), "")


def _without_numbers(row: str) -> str:
    return " ".join(re.sub(r"-?\d+(?:[.,]\d+)*", "N", row).split())


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
