"""`ottla sql`: a person at a terminal, a pipe, --execute or --file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from ottla.sql.shell.client import Client
from ottla.sql.shell.screen import Output, Screen
from ottla.sql.shell.session import Leave, Session
from ottla.sql.syntax.scanner import split

WELCOME: Final = "[bold]Ottla SQL[/]  help tells what there is, exit or Ctrl-D leaves."
LINE_CHARS_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line asks for."""

    execute: str = ""
    file: Path | None = None
    output: Output = Output.TABULAR
    properties: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    history: Path | None = None


def run(connect: Callable[[], Client], wish: Wish, *, stdin: IO[str] | None = None) -> int:
    """The exit code. `connect` waits for the server of this process, if it is one."""
    screen = Screen(sys.stdout, sys.stderr, output=wish.output)
    session = Session(connect, screen, properties=wish.properties, variables=wish.variables)
    source = stdin or sys.stdin
    try:
        if wish.execute or wish.file:
            text = wish.file.read_text(encoding="utf-8") if wish.file else _closed(wish.execute)
            return 0 if session.run(text) else 1
        if source.isatty():
            return _talk(session, wish)
        return _pipe(session, source)
    except Leave:
        return 0
    finally:
        session.close()


def _closed(text: str) -> str:
    """On a command line a last semicolon is easily forgotten."""
    return text if text.rstrip().endswith(";") else f"{text};"


def _pipe(session: Session, source: IO[str]) -> int:
    """Each statement as soon as it is whole: who writes may wait for an answer."""
    waiting = ""
    for line in source:
        waiting += line
        if len(waiting) > LINE_CHARS_MAX:
            raise ValueError(f"a statement of more than {LINE_CHARS_MAX} characters")
        whole, rest = split(waiting)
        for statement in whole:
            if not session.one(statement):
                return 1
        waiting = rest if whole else waiting
    return 0 if session.run(waiting) else 1


def _talk(session: Session, wish: Wish) -> int:
    from ottla.sql.shell.completion import Learning, SqlCompleter
    from ottla.sql.shell.prompt import ask, make_prompt

    learning = Learning(lambda: session.connect())
    prompt = make_prompt(SqlCompleter(learning), wish.history)
    session.screen.say(WELCOME)
    while True:
        if session.changed:
            session.changed = False
            learning.refresh()
        try:
            text = ask(prompt)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        try:
            session.run(text)
        except KeyboardInterrupt:
            session.screen.note("\ninterrupted")
