"""The names in a query: which source each column is of.

An expression that is bound has only columns that say their relation, `ALIAS.NAME`, so that two of
them are equal exactly if they are the same tree.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.schema import PSEUDO_COLUMNS, WINDOW_BOUNDS
from ottla.rows.types import SqlType
from ottla.sql.catalog import Catalog, Source
from ottla.sql.expressions import Scope, typed
from ottla.sql.syntax.statements import Expression, Query, Relation
from ottla.sql.text import Text, column

JOIN_KEY: Final = "ROWKEY"
MADE: Final = ""
"""The relation of what a stage computes itself: groups, aggregates, window bounds."""


@dataclass(frozen=True, slots=True)
class Named:
    """A source under its alias. `columns`: those of the schema; pseudo columns come on top."""

    alias: str
    source: Source

    @property
    def columns(self) -> dict[str, SqlType]:
        return {each.name: each.type for each in self.source.schema.columns}

    @property
    def pseudo_columns(self) -> dict[str, SqlType]:
        return {**PSEUDO_COLUMNS, **(WINDOW_BOUNDS if self.source.is_windowed else {})}

    def type_of(self, name: str) -> SqlType | None:
        return self.columns.get(name) or self.pseudo_columns.get(name)


@dataclass(frozen=True, slots=True)
class Names:
    """All relations of a query, and what else may be spoken of in it (by plain name)."""

    relations: tuple[Named, ...]
    made: dict[str, SqlType] = field(default_factory=dict)
    spark: bool = True
    """Spark has to be able to compute all expressions, and not Python alone."""

    def find(self, alias: str) -> Named | None:
        return next((each for each in self.relations if each.alias == alias), None)

    @property
    def joined(self) -> bool:
        return len(self.relations) > 1

    @property
    def join_key(self) -> str:
        """What the key of a join is called whose sides may both be missing, or are joined by
        expressions: ROWKEY, or ROWKEY_1 and so on where a source has that already."""
        taken = {name for each in self.relations for name in each.columns}
        choices = itertools.chain([JOIN_KEY], (f"{JOIN_KEY}_{n}" for n in itertools.count(1)))
        return next(each for each in choices if each not in taken)

    def clashes(self, name: str) -> bool:
        """More than one relation has a column of this name."""
        return sum(each.type_of(name) is not None for each in self.relations) > 1

    def type_of(self, alias: str, name: str) -> SqlType:
        if alias == MADE:
            return self.made[name]
        relation = self.find(alias)
        found = relation.type_of(name) if relation else None
        assert found is not None, (alias, name)
        return found

    def bind(self, expression: Expression, clause: str) -> Expression:
        """The expression with each column's relation in it; SqlError for a name nobody has.

        Parentheses around all of it go: `(a + b)` is what `a + b` is.
        """
        bare = expression
        while isinstance(bare, exp.Paren):
            bare = bare.this
        return _bind(bare.copy(), self, clause, frozenset())

    def resolve(self, column: exp.Column, clause: str) -> Expression:
        name, qualifier = column.name, column.table
        if qualifier:
            relation = self.find(qualifier)
            if relation is None and self._has(qualifier):
                raise _unresolved(column, f"{qualifier}.{name}", clause, _struct_hint(column))
            if relation is None:
                there = ", ".join(each.alias for each in self.relations)
                raise _at(
                    column,
                    f"'{qualifier}' is not a valid stream/table name or alias.",
                    f"Those of this query: {there}.",
                )
            if name in self.made and name in WINDOW_BOUNDS:
                return reference(MADE, name)
            if relation.type_of(name) is None:
                raise _unresolved(column, f"{qualifier}.{name}", clause, self._near(name))
            return reference(qualifier, name)
        if name in self.made:
            return reference(MADE, name)
        having = [each for each in self.relations if each.type_of(name) is not None]
        if not having:
            raise _unresolved(column, name, clause, self._near(name))
        if len(having) > 1:
            choices = " or ".join(f"{each.alias}.{name}" for each in having)
            raise _at(
                column,
                f"Column '{name}' is ambiguous. Could be {choices}.",
                "Write the name of the source before the column.",
            )
        return reference(having[0].alias, name)

    def _has(self, name: str) -> bool:
        return any(each.type_of(name) is not None for each in self.relations)

    def _near(self, name: str) -> str:
        import difflib

        there = [column for each in self.relations for column in each.columns]
        close = difflib.get_close_matches(name, there, 1)
        if close:
            return f"Did you mean {close[0]}?"
        return f"The columns there are: {', '.join(dict.fromkeys(there))}."


def names_of(query: Query, catalog: Catalog) -> Names:
    """The relations of a query, found in the catalog."""
    assert query.source is not None
    relations: list[Named] = []
    for each in (query.source, *(join.relation for join in query.joins)):
        found = Named(each.alias or each.name, _find(catalog, each))
        if any(found.alias == other.alias for other in relations):
            raise SqlError(
                f"Each source in a query needs a name of its own: {found.alias} is there twice.",
                remedy=f"Give it another one: {each.name} AS {found.alias}2.",
                line=each.line,
                column=each.column,
            )
        relations.append(found)
    return Names(tuple(relations))


def _find(catalog: Catalog, relation: Relation) -> Source:
    return catalog.find(relation.name, line=relation.line, column=relation.column)


# -- expressions


def reference(alias: str, name: str) -> exp.Column:
    table = exp.Identifier(this=alias, quoted=False) if alias else None
    return exp.Column(this=exp.Identifier(this=name, quoted=False), table=table)


def _bind(node: Expression, names: Names, clause: str, own: frozenset[str]) -> Expression:
    """`own` are the parameters of the lambdas around."""
    if isinstance(node, exp.Column):
        if not node.table and node.name in own:
            return node
        return _placed(names.resolve(node, clause), node)
    if isinstance(node, exp.Lambda):
        own |= {each.name for each in node.expressions}
        node.set("this", _bind(node.this, names, clause, own))
        return node
    return with_children(node, lambda child: _bind(child, names, clause, own))


def with_children(node: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The node, with each of its children changed."""
    for key, value in list(node.args.items()):
        if isinstance(value, list):
            node.set(key, [change(e) if isinstance(e, exp.Expression) else e for e in value])
        elif isinstance(value, exp.Expression) and not isinstance(value, exp.Identifier):
            node.set(key, change(value))
    return node


