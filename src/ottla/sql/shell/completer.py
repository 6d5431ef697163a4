"""The completer: suggests words of the language, and names that the server knows."""

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
from ottla.sql.shell.client import KsqlRestClient, KsqlServerUnreachable
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
class ServerNames:
    """The names that the server knows."""

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


class NameLoader:
    """Loads names in a background thread, so that completions never wait for the server."""

    def __init__(self, connect: Callable[[], KsqlRestClient]) -> None:
        self.known = ServerNames()
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
                self.known = replace(load_names(client), connectors=self.known.connectors)
                # Last, because the Connect worker may be slow or not available.
                self.known = replace(self.known, connectors=load_connector_names(client))
            except (SqlError, KsqlServerUnreachable, KeyError, ValueError):
                continue  # without a server suggest the words of the language only


def load_names(client: KsqlRestClient) -> ServerNames:
    def field_of(statement: str, name: str) -> list[Any]:
        entities = client.execute(statement, {}, {})
        return list(entities[0].get(name) or ()) if entities else []

    described = [
        *field_of("DESCRIBE STREAMS;", "sourceDescriptions"),
        *field_of("DESCRIBE TABLES;", "sourceDescriptions"),
    ]
    kinds: dict[str, list[str]] = {"STREAM": [], "TABLE": []}
    for source in described:
        kinds.setdefault(source.get("type", "STREAM"), []).append(quoted(source["name"]))
    return ServerNames(
        streams=tuple(kinds["STREAM"]),
        tables=tuple(kinds["TABLE"]),
        topics=tuple(topic["name"] for topic in field_of("SHOW TOPICS;", "topics")),
        queries=tuple(query["id"] for query in field_of("SHOW QUERIES;", "queries")),
        functions=tuple(function["name"] for function in field_of("SHOW FUNCTIONS;", "functions")),
        columns={
            quoted(source["name"]): tuple(
                quoted(column["name"]) for column in source.get("fields") or ()
            )
            for source in described
        },
    )


def load_connector_names(client: KsqlRestClient) -> tuple[str, ...]:
    (found,) = client.execute("SHOW CONNECTORS;", {}, {})
    return tuple(quoted(str(connector["name"])) for connector in found.get("connectors") or ())


class SqlCompleter(Completer):
    def __init__(self, learning: NameLoader) -> None:
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
    """A suggestion in the case of the typed text."""
    if typed and typed.islower() and what != "topic" and "`" not in text:
        return text.lower()
    return text


def suggestions(before: str, whole: str, known: ServerNames) -> Iterator[tuple[str, str]]:
    """Suggestions as pairs of text and kind, the most likely first."""
    dotted = _DOTTED.search(before)
    if dotted:
        source = _aliases(whole).get(dotted.group(1).upper(), dotted.group(1))
        yield from ((column, "column") for column in _columns(known, source))
        return
    words = re.findall(r"[`\w]+|\S", before[: len(before) - len(_typed(before))].upper())
    last = words[-1] if words else ""
    if not words or last == ";":
        yield from ((word, "statement") for word in STATEMENTS)
        yield from ((word, "shell") for word in _WORDS)
        return
    yield from _after(last, words, known)
    if words[0] in ("SELECT", "CREATE", "INSERT", "EXPLAIN", "WITH"):
        yield from _in_query(whole, known)
    yield from ((word, "word") for word in sorted(KEYWORDS))


def _typed(before: str) -> str:
    match = _WORD.search(before)
    return match.group() if match else ""


def _after(last: str, words: list[str], known: ServerNames) -> Iterator[tuple[str, str]]:
    if last in ("SHOW", "LIST"):
        yield from ((subject, "list") for subject in _LISTED)
    elif last in ("FROM", "JOIN", "INTO"):
        yield from ((stream, "stream") for stream in known.streams)
        yield from ((table, "table") for table in known.tables)
    elif last == "CONNECTOR" and words[0] in ("DESCRIBE", "DROP"):
        yield from ((connector, "connector") for connector in known.connectors)
    elif last == "DESCRIBE" or words[0] in ("DROP", "ALTER"):
        yield from ((source, "stream or table") for source in known.sources)
    elif last == "PRINT":
        yield from ((_topic(topic), "topic") for topic in known.topics)
    elif last in ("TERMINATE", "PAUSE", "RESUME", "EXPLAIN"):
        yield from ((query, "query") for query in known.queries)
    elif last == "FUNCTION":
        yield from ((function, "function") for function in known.functions)
    elif "CONNECTOR" in words and "WITH" in words and last in ("(", ","):
        yield from ((f"'{name}'=", "property") for name in _CONNECTOR_PROPERTIES)
    elif "WITH" in words and last in ("(", ","):
        yield from ((f"{name}=", "property") for name in _PROPERTIES)
    elif words[0] == "CREATE" and "(" in words and "AS" not in words:
        yield from ((word, "type") for word in TYPE_WORDS)


def _topic(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f"'{name}'"


def _in_query(whole: str, known: ServerNames) -> Iterator[tuple[str, str]]:
    for source in dict.fromkeys(_aliases(whole).values()):
        yield from ((column, "column") for column in known.columns.get(source, ()))
    yield from ((function, "function") for function in known.functions)
    yield from ((column, "column") for column in (*PSEUDO_COLUMNS, *WINDOW_BOUNDS))


def _columns(known: ServerNames, source: str) -> tuple[str, ...]:
    return known.columns.get(source, known.columns.get(source.upper(), ()))


def _aliases(whole: str) -> dict[str, str]:
    """The sources of a query by alias."""
    found = {}
    for name, alias in _SOURCES.findall(whole):
        source = name if name.startswith("`") else name.upper()
        found[source] = source
        if alias and alias.upper() not in KEYWORDS:
            found[alias.upper()] = source
    return found
