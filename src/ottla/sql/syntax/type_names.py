"""Parser of type names: `ARRAY<STRUCT<A INT, B DECIMAL(4, 2)>>`, or a custom type."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from ottla.rows import types
from ottla.rows.reserved_words import TYPE_WORDS
from ottla.rows.types import SqlBaseType, SqlType
from ottla.sql.syntax.cursor import Cursor
from ottla.sql.syntax.tokens import Lexeme

PRECISION_MAX: Final = 38

_PLAIN: Final[Mapping[str, SqlType]] = {
    "BOOLEAN": types.BOOLEAN,
    "INT": types.INTEGER,
    "INTEGER": types.INTEGER,
    "BIGINT": types.BIGINT,
    "DOUBLE": types.DOUBLE,
    "STRING": types.STRING,
    "VARCHAR": types.STRING,
    "BYTES": types.BYTES,
    "TIME": types.TIME,
    "DATE": types.DATE,
    "TIMESTAMP": types.TIMESTAMP,
}
_ELSEWHERE: Final = {
    "TEXT": "STRING",
    "CHAR": "STRING",
    "LONG": "BIGINT",
    "SMALLINT": "INTEGER",
    "TINYINT": "INTEGER",
    "FLOAT": "DOUBLE",
    "REAL": "DOUBLE",
    "NUMERIC": "DECIMAL(p, s)",
    "NUMBER": "DECIMAL(p, s)",
    "BOOL": "BOOLEAN",
    "BINARY": "BYTES",
    "VARBINARY": "BYTES",
    "BLOB": "BYTES",
    "DATETIME": "TIMESTAMP",
    "LIST": "ARRAY<...>",
    "ROW": "STRUCT<...>",
    "OBJECT": "STRUCT<...>",
    "JSON": "STRUCT<...>, MAP<...> or STRING",
}


def type_name(at: Cursor) -> SqlType:
    with at.deeper():
        found = _one(at)
        while at.word("ARRAY"):  # the old syntax: `INT ARRAY`
            found = types.array(found)
        return found


def _one(at: Cursor) -> SqlType:
    word = at.token.value if at.token.kind is Lexeme.WORD else ""
    nested = at.is_ahead("<")
    if word == "ARRAY" and nested:
        at.next()
        at.need_symbol("<")
        element = type_name(at)
        at.need_symbol(">")
        return types.array(element)
    if word == "MAP" and nested:
        return _map(at)
    if word == "STRUCT" and (nested or at.is_ahead("<>")):
        return _struct(at)
    if word in ("DECIMAL", "DEC") and at.is_ahead("("):
        return _decimal(at)
    if word in _PLAIN:
        at.next()
        if word in ("VARCHAR", "STRING") and at.symbol("("):  # a length, which is ignored
            if not at.word("STRING"):
                at.integer()
            at.need_symbol(")")
        return _PLAIN[word]
    return _custom(at, word)


def _map(at: Cursor) -> SqlType:
    at.next()
    at.need_symbol("<")
    key = type_name(at)
    at.need_symbol(",")
    value = type_name(at)
    at.need_symbol(">")
    return types.map_of(key, value)


def _struct(at: Cursor) -> SqlType:
    at.next()
    if at.symbol("<>"):
        return SqlType(SqlBaseType.STRUCT)
    at.need_symbol("<")
    if at.symbol(">"):
        return SqlType(SqlBaseType.STRUCT)
    fields = at.listed(lambda: (at.name("the name of a field"), type_name(at)))
    at.need_symbol(">")
    return types.struct(*fields)


def _decimal(at: Cursor) -> SqlType:
    token = at.next()
    at.need_symbol("(")
    precision = at.integer("the precision")
    at.need_symbol(",")
    scale = at.integer("the scale")
    at.need_symbol(")")
    shown = f"DECIMAL({precision}, {scale})"
    if precision < 1:
        at.fail(
            f"DECIMAL precision must be >= 1: {shown}",
            "Precision is the number of all digits.",
            token,
        )
    if precision < scale:
        at.fail(
            f"DECIMAL precision must be >= scale: {shown}",
            "Precision is the number of all digits, scale that of digits after the point.",
            token,
        )
    if precision > PRECISION_MAX:
        at.fail(f"DECIMAL precision must be <= {PRECISION_MAX}: {shown}", "", token)
    return types.decimal(precision, scale)


def _custom(at: Cursor, word: str) -> SqlType:
    token = at.token
    if word in ("ARRAY", "MAP", "STRUCT"):
        example = {"ARRAY": "<INT>", "MAP": "<STRING, INT>", "STRUCT": "<A INT, B STRING>"}[word]
        at.next()
        at.fail(f"{word} needs element types", f"For example: {word}{example}.", token)
    if word == "DECIMAL":
        at.fail("DECIMAL needs a precision and a scale", "For example: DECIMAL(10, 2).")
    name = at.name("a type")
    if name in at.types:
        return at.types[name]
    meant = get_close_matches(name, [*TYPE_WORDS, *at.types], 1, 0.7)
    if name in _ELSEWHERE:
        remedy = f"Write {_ELSEWHERE[name]}."
    elif meant:
        remedy = f"Did you mean {meant[0]}?"
    else:
        remedy = "SHOW TYPES lists custom types; CREATE TYPE adds one."
    at.fail(f"Cannot resolve unknown type: {name}", remedy, token)
