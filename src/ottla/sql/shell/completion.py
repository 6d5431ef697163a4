"""What can be typed next: words of the language, and what the server knows of."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from ottla.rows.errors import SqlError
from ottla.rows.reserved_words import KEYWORDS, TYPE_WORDS
from ottla.rows.schema import PSEUDO_COLUMNS, WINDOW_BOUNDS
from ottla.rows.types import quoted
from ottla.sql.shell.client import Client, Unreachable
from ottla.sql.syntax.mistakes import STATEMENTS

_WORD: Final = re.compile(r"[`\w$]*$")
_DOTTED: Final = re.compile(r"([`\w]+)\.([`\w]*)$")
_SOURCES: Final = re.compile(r"\b(?:FROM|JOIN)\s+([`\w]+)(?:\s+(?:AS\s+)?(\w+))?", re.IGNORECASE)
_PROPERTIES: Final = (
    *("KAFKA_TOPIC", "VALUE_FORMAT", "KEY_FORMAT", "FORMAT", "PARTITIONS", "REPLICAS"),
    *("TIMESTAMP", "TIMESTAMP_FORMAT", "WRAP_SINGLE_VALUE", "WINDOW_TYPE", "WINDOW_SIZE"),
    *("VALUE_DELIMITER", "KEY_DELIMITER", "RETENTION_MS"),
)
_LISTED: Final = (
    *("STREAMS", "TABLES", "TOPICS", "ALL TOPICS", "QUERIES", "FUNCTIONS", "TYPES", "PROPERTIES"),
    *("VARIABLES", "CONNECTORS", "SOURCE CONNECTORS", "SINK CONNECTORS", "CONNECTOR PLUGINS"),
)
_CONNECTOR_PROPERTIES: Final = (
    *("connector.class", "tasks.max", "topics", "key.converter", "value.converter", "transforms"),
    *("errors.tolerance",),
)
_WORDS: Final = ("help", "exit", "output", "spool", "version", "clear", "server")


@dataclass(frozen=True, slots=True)
class Known:
    """What the server has told."""

    streams: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    connectors: tuple[str, ...] = ()
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[str, ...]:
        return (*self.streams, *self.tables)


class Learning:
    """Asks the server in a thread of its own, so that nobody waits for a completion."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self.known = Known()
        self._connect = connect
        self._wanted = threading.Event()
        threading.Thread(target=self._run, name="ottla-sql-completion", daemon=True).start()

    def refresh(self) -> None:
        self._wanted.set()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            try:
                client = self._connect()
                self.known = replace(learn(client), connectors=self.known.connectors)
                # A server of its own, which may be slow to answer, or not there at all.
                self.known = replace(self.known, connectors=learn_connectors(client))
            except (SqlError, Unreachable, KeyError, ValueError):
                continue  # No server, no names: the words are there all the same.


def learn(client: Client) -> Known:
    def asked(statement: str, name: str) -> list[Any]:
        entities = client.execute(statement, {}, {})
        return list(entities[0].get(name) or ()) if entities else []

    described = [
        *asked("DESCRIBE STREAMS;", "sourceDescriptions"),
        *asked("DESCRIBE TABLES;", "sourceDescriptions"),
    ]
    kinds: dict[str, list[str]] = {"STREAM": [], "TABLE": []}
    for each in described:
        kinds.setdefault(each.get("type", "STREAM"), []).append(quoted(each["name"]))
    return Known(
        streams=tuple(kinds["STREAM"]),
        tables=tuple(kinds["TABLE"]),
        topics=tuple(each["name"] for each in asked("SHOW TOPICS;", "topics")),
        queries=tuple(each["id"] for each in asked("SHOW QUERIES;", "queries")),
        functions=tuple(each["name"] for each in asked("SHOW FUNCTIONS;", "functions")),
        columns={
            quoted(each["name"]): tuple(quoted(one["name"]) for one in each.get("fields") or ())
            for each in described
        },
    )


def learn_connectors(client: Client) -> tuple[str, ...]:
    (found,) = client.execute("SHOW CONNECTORS;", {}, {})
    return tuple(quoted(str(each["name"])) for each in found.get("connectors") or ())


