"""How the verbs speak: tables for people, JSON for scripts, errors that say what to do."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any, Final

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ottla.errors import ErrorCode, KafkaError

WIDE: Final = 1000  # what is not a terminal has no edge to cut a table at

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="OTTLA_BOOTSTRAP_SERVER",
        help="Broker(s) to connect to.",
        metavar="HOST:PORT",
    ),
]
CommandConfig = Annotated[
    str | None,
    typer.Option("--command-config", help="A properties file with settings of the client."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
LOCALHOST: Final = "localhost:9092"

_ADVICE: Final = {
    ErrorCode.BROKER_NOT_AVAILABLE: (
        "Is the broker running there? `ottla serve` starts one on localhost:9092;"
        " --bootstrap-server names another."
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`ottla topics list` shows the topics there are.",
    ErrorCode.GROUP_ID_NOT_FOUND: "`ottla groups list` shows the groups there are.",
    ErrorCode.NON_EMPTY_GROUP: "Stop its consumers first; `ottla groups describe` lists them.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`ottla transactions list` shows those there are.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "`ottla topics describe` shows it.",
    ErrorCode.INVALID_RECORD: "A compacted topic takes no record without a key.",
    ErrorCode.NETWORK_EXCEPTION: (
        "If the cluster asks for TLS or a login: --command-config names a file with"
        " security.protocol and what goes with it (docs/security.md)."
    ),
    ErrorCode.REQUEST_TIMED_OUT: "Can its advertised address be reached from here?",
}


def console() -> Console:
    """Standard output. Made anew each time: tests and pipes swap it."""
    tty = sys.stdout.isatty()
    return Console(
        highlight=False, emoji=False, width=None if tty else WIDE, soft_wrap=not tty
    )  # `:x:` in a name is no picture


def print_json(value: Any) -> None:
    print(json.dumps(plain(value), indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    """What json can write: dataclasses become objects, bytes text."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Numbers stand right: a column whose name begins with `>`."""
    table = Table(
        box=box.SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold"
    )
    for each in columns:
        right = each.startswith(">")
        table.add_column(
            each.removeprefix(">"), justify="right" if right else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*map(str, row))
    console().print(table)


def said(text: str) -> None:
    """A line about what was done."""
    console().print(text)


def fail(error: Exception) -> None:
    """On standard error: what happened, and what to do."""
    shown = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)
    if not isinstance(error, KafkaError):
        shown.print(f"[bold red]error[/] {escape(str(error))}")
        return
    message = str(error).removeprefix("Broker: ")
    name = "" if error.code.name in message else f" [dim]({error.code.name})[/]"
    shown.print(f"[bold red]error[/] {escape(message)}{name}")
    if error.code in _ADVICE:
        shown.print(f"      {_ADVICE[error.code]}")
