"""`ottla sql`: reads statements from a terminal, a pipe, --execute or --file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from ottla.sql.shell.client import KsqlRestClient
from ottla.sql.shell.screen import OutputFormat, Screen
from ottla.sql.shell.session import ExitShell, ShellSession
from ottla.sql.syntax.tokens import split_statements

WELCOME: Final = "[bold]Ottla SQL[/]  Type help for help, exit or Ctrl-D to leave."
LINE_CHARS_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """Options of the command line."""

    execute: str = ""
    file: Path | None = None
    output: OutputFormat = OutputFormat.TABULAR
    properties: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    history: Path | None = None


def run_shell(
    connect: Callable[[], KsqlRestClient], options: ShellOptions, *, stdin: IO[str] | None = None
) -> int:
    """Run the shell; return the exit code. `connect` waits for an embedded server."""
    screen = Screen(sys.stdout, sys.stderr, output=options.output)
    session = ShellSession(
        connect, screen, properties=options.properties, variables=options.variables
    )
    source = stdin or sys.stdin
    try:
        if options.execute or options.file:
            text = (
                options.file.read_text(encoding="utf-8")
                if options.file
                else _closed(options.execute)
            )
            return 0 if session.run(text) else 1
        if source.isatty():
            return _talk(session, options)
        return _pipe(session, source)
    except ExitShell:
        return 0
    finally:
        session.close()


def _closed(text: str) -> str:
    """Add the last semicolon, which is easily forgotten on a command line."""
    return text if text.rstrip().endswith(";") else f"{text};"


def _pipe(session: ShellSession, source: IO[str]) -> int:
    """Run each statement as soon as it is complete: the writer may wait for its result."""
    waiting = ""
    for line in source:
        waiting += line
        if len(waiting) > LINE_CHARS_MAX:
            raise ValueError(f"statement longer than {LINE_CHARS_MAX} characters")
        whole, rest = split_statements(waiting)
        for statement in whole:
            if not session.one(statement):
                return 1
        waiting = rest if whole else waiting
    return 0 if session.run(waiting) else 1


def _talk(session: ShellSession, options: ShellOptions) -> int:
    from ottla.sql.shell.completer import NameLoader, SqlCompleter
    from ottla.sql.shell.prompt import ask, make_prompt

    learning = NameLoader(lambda: session.connect())
    prompt = make_prompt(SqlCompleter(learning), options.history)
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
