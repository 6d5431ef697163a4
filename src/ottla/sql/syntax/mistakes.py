"""Remedies for common mistakes in statements."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from ottla.rows.reserved_words import RESERVED_WORDS, UNIT_MS
from ottla.sql.syntax.tokens import Lexeme, SqlToken

EXPECTED_MAX: Final = 10
"""The maximum number of expected tokens in a message; longer lists don't help."""

STATEMENTS: Final = (
    *("SELECT", "CREATE", "INSERT", "DROP", "ALTER", "SHOW", "LIST", "DESCRIBE", "EXPLAIN"),
    *("PRINT", "TERMINATE", "PAUSE", "RESUME", "SET", "UNSET", "DEFINE", "UNDEFINE", "RUN"),
    *("ASSERT", "WITH"),
)

_ELSEWHERE: Final = {
    "UPDATE": "INSERT INTO ... VALUES with the same key replaces a row of a table.",
    "DELETE": "Produce a tombstone (a record with a key and no value) to delete a table's row.",
    "USE": "There is only one namespace: leave out USE.",
    "DESC": "Write DESCRIBE.",
    "TRUNCATE": "DROP ... DELETE TOPIC deletes a stream or table with all its records.",
    "KILL": "TERMINATE ends a query.",
    "STOP": "TERMINATE ends a query, PAUSE pauses it.",
    "START": "RESUME resumes a paused query.",
    "EXIT": "exit is a command of the shell, without a semicolon.",
    "QUIT": "exit leaves the shell.",
}


def explain_mistake(
    before: SqlToken, token: SqlToken, after: SqlToken, expected: Iterable[str], what: str
) -> tuple[str, str]:
    """Message and remedy for an unexpected token; `expected` are words, `what` describes others."""
    words = sorted(expected)
    wanted = [what] if what else words
    message = f"unexpected {_shown(token)}{_wanted(wanted)}"
    return message, _remedy(token, after, words, what) or _word_before(before, words)


def _shown(token: SqlToken) -> str:
    return "end of statement" if token.kind is Lexeme.END else f"'{token.text}'"


def _wanted(wanted: list[str]) -> str:
    if not wanted or len(wanted) > EXPECTED_MAX:
        return ""
    if len(wanted) == 1:
        return f", expected {wanted[0]}"
    return f", expected {', '.join(wanted[:-1])} or {wanted[-1]}"


def _remedy(token: SqlToken, after: SqlToken, words: list[str], what: str) -> str:
    if token.text == "==":
        return "Use a single equals sign: a = b."
    if token.text.startswith('"') and "string" in what:
        return f"Use single quotes for strings: '{token.value}'. Double quotes are for names."
    if token.kind is Lexeme.STRING and "name" in what:
        return f"Use back quotes for names: `{token.value}`. Single quotes are for strings."
    if token.kind is Lexeme.WORD:
        return _word(token, after, words, what)
    if token.kind is Lexeme.END and "')'" in words:
        return "An opening parenthesis or bracket is not closed."
    if token.kind is Lexeme.END and len(words) > EXPECTED_MAX:
        return _what_is_missing(words)
    return ""


def _what_is_missing(words: list[str]) -> str:
    """What is usually forgotten, out of a long list."""
    if "FROM" in words:
        return "FROM with a stream or table is missing."
    if "STREAMS" in words:
        return "For example: STREAMS, TABLES, TOPICS, QUERIES, FUNCTIONS or PROPERTIES."
    return ""


def _word(token: SqlToken, after: SqlToken, words: list[str], what: str) -> str:
    meant = get_close_matches(token.value, [word for word in words if word.isupper()], 1, 0.7)
    if meant:
        return f"Did you mean {meant[0]}?"
    if "string" in what:
        return f"Use single quotes for strings: '{token.text}'."
    begins = after.kind in (Lexeme.WORD, Lexeme.QUOTED, Lexeme.STRING)
    begins = begins or token.value == "SELECT"
    if token.value in STATEMENTS and begins and "name" not in what:
        return "If a new statement starts here, a semicolon (;) is missing before it."
    if token.value in RESERVED_WORDS and what and what != "';'":
        return f"{token.value} is a reserved word; use back quotes for a name: `{token.value}`."
    return ""


def _word_before(before: SqlToken, words: list[str]) -> str:
    """`SELECT a FORM s`: the misspelled word is the one before, which was read as an alias."""
    if before.kind is not Lexeme.WORD or before.value in RESERVED_WORDS:
        return ""
    meant = get_close_matches(before.value, [word for word in words if word.isupper()], 1, 0.7)
    return f"Did you mean {meant[0]} instead of {before.text}?" if meant else ""


def unknown_statement(token: SqlToken) -> tuple[str, str]:
    message = f"unknown statement: {token.text}"
    if token.value in _ELSEWHERE:
        return message, _ELSEWHERE[token.value]
    meant = get_close_matches(token.value, STATEMENTS, 1, 0.7)
    if meant:
        return message, f"Did you mean {meant[0]}?"
    return message, f"A statement starts with one of {', '.join(STATEMENTS)}."


def wrong_unit(token: SqlToken) -> tuple[str, str]:
    message = f"unexpected {_shown(token)}, expected a unit of time"
    meant = get_close_matches(token.value, UNIT_MS, 1, 0.5)
    short = {"MS": "MILLISECONDS", "S": "SECONDS", "SEC": "SECONDS", "SECS": "SECONDS"}
    short |= {"M": "MINUTES", "MIN": "MINUTES", "MINS": "MINUTES", "H": "HOURS", "D": "DAYS"}
    short |= {"WEEK": "7 DAYS", "WEEKS": "DAYS: a week has 7", "HR": "HOURS", "HRS": "HOURS"}
    if token.value in short:
        return message, f"Did you mean {short[token.value]}?"
    if meant:
        return message, f"Did you mean {meant[0]}S?"
    return message, f"Units are {', '.join(UNIT_MS)}, each with or without an S."


def no_semicolon() -> tuple[str, str]:
    return "missing ';' at the end of the statement", "End every statement with a semicolon (;)."
