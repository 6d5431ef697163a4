"""The parser: text to statements. The first word of a statement selects the function for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace as changed
from typing import Final

from ottla.rows.errors import SqlError
from ottla.rows.types import SqlType
from ottla.sql.syntax import commands, definitions, mistakes, variables
from ottla.sql.syntax.cursor import Cursor
from ottla.sql.syntax.expressions import BeyondKsql
from ottla.sql.syntax.expressions import expression as read_expression
from ottla.sql.syntax.statements import (
    CreateType,
    Define,
    DropType,
    Explain,
    Expression,
    Statement,
    Undefine,
)
from ottla.sql.syntax.tokens import SqlToken, StatementText, TextPositions, scan, statement_texts
from ottla.sql.syntax.type_names import type_name


def parse(
    text: str,
    *,
    types: Mapping[str, SqlType] = {},
    variables: Mapping[str, str] = {},
) -> list[Statement]:
    """The statements of a text. `types` and `variables` are those defined before; the text may
    define more for its later statements."""
    return _StatementParser(text, types, variables).statements()


def parse_expression(text: str, *, types: Mapping[str, SqlType] = {}) -> Expression:
    """Parse a text that is a single expression."""
    at = Cursor(text, list(scan(text)), types=types, position_of=TextPositions(text).of)
    try:
        found = read_expression(at)
    except BeyondKsql as beyond:
        at.fail(f"{beyond.what} is not allowed in an expression here", at=beyond.token)
    if not at.at_end:
        at.unexpected()
    return found


def parse_type(text: str, *, types: Mapping[str, SqlType] = {}) -> SqlType:
    at = Cursor(text, list(scan(text)), types=types, position_of=TextPositions(text).of)
    found = type_name(at)
    if not at.at_end:
        at.unexpected()
    return found


class _StatementParser:
    """The state of one call of `parse`: its statements may define types and variables."""

    def __init__(
        self, text: str, types: Mapping[str, SqlType], variables: Mapping[str, str]
    ) -> None:
        self._text = text
        self._types = dict(types)
        self._variables = {name.upper(): value for name, value in variables.items()}
        self._positions = TextPositions(text)

    def statements(self) -> list[Statement]:
        found = []
        for piece in statement_texts(self._text):
            statement = self._statement(piece)
            self._learn(statement)
            found.append(statement)
        return found

    def _statement(self, piece: StatementText) -> Statement:
        replaced = variables.substitute_variables(self._text, piece, self._variables)

        def position_of(offset: int) -> tuple[int, int]:
            return self._positions.of(replaced.original(offset))

        tokens = self._tokens(replaced, position_of)
        at = Cursor(replaced.text, tokens, types=self._types, position_of=position_of)
        statement = _read(at)
        if not at.at_end:
            at.is_symbol(";")
            at.unexpected()
        if not piece.closed:
            at.fail(*mistakes.no_semicolon())
        line, column = self._positions.of(piece.start)
        return changed(statement, text=replaced.text, line=line, column=column)

    def _tokens(
        self, replaced: variables.Substitution, position_of: Callable[[int], tuple[int, int]]
    ) -> list[SqlToken]:
        try:
            tokens = list(scan(replaced.text))
        except SqlError as error:  # the value of a variable is not valid
            error.line, error.column = position_of(0)
            raise
        return tokens[:-1] if tokens and tokens[-1].text == ";" else tokens

    def _learn(self, statement: Statement) -> None:
        if isinstance(statement, CreateType):
            if not (statement.if_not_exists and statement.name in self._types):
                self._types[statement.name] = statement.type
        elif isinstance(statement, DropType):
            self._types.pop(statement.name, None)
        elif isinstance(statement, Define):
            self._variables[statement.name.upper()] = statement.value
        elif isinstance(statement, Undefine):
            self._variables.pop(statement.name.upper(), None)


def _read(at: Cursor) -> Statement:
    read = _STATEMENTS.get(at.token.value)
    if read is None:
        at.fail(*mistakes.unknown_statement(at.token))
    return read(at)


def _explain(at: Cursor) -> Statement:
    at.need_word("EXPLAIN")
    start = at.token
    if at.is_name and at.ahead().value == "":
        return Explain(query_id=at.name_as_written("the id of a query"))
    statement = _read(at)
    line, column = at.position(start)
    inner = changed(statement, text=at.text[start.start :], line=line, column=column)
    return Explain(statement=inner)


_STATEMENTS: Final[Mapping[str, Callable[[Cursor], Statement]]] = {
    "SELECT": commands.select,
    "WITH": commands.select,
    "CREATE": definitions.create_definition,
    "INSERT": definitions.insert,
    "DROP": definitions.drop_definition,
    "ALTER": commands.alter_system,
    "SHOW": commands.show,
    "LIST": commands.show,
    "DESCRIBE": commands.describe,
    "EXPLAIN": _explain,
    "PRINT": commands.print_topic,
    "TERMINATE": commands.terminate,
    "PAUSE": commands.pause,
    "RESUME": commands.resume,
    "SET": commands.set_property,
    "UNSET": commands.unset_property,
    "DEFINE": commands.define,
    "UNDEFINE": commands.undefine,
    "RUN": commands.run_script,
    "ASSERT": commands.assert_command,
}
