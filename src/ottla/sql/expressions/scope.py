"""What names in an expression stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.types import SqlType
from ottla.sql.functions import BUILTIN, Functions
from ottla.sql.text import Text

ORDER_BY_OFFSET: Final = "struct(`ROWOFFSET`, `ROWTIME`, `ROWPARTITION`)"
"""How rows follow each other where all rows of a group come from one partition."""
ORDER_BY_TIME: Final = "struct(`ROWTIME`, `ROWPARTITION`, `ROWOFFSET`)"
"""... where they come from many: offsets of two partitions say nothing about each other."""

NO_CONSTANT: Final = object()


@dataclass(frozen=True, slots=True)
class Value:
    """An expression translated: its type (None: a bare NULL), and its text in both languages.

    `constant` is the Python value of a literal. `nullable` is False where no row gives NULL."""

    type: SqlType | None
    text: Text
    constant: Any = NO_CONSTANT
    nullable: bool = True

    @property
    def is_constant(self) -> bool:
        return self.constant is not NO_CONSTANT


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that an expression may name: (alias or "", name) -> (type, its text).

    `clause` is what errors call the place: SELECT, WHERE. `aggregates`: whether aggregates are
    allowed here. `variables` are the arguments of the lambdas around an expression, and `table`
    whether the source is a table. `spark`: Spark has to compute it, and not Python alone.
    """

    columns: Mapping[tuple[str, str], tuple[SqlType, Text]]
    clause: str = ""
    functions: Functions = BUILTIN
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
                remedy=f"Write the source's name before it: {aliases[0]}.{column.name}.",
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
            remedy = f"There are the sources {', '.join(known)}." if known else ""
        return error_at(column, f"{place} '{shown}' cannot be resolved.", remedy=remedy)


def _same_but_for_case(name: str, names: list[str]) -> list[str]:
    return [f"`{each}`" for each in names if each.upper() == name.upper()]


def error_at(node: exp.Expression, message: str, *, remedy: str = "") -> SqlError:
    """An error with the place of the node, where the parser knew it."""
    line, column = place_of(node)
    return SqlError(message, remedy=remedy, line=line, column=column)


def placed(error: SqlError, node: exp.Expression) -> SqlError:
    """The same error, with a place if it has none."""
    if not error.line:
        error.line, error.column = place_of(node)
    return error


def place_of(node: exp.Expression) -> tuple[int, int]:
    for each in node.walk():
        if "line" in each.meta:
            return int(each.meta["line"]), int(each.meta.get("col", 0))
    return 0, 0
