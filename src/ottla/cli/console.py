"""Output of the verbs: tables for people, JSON for scripts, errors with a remedy."""

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

WIDE: Final = 1000  # without a terminal no table is cut

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="OTTLA_BOOTSTRAP_SERVER",
        help="The brokers to connect to.",
        metavar="HOST:PORT",
    ),
]
CommandConfig = Annotated[
    str | None,
    typer.Option("--command-config", help="A properties file with client settings."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
LOCALHOST: Final = "localhost:9092"

_ADVICE: Final = {
    ErrorCode.BROKER_NOT_AVAILABLE: (
        "Is the broker running there? `ottla serve` starts one on localhost:9092;"
        " --bootstrap-server gives another address."
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
    """Standard output. Created for each call, because tests and pipes replace it."""
    tty = sys.stdout.isatty()
    # No emoji, because `:x:` in a name is not one.
    return Console(highlight=False, emoji=False, width=None if tty else WIDE, soft_wrap=not tty)


def print_json(value: Any) -> None:
    print(json.dumps(as_json_value(value), indent=2, ensure_ascii=False))


def as_json_value(value: Any) -> Any:
    """The value in JSON's types: dataclasses become objects, bytes text."""
    if is_dataclass(value) and not isinstance(value, type):
        return as_json_value(asdict(value))
    if isinstance(value, dict):
        return {str(key): as_json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json_value(item) for item in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Columns whose name begins with `>` hold numbers, which are right-aligned."""
    table = Table(
        box=box.SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold"
    )
    for column in columns:
        right = column.startswith(">")
        table.add_column(
            column.removeprefix(">"), justify="right" if right else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*map(str, row))
    console().print(table)


def print_line(text: str) -> None:
    """Print what was done, in one line."""
    console().print(text)


def fail(error: Exception) -> None:
    """Print what happened and what to do, on standard error."""
    shown = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)
    if not isinstance(error, KafkaError):
        shown.print(f"[bold red]error[/] {escape(str(error))}")
        return
    message = str(error).removeprefix("Broker: ")
    name = "" if error.code.name in message else f" [dim]({error.code.name})[/]"
    shown.print(f"[bold red]error[/] {escape(message)}{name}")
    if error.code in _ADVICE:
        shown.print(f"      {_ADVICE[error.code]}")
