"""Parsers of definitions: CREATE, ALTER, DROP and INSERT."""

from __future__ import annotations

from typing import Final, Literal

from ottla.rows.schema import Role
from ottla.rows.schema_properties import Properties
from ottla.sql.syntax.cursor import Cursor
from ottla.sql.syntax.expressions import expression
from ottla.sql.syntax.queries import query
from ottla.sql.syntax.statements import (
    AlterSource,
    CreateAsSelect,
    CreateConnector,
    CreateSource,
    CreateType,
    DropConnector,
    DropSource,
    DropType,
    Element,
    Expression,
    InsertSelect,
    InsertValues,
    Property,
    SourceKind,
    Statement,
)
from ottla.sql.syntax.tokens import Lexeme
from ottla.sql.syntax.type_names import type_name

_NAME: Final = "the name of a stream or table"


def create_definition(at: Cursor) -> Statement:
    at.need_word("CREATE")
    or_replace = at.phrase("OR", "REPLACE")
    side = at.word("SOURCE", "SINK")
    if side and at.is_word("CONNECTOR"):
        return _connector(at, "SOURCE" if side == "SOURCE" else "SINK", or_replace)
    if side == "SINK":
        at.unexpected()
    if not side and not or_replace and at.is_word("TYPE"):
        return _type(at)
    kind = SourceKind(at.need_word("STREAM", "TABLE"))
    if_not_exists = at.phrase("IF", "NOT", "EXISTS")
    name = at.name(_NAME)
    listed = at.is_symbol("(")
    columns = elements(at) if listed else ()
    found = properties(at) if at.word("WITH") else {}
    token = at.token
    if not at.word("AS"):
        return CreateSource(
            kind, name, columns, found, or_replace, if_not_exists, read_only=bool(side)
        )
    if listed:
        at.fail("CREATE ... AS SELECT takes its columns from the query", "Remove the list.", token)
    if side:
        at.fail("a SOURCE stream or table can't have a query", "Leave out SOURCE.", token)
    return CreateAsSelect(kind, name, query(at, persistent=True), found, or_replace, if_not_exists)


def elements(at: Cursor) -> tuple[Element, ...]:
    at.need_symbol("(")
    if at.symbol(")"):
        return ()
    found = at.listed(lambda: _element(at))
    at.need_symbol(")")
    return found


def _element(at: Cursor) -> Element:
    name = at.name("the name of a column")
    kind = type_name(at)
    if at.phrase("PRIMARY", "KEY"):
        return Element(name, kind, Role.KEY, primary=True)
    if at.word("KEY"):
        return Element(name, kind, Role.KEY)
    if at.word("HEADERS"):
        return Element(name, kind, Role.HEADERS)
    if at.word("HEADER"):
        at.need_symbol("(")
        header = at.string("the name of the header as a string")
        at.need_symbol(")")
        return Element(name, kind, Role.HEADER, header=header)
    return Element(name, kind)


def properties(at: Cursor, *, strings_keep_case: bool = False) -> Properties:
    """The WITH clause; names in upper case. Those of connectors keep their case if quoted."""
    at.need_symbol("(")
    found: dict[str, Property] = {}
    while True:
        token = at.token
        name = _property_name(at)
        if not strings_keep_case:
            name = name.upper()
        at.need_symbol("=")
        if name in found:
            at.fail(f"Duplicate property: {name}", "Remove one of them.", token)
        found[name] = _property(at)
        if not at.symbol(","):
            break
    at.need_symbol(")")
    return found


def _property_name(at: Cursor) -> str:
    if at.token.kind is Lexeme.STRING:
        return at.next().value
    return at.name("the name of a property")


def _property(at: Cursor) -> Property:
    if at.word("TRUE"):
        return True
    if at.word("FALSE"):
        return False
    sign = -1 if at.symbol("-") else 1
    if at.token.kind is Lexeme.INTEGER:
        return sign * int(at.next().value)
    if at.is_number:
        return sign * float(at.next().value)
    if sign < 0:
        at.unexpected("a number")
    return at.string("a string, a number, TRUE or FALSE")


def _connector(at: Cursor, kind: Literal["SOURCE", "SINK"], or_replace: bool) -> Statement:
    if or_replace:
        at.fail("a connector can't be replaced", "DROP CONNECTOR first.")
    at.need_word("CONNECTOR")
    if_not_exists = at.phrase("IF", "NOT", "EXISTS")
    name = connector_name(at)
    at.need_word("WITH")
    return CreateConnector(name, kind, properties(at, strings_keep_case=True), if_not_exists)


def connector_name(at: Cursor) -> str:
    if at.token.kind is Lexeme.STRING:
        return at.next().value
    return at.name("the name of a connector")


def _type(at: Cursor) -> Statement:
    at.need_word("TYPE")
    if_not_exists = at.phrase("IF", "NOT", "EXISTS")
    name = at.name("the name of the type")
    at.need_word("AS")
    return CreateType(name, type_name(at), if_not_exists)


def drop_definition(at: Cursor) -> Statement:
    at.need_word("DROP")
    word = at.need_word("STREAM", "TABLE", "TYPE", "CONNECTOR")
    if_exists = at.phrase("IF", "EXISTS")
    if word == "CONNECTOR":
        return DropConnector(connector_name(at), if_exists)
    if word == "TYPE":
        return DropType(at.name("the name of a type"), if_exists)
    name = at.name(_NAME)
    return DropSource(SourceKind(word), name, if_exists, at.phrase("DELETE", "TOPIC"))


def alter_source(at: Cursor) -> Statement:
    kind = SourceKind(at.need_word("STREAM", "TABLE"))
    name = at.name(_NAME)

    def added() -> Element:
        if at.is_word("DROP", "RENAME", "ALTER", "MODIFY"):
            at.fail(
                "ALTER can only add columns",
                "Write ALTER ... ADD COLUMN name type, or use CREATE OR REPLACE.",
            )
        at.need_word("ADD")
        if at.is_word("COLUMN") and not _is_type_ahead(at):
            at.next()
        return Element(at.name("the name of a column"), type_name(at))

    return AlterSource(kind, name, at.listed(added))


def _is_type_ahead(at: Cursor) -> bool:
    """True for `ADD COLUMN INT`, which adds a column named COLUMN."""
    after = at.ahead(2)
    return after.kind is Lexeme.END or (after.kind is Lexeme.SYMBOL and after.value == ",")


def insert(at: Cursor) -> Statement:
    at.need_phrase("INSERT", "INTO")
    target = at.name(_NAME)
    found = properties(at) if at.word("WITH") else {}
    if found or at.is_word("SELECT"):
        return InsertSelect(target, query(at, persistent=True), found)
    columns = column_list(at)
    at.need_word("VALUES")
    token = at.token
    values = value_list(at)
    if at.is_symbol(","):
        at.fail("only one row for each INSERT", "Write one INSERT INTO ... VALUES for each row.")
    if columns and len(columns) != len(values):
        at.fail(
            f"Expected a value for each column. Columns: {len(columns)}, values: {len(values)}",
            "The number of values must match the list of columns.",
            token,
        )
    return InsertValues(target, values, columns)


def column_list(at: Cursor) -> tuple[str, ...]:
    if not at.symbol("("):
        return ()
    columns = at.listed(lambda: at.name("the name of a column"))
    at.need_symbol(")")
    return columns


def value_list(at: Cursor) -> tuple[Expression, ...]:
    at.need_symbol("(")
    if at.symbol(")"):
        return ()
    found = at.listed(lambda: expression(at))
    at.need_symbol(")")
    return found
