"""Scopes: the columns and variables that an expression may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.types import SqlType
from ottla.sql.functions import BUILTIN, FunctionRegistry
from ottla.sql.text import Text

ORDER_BY_OFFSET: Final = "struct(`ROWOFFSET`, `ROWTIME`, `ROWPARTITION`)"
"""The order of rows in a group, if all of them come from one partition."""
ORDER_BY_TIME: Final = "struct(`ROWTIME`, `ROWPARTITION`, `ROWOFFSET`)"
"""The same if they come from several partitions, whose offsets can't be compared."""

NO_CONSTANT: Final = object()


@dataclass(frozen=True, slots=True)
class Value:
    """A translated expression: its type (None for NULL) and its text in both languages.

    `constant` is the Python value of a literal. `nullable` is False if it is never NULL."""

    type: SqlType | None
    text: Text
    constant: Any = NO_CONSTANT
    nullable: bool = True

    @property
    def is_constant(self) -> bool:
        return self.constant is not NO_CONSTANT


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that an expression may use: (alias or "", name) -> (type, text).

    `clause` is its name in errors: SELECT, WHERE. `aggregates`: aggregates are allowed.
    `variables` are the arguments of enclosing lambdas. `table`: the source is a table. `spark`:
    Spark must be able to compute the expression, in addition to Python.
    """

    columns: Mapping[tuple[str, str], tuple[SqlType, Text]]
    clause: str = ""
    functions: FunctionRegistry = BUILTIN
    aggregates: bool = False
    table: bool = False
    order: str = ORDER_BY_OFFSET
    settings: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, tuple[SqlType, Text]] = field(default_factory=dict)
    depth: int = 0
    spark: bool = True

    def within(self, variables: Mapping[str, tuple[SqlType, Text]]) -> Scope:
        """The scope of a lambda's body."""
        known = {**self.variables, **variables}
        return replace(self, variables=known, depth=self.depth + 1, aggregates=False)

    def resolve(self, column: exp.Column) -> Value:
        name, alias = column.name, column.table
        if not alias and name in self.variables:
            return Value(*self.variables[name])
        found = self.columns.get((alias, name))
        if found is None and not alias:
            found = self._from_any_alias(column)
        if found is None:
            raise self._unknown(column)
        return Value(*found)

    def _from_any_alias(self, column: exp.Column) -> tuple[SqlType, Text] | None:
        aliases = sorted(alias for alias, name in self.columns if name == column.name)
        if len(aliases) > 1:
            could_be = " or ".join(f"{alias}.{column.name}" for alias in aliases)
            raise error_at(
                column,
                f"Column '{column.name}' is ambiguous. Could be {could_be}.",
                remedy=f"Qualify it with its source: {aliases[0]}.{column.name}.",
            )
        return self.columns[aliases[0], column.name] if aliases else None

    def _unknown(self, column: exp.Column) -> SqlError:
        shown = f"{column.table}.{column.name}" if column.table else column.name
        place = f"{self.clause} column" if self.clause else "Column"
        names = sorted({name for alias, name in self.columns if column.table in ("", alias)})
        near = get_close_matches(column.name, names, 1) or _same_but_for_case(column.name, names)
        if near:
            remedy = f"Did you mean {near[0]}?"
        elif names:
            remedy = f"There are: {', '.join(names)}."
        else:
            known = sorted({alias for alias, _ in self.columns if alias})
            remedy = f"Sources of this query: {', '.join(known)}." if known else ""
        return error_at(column, f"{place} '{shown}' cannot be resolved.", remedy=remedy)


def _same_but_for_case(name: str, names: list[str]) -> list[str]:
    return [f"`{candidate}`" for candidate in names if candidate.upper() == name.upper()]


def error_at(node: exp.Expression, message: str, *, remedy: str = "") -> SqlError:
    """An error with the position of the node, if it is known."""
    line, column = position_of(node)
    return SqlError(message, remedy=remedy, line=line, column=column)


def placed(error: SqlError, node: exp.Expression) -> SqlError:
    """Add the position of the node to an error without position."""
    if not error.line:
        error.line, error.column = position_of(node)
    return error


def position_of(node: exp.Expression) -> tuple[int, int]:
    for child in node.walk():
        if "line" in child.meta:
            return int(child.meta["line"]), int(child.meta.get("col", 0))
    return 0, 0