class SqlCompleter(Completer):
    def __init__(self, learning: Learning) -> None:
        self._learning = learning

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        before = document.text_before_cursor
        match = _WORD.search(before)
        typed = match.group() if match else ""
        seen = set()
        for text, what in suggestions(before, document.text, self._learning.known):
            plain, wanted = text.strip("`'").upper(), typed.strip("`").upper()
            if plain.startswith(wanted) and text not in seen:
                seen.add(text)
                yield Completion(_cased(text, typed, what), -len(typed), display_meta=what)


def _cased(text: str, typed: str, what: str) -> str:
    """Words follow the case of what was typed; names need not, but look better so."""
    if typed and typed.islower() and what != "topic" and "`" not in text:
        return text.lower()
    return text


def suggestions(before: str, whole: str, known: Known) -> Iterator[tuple[str, str]]:
    """Pairs of a text and what it is, the likeliest first."""
    dotted = _DOTTED.search(before)
    if dotted:
        source = _aliases(whole).get(dotted.group(1).upper(), dotted.group(1))
        yield from ((each, "column") for each in _columns(known, source))
        return
    words = re.findall(r"[`\w]+|\S", before[: len(before) - len(_typed(before))].upper())
    last = words[-1] if words else ""
    if not words or last == ";":
        yield from ((each, "statement") for each in STATEMENTS)
        yield from ((each, "shell") for each in _WORDS)
        return
    yield from _after(last, words, known)
    if words[0] in ("SELECT", "CREATE", "INSERT", "EXPLAIN", "WITH"):
        yield from _in_query(whole, known)
    yield from ((each, "word") for each in sorted(KEYWORDS))


def _typed(before: str) -> str:
    match = _WORD.search(before)
    return match.group() if match else ""


def _after(last: str, words: list[str], known: Known) -> Iterator[tuple[str, str]]:
    if last in ("SHOW", "LIST"):
        yield from ((each, "list") for each in _LISTED)
    elif last in ("FROM", "JOIN", "INTO"):
        yield from ((each, "stream") for each in known.streams)
        yield from ((each, "table") for each in known.tables)
    elif last == "CONNECTOR" and words[0] in ("DESCRIBE", "DROP"):
        yield from ((each, "connector") for each in known.connectors)
    elif last == "DESCRIBE" or words[0] in ("DROP", "ALTER"):
        yield from ((each, "stream or table") for each in known.sources)
    elif last == "PRINT":
        yield from ((_topic(each), "topic") for each in known.topics)
    elif last in ("TERMINATE", "PAUSE", "RESUME", "EXPLAIN"):
        yield from ((each, "query") for each in known.queries)
    elif last == "FUNCTION":
        yield from ((each, "function") for each in known.functions)
    elif "CONNECTOR" in words and "WITH" in words and last in ("(", ","):
        yield from ((f"'{each}'=", "property") for each in _CONNECTOR_PROPERTIES)
    elif "WITH" in words and last in ("(", ","):
        yield from ((f"{each}=", "property") for each in _PROPERTIES)
    elif words[0] == "CREATE" and "(" in words and "AS" not in words:
        yield from ((each, "type") for each in TYPE_WORDS)


def _topic(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f"'{name}'"


def _in_query(whole: str, known: Known) -> Iterator[tuple[str, str]]:
    for source in dict.fromkeys(_aliases(whole).values()):
        yield from ((each, "column") for each in known.columns.get(source, ()))
    yield from ((each, "function") for each in known.functions)
    yield from ((each, "column") for each in (*PSEUDO_COLUMNS, *WINDOW_BOUNDS))


def _columns(known: Known, source: str) -> tuple[str, ...]:
    return known.columns.get(source, known.columns.get(source.upper(), ()))


def _aliases(whole: str) -> dict[str, str]:
    """What the streams and tables of a query are called in it."""
    found = {}
    for name, alias in _SOURCES.findall(whole):
        source = name if name.startswith("`") else name.upper()
        found[source] = source
        if alias and alias.upper() not in KEYWORDS:
            found[alias.upper()] = source
    return found