def _placed(new: Expression, old: Expression) -> Expression:
    new.meta.update(old.meta)
    return new


def replaced(node: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """A copy in which each subtree that `change` has something for is that."""
    found = change(node)
    if found is not None:
        return _placed(found.copy(), node)
    copy = node.copy()
    if isinstance(copy, exp.Column | exp.Identifier):
        return copy
    return with_children(copy, lambda child: replaced(child, change))


def columns_in(expression: Expression) -> Iterator[tuple[str, str]]:
    """(relation, name) of each bound column; parameters of lambdas are not among them."""
    yield from _columns_in(expression, frozenset())


def _columns_in(node: Expression, own: frozenset[str]) -> Iterator[tuple[str, str]]:
    if isinstance(node, exp.Column):
        if node.table or node.name not in own:
            yield node.table, node.name
        return
    if isinstance(node, exp.Lambda):
        own |= {each.name for each in node.expressions}
    for child in node.iter_expressions():
        yield from _columns_in(child, own)


def scope_of(
    names: Names, text: Callable[[str, str], Text], columns: Iterator[tuple[str, str]] | None = None
) -> Scope:
    """The text of each column. `text` is given relation and name."""
    wanted = columns if columns is not None else _all(names)
    known = {each: (names.type_of(*each), text(*each)) for each in wanted}
    return Scope(known, spark=names.spark)


def _all(names: Names) -> Iterator[tuple[str, str]]:
    for relation in names.relations:
        for name in (*relation.columns, *relation.pseudo_columns):
            yield relation.alias, name
    for name in names.made:
        yield MADE, name


def plain_text(_: str, name: str) -> Text:
    """A column of the one input, as the source gives it."""
    return column(name)


def check_boolean(expression: Expression, scope: Scope, clause: str, text: str) -> None:
    found = typed(expression, scope)
    if str(found) != "BOOLEAN":
        raise _at(
            expression,
            f"Type mismatch in {clause} expression: Should evaluate to boolean but is {text}"
            f" ({found}) instead.",
            f"Compare it with something: {clause} {text} = ...",
        )


def _unresolved(node: Expression, name: str, clause: str, remedy: str) -> SqlError:
    return _at(node, f"{clause} column '{name}' cannot be resolved.", remedy)


def _struct_hint(column: exp.Column) -> str:
    return f"Fields of a STRUCT are reached by an arrow: {column.table}->{column.name}."


def _at(node: Expression, message: str, remedy: str) -> SqlError:
    meta = next((each.meta for each in node.walk() if "line" in each.meta), {})
    return SqlError(
        message, remedy=remedy, line=int(meta.get("line", 0)), column=int(meta.get("col", 0))
    )


at = _at
