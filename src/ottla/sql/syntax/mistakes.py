"""What somebody meant who wrote this: a sentence for each of the commonest mistakes."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from ottla.rows.reserved_words import RESERVED, UNIT_MS
from ottla.sql.syntax.scanner import Lexeme, Token

EXPECTED_MAX: Final = 10
"""A longer list of what could stand in a place helps nobody."""

STATEMENTS: Final = (
    *("SELECT", "CREATE", "INSERT", "DROP", "ALTER", "SHOW", "LIST", "DESCRIBE", "EXPLAIN"),
    *("PRINT", "TERMINATE", "PAUSE", "RESUME", "SET", "UNSET", "DEFINE", "UNDEFINE", "RUN"),
    *("ASSERT", "WITH"),
)

_ELSEWHERE: Final = {
    "UPDATE": "Rows are not updated: INSERT INTO ... VALUES with the same key replaces a row.",
    "DELETE": "A record with the key and no value, produced to the topic, deletes a table's row.",
    "USE": "There is one name space: USE has nothing to choose.",
    "DESC": "Write DESCRIBE.",
    "TRUNCATE": "DROP ... DELETE TOPIC deletes a stream or table with all its records.",
    "KILL": "TERMINATE ends a query.",
    "STOP": "TERMINATE ends a query, PAUSE holds it.",
    "START": "RESUME lets a paused query go on.",
    "EXIT": "exit is a word of the shell: it stands alone, without a semicolon.",
    "QUIT": "exit leaves the shell.",
}


def explain(
    before: Token, token: Token, after: Token, expected: Iterable[str], what: str
) -> tuple[str, str]:
    """The message and the remedy for a token that can't stand where it does: one of the expected
    words could, or, in words, `what`."""
    words = sorted(expected)
    wanted = [what] if what else words
    message = f"unexpected {_shown(token)}{_wanted(wanted)}"
    return message, _remedy(token, after, words, what) or _word_before(before, words)


def _shown(token: Token) -> str:
    return "end of statement" if token.kind is Lexeme.END else f"'{token.text}'"


def _wanted(wanted: list[str]) -> str:
    if not wanted or len(wanted) > EXPECTED_MAX:
        return ""
    if len(wanted) == 1:
        return f", expected {wanted[0]}"
    return f", expected {', '.join(wanted[:-1])} or {wanted[-1]}"


def _remedy(token: Token, after: Token, words: list[str], what: str) -> str:
    if token.text == "==":
        return "Equality is one equals sign: a = b."
    if token.text.startswith('"') and "string" in what:
        return f"Strings take single quotes: '{token.value}'. Double quotes are for names."
    if token.kind is Lexeme.STRING and "name" in what:
        return f"Names take back quotes: `{token.value}`. Single quotes are for strings."
    if token.kind is Lexeme.WORD:
        return _word(token, after, words, what)
    if token.kind is Lexeme.END and "')'" in words:
        return "A bracket was opened and not closed."
    if token.kind is Lexeme.END and len(words) > EXPECTED_MAX:
        return _what_is_missing(words)
    return ""


def _what_is_missing(words: list[str]) -> str:
    """Of a long list what people forget."""
    if "FROM" in words:
        return "FROM and a stream or table are missing."
    if "STREAMS" in words:
        return "For example: STREAMS, TABLES, TOPICS, QUERIES, FUNCTIONS or PROPERTIES."
    return ""


def _word(token: Token, after: Token, words: list[str], what: str) -> str:
    meant = get_close_matches(token.value, [each for each in words if each.isupper()], 1, 0.7)
    if meant:
        return f"Did you mean {meant[0]}?"
    if "string" in what:
        return f"Strings take single quotes: '{token.text}'."
    begins = after.kind in (Lexeme.WORD, Lexeme.QUOTED, Lexeme.STRING)
    begins = begins or token.value == "SELECT"
    if token.value in STATEMENTS and begins and "name" not in what:
        return "Does a new statement begin here? Then a semicolon (;) is missing before it."
    if token.value in RESERVED and what and what != "';'":
        return f"{token.value} is a reserved word; as a name it takes back quotes: `{token.value}`."
    return ""


def _word_before(before: Token, words: list[str]) -> str:
    """`SELECT a FORM s`: the mistake is one word back, where it was taken for a name."""
    if before.kind is not Lexeme.WORD or before.value in RESERVED:
        return ""
    meant = get_close_matches(before.value, [each for each in words if each.isupper()], 1, 0.7)
    return f"Did you mean {meant[0]} instead of {before.text}?" if meant else ""


def unknown_statement(token: Token) -> tuple[str, str]:
    message = f"unknown statement: {token.text}"
    if token.value in _ELSEWHERE:
        return message, _ELSEWHERE[token.value]
    meant = get_close_matches(token.value, STATEMENTS, 1, 0.7)
    if meant:
        return message, f"Did you mean {meant[0]}?"
    return message, f"A statement begins with one of {', '.join(STATEMENTS)}."


def wrong_unit(token: Token) -> tuple[str, str]:
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
