"""Parsers of commands: SHOW, DESCRIBE, PRINT, TERMINATE, SET, ASSERT and others."""

from __future__ import annotations

from typing import Final

from ottla.sql.syntax.cursor import Cursor
from ottla.sql.syntax.definitions import (
    alter_source,
    column_list,
    connector_name,
    elements,
    properties,
    value_list,
)
from ottla.sql.syntax.queries import duration, query
from ottla.sql.syntax.statements import (
    AlterSystem,
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    CreateSource,
    Define,
    Describe,
    DescribeConnector,
    DescribeFunction,
    DescribeSources,
    Pause,
    Print,
    Resume,
    RunScript,
    Select,
    SetProperty,
    Show,
    SourceKind,
    Statement,
    Subject,
    Terminate,
    Undefine,
    UnsetProperty,
)
from ottla.sql.syntax.tokens import Lexeme

_EXTENDED: Final = frozenset(
    {Subject.STREAMS, Subject.TABLES, Subject.TOPICS, Subject.ALL_TOPICS, Subject.QUERIES}
)


def select(at: Cursor) -> Statement:
    return Select(query(at, persistent=False))


def show(at: Cursor) -> Statement:
    at.need_word("SHOW", "LIST")
    if at.word("ALL"):
        at.need_word("TOPICS")
        subject = Subject.ALL_TOPICS
    elif side := at.word("SOURCE", "SINK"):
        at.need_word("CONNECTORS")
        subject = Subject(f"{side} CONNECTORS")
    elif at.word("CONNECTOR"):
        at.need_word("PLUGINS")
        subject = Subject.CONNECTOR_PLUGINS
    else:
        subject = Subject(at.need_word(*(subject for subject in Subject if " " not in subject)))
    return Show(subject, subject in _EXTENDED and bool(at.word("EXTENDED")))


def describe(at: Cursor) -> Statement:
    at.need_word("DESCRIBE")
    if at.is_word("FUNCTION") and at.ahead().kind is not Lexeme.END:
        at.next()
        return DescribeFunction(_function_name(at))
    if at.word("CONNECTOR"):
        return DescribeConnector(connector_name(at))
    plural = at.word("STREAMS", "TABLES")
    if plural:
        return DescribeSources(SourceKind(plural[:-1]), bool(at.word("EXTENDED")))
    early = bool(at.word("EXTENDED"))  # the old syntax: DESCRIBE EXTENDED name
    at.word("STREAM", "TABLE")
    name = at.name("the name of a stream or table")
    return Describe(name, bool(at.word("EXTENDED")) or early)


def _function_name(at: Cursor) -> str:
    """The name of a function, which may be a reserved word."""
    if at.token.kind is Lexeme.WORD:
        return at.next().value
    return at.name("the name of a function").upper()


def print_topic(at: Cursor) -> Statement:
    at.need_word("PRINT")
    topic = at.name_as_written("the name of a topic")
    beginning = at.phrase("FROM", "BEGINNING")
    interval = at.integer() if at.word("INTERVAL", "SAMPLE") else 1
    limit = at.integer() if at.word("LIMIT") else None
    return Print(topic, beginning, interval, limit)


# -- queries that run, and the session


def terminate(at: Cursor) -> Statement:
    at.need_word("TERMINATE")
    return Terminate(_query_id(at))


def pause(at: Cursor) -> Statement:
    at.need_word("PAUSE")
    return Pause(_query_id(at))


def resume(at: Cursor) -> Statement:
    at.need_word("RESUME")
    return Resume(_query_id(at))


def _query_id(at: Cursor) -> str | None:
    if at.word("ALL"):
        return None
    at.word("QUERY")  # the old syntax: TERMINATE QUERY id
    return at.name_as_written("the id of a query")


def set_property(at: Cursor) -> Statement:
    at.need_word("SET")
    return SetProperty(*_assignment(at))


def unset_property(at: Cursor) -> Statement:
    at.need_word("UNSET")
    return UnsetProperty(at.string("the name of a property as a string"))


def alter_system(at: Cursor) -> Statement:
    at.need_word("ALTER")
    if at.word("SYSTEM"):
        return AlterSystem(*_assignment(at))
    return alter_source(at)


def _assignment(at: Cursor) -> tuple[str, str]:
    name = at.string("the name of a property as a string")
    at.need_symbol("=")
    return name, at.string("the value as a string")


def define(at: Cursor) -> Statement:
    at.need_word("DEFINE")
    name = _variable(at)
    at.need_symbol("=")
    return Define(name, at.string("the value as a string"))


def undefine(at: Cursor) -> Statement:
    at.need_word("UNDEFINE")
    return Undefine(_variable(at))


def _variable(at: Cursor) -> str:
    if at.token.kind is not Lexeme.WORD:
        at.unexpected("the name of a variable")
    return at.next().text


def run_script(at: Cursor) -> Statement:
    at.need_phrase("RUN", "SCRIPT")
    return RunScript(at.string("the path of the script as a string"))


# -- assertions


def assert_command(at: Cursor) -> Statement:
    at.need_word("ASSERT")
    exists = not at.phrase("NOT", "EXISTS")
    if at.word("TOPIC"):
        topic = at.name_as_written("the name of a topic")
        wanted = properties(at) if at.word("WITH") else {}
        return AssertTopic(topic, wanted, exists, _timeout(at))
    if at.word("SCHEMA"):
        return _assert_schema(at, exists)
    if not exists:
        at.unexpected()
    kind = at.word("STREAM", "TABLE")
    if kind:
        name = at.name("the name of a stream or table")
        columns = elements(at) if at.is_symbol("(") else ()
        given = properties(at) if at.word("WITH") else {}
        return AssertSource(CreateSource(SourceKind(kind), name, columns, given))
    tombstone = bool(at.word("NULL"))
    at.need_word("VALUES")
    name = at.name("the name of a stream or table")
    columns_named = column_list(at)
    at.need_word("KEY" if tombstone else "VALUES")
    return AssertValues(name, columns_named, value_list(at), tombstone)


def _assert_schema(at: Cursor, exists: bool) -> Statement:
    subject = at.name_as_written("a subject") if at.word("SUBJECT") else None
    schema_id = at.integer("the id of a schema") if at.word("ID") else None
    if subject is None and schema_id is None:
        at.unexpected()
    return AssertSchema(subject, schema_id, exists, _timeout(at))


def _timeout(at: Cursor) -> int | None:
    return duration(at) if at.word("TIMEOUT") else None
